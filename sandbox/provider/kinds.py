"""The three kinds of jobs: what their input has to look like, and what makes their result."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from sandbox.provider import emails, gazetteer, map_search, scoring

KINDS = ("map_search", "email_generation", "scoring")


class BadInput(ValueError):
    """`field` is a dotted path inside the input; the text says what is wrong with it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def kind_named(word: str) -> str | None:
    """The kind for `map_search` and `map-search` alike."""
    name = word.replace("-", "_")
    return name if name in KINDS else None


def checked(kind: str, value: Any) -> dict[str, Any]:
    """The input, if it is one for this kind. Empty optional fields are dropped. Raises BadInput."""
    if not isinstance(value, dict):
        raise BadInput("input", "has to be an object")
    given = {name: item for name, item in value.items() if item is not None and item != ""}
    _CHECKS[kind](given)
    return given


def ready(kind: str) -> bool:
    """Whether a result of this kind can be made at once. The first question begins what it needs."""
    return kind != "map_search" or gazetteer.world().done()


async def result_of(kind: str, job_input: dict[str, Any]) -> dict[str, Any]:
    """Made when it is asked for, always the same for the same input; so finished jobs need no memory for it."""
    if kind == "map_search":
        return map_search.search(job_input, await asyncio.wrap_future(gazetteer.world()))
    return emails.write(job_input) if kind == "email_generation" else scoring.score(job_input)


def _text(given: dict[str, Any], field: str, low: int, high: int, prefix: str = "") -> None:
    value = given.get(field, "")
    if not isinstance(value, str):
        raise BadInput(prefix + field, "has to be text")
    if not low <= len(value.strip()) <= high:
        raise BadInput(prefix + field, f"has to have {low} to {high} characters" if value else "is required")


def _whole(given: dict[str, Any], field: str, low: int, high: int, prefix: str = "") -> None:
    value = given.get(field, low)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise BadInput(prefix + field, f"has to be a whole number from {low} to {high}")


def _matches(given: dict[str, Any], field: str, pattern: str, what: str) -> None:
    value = given.get(field)
    if value is not None and not (isinstance(value, str) and re.fullmatch(pattern, value)):
        raise BadInput(field, f"has to be {what}")


def _check_map_search(given: dict[str, Any]) -> None:
    _text(given, "trade", 1, 100)
    _text(given, "place", 1, 200)
    _matches(given, "country", "[A-Za-z]{2}", "a country code of two letters (ISO 3166)")
    _whole(given, "limit", 1, 50)


def _check_business(given: dict[str, Any]) -> None:
    business = given.get("business")
    if not isinstance(business, dict):
        raise BadInput("business", "has to be an object" if business else "is required")
    _text(business, "name", 1, 500, "business.")
    for field in ("category", "place", "country", "website"):
        if business.get(field) is not None and not isinstance(business[field], str):
            raise BadInput(f"business.{field}", "has to be text")
    for field in ("rating", "reviews"):
        if business.get(field) is not None and (
            not isinstance(business[field], int | float) or isinstance(business[field], bool)
        ):
            raise BadInput(f"business.{field}", "has to be a number")


def _check_email(given: dict[str, Any]) -> None:
    _check_business(given)
    _matches(given, "tone", "friendly|formal", "friendly or formal")
    _matches(given, "language", "[A-Za-z]{2}", "a language code of two letters (ISO 639-1)")


def _check_scoring(given: dict[str, Any]) -> None:
    _check_business(given)
    email = given.get("email", {})
    if not isinstance(email, dict):
        raise BadInput("email", "has to be an object")
    for field in ("subject", "body"):
        if email.get(field) is not None and not isinstance(email[field], str):
            raise BadInput(f"email.{field}", "has to be text")
    _whole(given, "threshold", 0, 100)


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "map_search": _check_map_search,
    "email_generation": _check_email,
    "scoring": _check_scoring,
}
