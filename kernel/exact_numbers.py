"""Numbers of JSON that keep their text: what `float` would round, or write otherwise, goes out as it came in.

RFC 8259 §6 sets no limit to a number; `0.1234567890123456789`, `1e2`, `-0` and `1.50` are good JSON, and a receiver
that compares or adds up money reads their text. A number that Python writes back letter by letter stays a plain int or
float, so only odd ones cost anything.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_INT_DIGITS = 4_000  # Python refuses to read or write longer ones as int (CVE-2020-10735)


class TooLarge(ValueError):
    """Good JSON, and infinity once it is read: no column, no integer and no receiver takes that."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number by its text. No float and no int on purpose: whoever calculates with it must say how."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __float__(self) -> float:
        return float(self.text)


def finite(text: str) -> float:
    """A float as Python reads it. Raises TooLarge."""
    number = float(text)
    if math.isinf(number):
        raise TooLarge(f"the number {text[:20]} is too large")
    return number


def exact_float(text: str) -> float | Number:
    """For `parse_float` of `json.loads`. Raises TooLarge."""
    number = float(text)
    if repr(number) == text:
        return number
    finite(text)
    return Number(text)


def exact_int(text: str) -> int | Number:
    """For `parse_int` of `json.loads`."""
    return Number(text) if text == "-0" or len(text) > MAX_INT_DIGITS else int(text)


def loads(raw: bytes | str) -> Any:
    """JSON that we wrote ourselves, with its numbers kept. Raises ValueError as `json.loads` does."""
    return json.loads(raw, parse_float=exact_float, parse_int=exact_int)


def dumps(value: Any, *, default: Callable[[Any], Any] | None = None, **options: Any) -> str:
    """Like `json.dumps`, and a Number is written as its text. As fast as that where there is none.

    The encoder writes a mark nobody can guess for each, and the marks are replaced in its text.
    """
    texts: list[str] = []
    mark = ""

    def kept(item: Any) -> Any:
        nonlocal mark
        if isinstance(item, Number):
            mark = mark or secrets.token_hex(16)
            texts.append(item.text)
            return f"{mark}:{len(texts) - 1}"
        if default is not None:
            return default(item)
        raise TypeError(f"Object of type {type(item).__name__} is not JSON serializable")

    text = json.dumps(value, default=kept, **options)
    return re.sub(rf'"{mark}:(\d+)"', lambda found: texts[int(found[1])], text) if texts else text
