"""Tables, and the parts of a page that are made: between `<!-- made: NAME -->` and `<!-- end -->`."""

import re
from collections.abc import Callable, Iterable, Mapping

PART = re.compile(r"(?P<head><!-- made: (?P<name>[\w.-]+) -->\n).*?(?P<foot><!-- end -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def with_parts(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The page with its parts made anew. KeyError for a part that nobody makes, ValueError for one without a place."""
    missing = set(parts) - {place["name"] for place in PART.finditer(page)}
    if missing:
        raise ValueError(f"The page has no place for {', '.join(sorted(missing))}.")
    return PART.sub(lambda place: f"{place['head']}\n{parts[place['name']]().strip()}\n\n{place['foot']}", page)
