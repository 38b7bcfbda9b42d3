"""JSON as it must be to be stored: no NUL, lone surrogate, NaN, infinity, doubled key or bottomless nesting."""

import json
import math
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class HostileJSON(ValueError):
    """The text is JSON that cannot be stored or understood one way; the message says why."""


def _no_constant(name: str) -> Any:
    raise HostileJSON(f"{name} is not a JSON value")


def _finite(digits: str) -> float:
    """1e400 is good JSON, and infinity once it is read: no column, no integer and no receiver takes that."""
    number = float(digits)
    if math.isinf(number):
        raise HostileJSON(f"the number {digits[:20]} is too large")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        doubled = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise HostileJSON(f"the key {doubled!r} occurs twice in one object")
    return result


def strict_loads(raw: bytes) -> Any:
    """Parse UTF-8 JSON; `HostileJSON` (a ValueError) says what PostgreSQL or a reader would choke on."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(text, parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
    except HostileJSON:
        raise
    except UnicodeDecodeError as error:
        raise HostileJSON(f"the body is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise HostileJSON("the body is nested too deeply") from None
    except ValueError as error:
        raise HostileJSON(f"the body is not JSON: {error}") from None
    if "\\u" in text:
        _refuse_unstorable(value)
    elif "\x00" in text:
        raise HostileJSON("the body contains a NUL character")
    return value


def _refuse_unstorable(value: Any) -> None:
    """NUL and lone surrogates arrive as `\\u0000`, `\\ud800`; PostgreSQL stores neither."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            _refuse_text(item)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())


def _refuse_text(text: str) -> None:
    if "\x00" in text:
        raise HostileJSON("a text contains the NUL character (\\u0000), which cannot be stored")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise HostileJSON("a text contains half of a surrogate pair, which is no character") from None


class StrictJSONParser(JSONParser):
    """DRF's JSON parser with `strict_loads`: refusals are 400s that say why."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return strict_loads(stream.read())
        except HostileJSON as error:
            raise ParseError(f"{error}.") from None
