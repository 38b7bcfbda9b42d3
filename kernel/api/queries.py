"""Words of a query that must mean exactly what they say, or be refused. It knows no list and no filter."""

from kernel.api.problems import BadInput

LARGEST_ID = 2**63 - 1  # a bigint


def bad_field(name: str, detail: str, code: str = "invalid") -> dict[str, str]:
    return {"field": name, "code": code, "detail": detail}


def whole_number(name: str, text: str, least: int = 0, most: int = LARGEST_ID) -> int:
    """The number that `text` writes in digits, or BadInput: 1.7 is not 1, and what cannot be is not left out."""
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
        return int(text)
    words = f"Use a whole number from {least} to {most}."
    raise BadInput(f"{name}: {words}", code="not_a_number", errors=[bad_field(name, words, "not_a_number")])
