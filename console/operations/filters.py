"""What the filter of an operation may say. Filters are checked here and nowhere else.

A field that is absent narrows nothing. A field that is there means exactly what it says, or is refused in words: an
empty text never stands for "all". Relative times ("24h") are pinned when the operation is planned.
"""

import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.dateparse import parse_datetime

from kernel.api.problems import BadInput
from tasks.states import OPEN_STATES

MAX_IDS = 1_000
MAX_TYPES = 50
MAX_TEXT = 200
ALWAYS = frozenset({"ids", "all"})
_RELATIVE = re.compile(r"\A(\d{1,5})(m|h|d)\Z")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def pinned(allowed: Collection[str], required: Collection[str], asked: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The filter as it is kept: known fields, right types, absolute times. BadInput names each wrong field."""
    errors: list[dict[str, str]] = []
    kept: dict[str, Any] = {}
    known = ALWAYS.union(allowed)
    for name, value in asked.items():
        try:
            if name not in known:
                raise ValueError(f"unknown; use {', '.join(sorted(known))}")
            kept[name] = _READ[name](value, now)
        except (ValueError, TypeError) as error:
            errors.append({"field": f"filter.{name}", "code": "invalid", "detail": str(error)})
    for name in set(required) - asked.keys():
        errors.append({"field": f"filter.{name}", "code": "required", "detail": "This verb needs it."})
    if not errors and not kept:
        detail = 'Say which rows are meant, or {"all": true} if you mean all of them.'
        errors.append({"field": "filter", "code": "empty_filter", "detail": detail})
    if errors:
        raise BadInput(f"{errors[0]['field']}: {errors[0]['detail']}", errors=errors)
    return kept


def at(text: str | None) -> datetime | None:
    """A pinned time."""
    return parse_datetime(text) if text else None


def _text(value: Any, _now: datetime) -> str:
    """Exactly this text; empty means the rows where it is empty."""
    if not isinstance(value, str) or "\x00" in value or len(value) > MAX_TEXT:
        raise ValueError("must be a short text")
    return value


def _word(value: Any, now: datetime) -> str:
    """Of a column that is never empty: an empty word is a slip, such as a shell variable that was not set."""
    if not _text(value, now):
        raise ValueError("is empty; leave it out, or say which")
    return value


def _open_state(value: Any, _now: datetime) -> str:
    if value not in OPEN_STATES:
        raise ValueError(f"must be one of {', '.join(OPEN_STATES)}")
    return str(value)


def _number(value: Any, _now: datetime) -> int:
    """As a number or, like all our ids, as its digits. Never rounded: 1.5 is no endpoint."""
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    number = int(value) if is_digits else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise ValueError("must be a whole number")
    return number


def _time(value: Any, now: datetime) -> str:
    text = str(value)
    if relative := _RELATIVE.match(text):
        return (now - timedelta(**{_UNITS[relative[2]]: int(relative[1])})).isoformat()
    moment = parse_datetime(text)
    if moment is None or moment.tzinfo is None:
        raise ValueError("must be a time with its zone (2026-01-31T12:00:00Z) or an age such as 24h")
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError:
        raise ValueError("is outside of the years 1 to 9999") from None


def _ids(value: Any, now: datetime) -> list[int]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_IDS:
        raise ValueError(f"must list 1 to {MAX_IDS} ids")
    return sorted({_number(one, now) for one in value})


def _true(value: Any, _now: datetime) -> bool:
    if value is not True:
        raise ValueError("can only be true")
    return True


def _types(value: Any, now: datetime) -> list[str]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_TYPES:
        raise ValueError(f"must list 1 to {MAX_TYPES} types; leave it out for those that the endpoint wants")
    return [_word(one, now) for one in value]


_READ: dict[str, Callable[[Any, datetime], Any]] = {
    **dict.fromkeys(("endpoint", "batch", "status_code"), _number),
    **dict.fromkeys(("since", "until"), _time),
    **dict.fromkeys(("subscriber", "reference", "error_code", "fingerprint"), _text),
    **dict.fromkeys(("outcome", "kind"), _word),
    "state": _open_state,
    "ids": _ids,
    "all": _true,
    "types": _types,
}
