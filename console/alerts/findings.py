"""What a rule finds. No rule is here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something wrong: which rule, with what, in words, and what to do. `link` is an address of the console."""

    rule: str
    subject: str
    title: str
    detail: str
    advice: str
    link: str
    value: float | None = None
