"""JSON as it must be to be stored: no NUL, lone surrogate, NaN, infinity, doubled key or bottomless nesting."""

import codecs
import json
import re
from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer

from kernel import exact_numbers

MAX_DEPTH = 100  # objects and lists inside one another, in all that comes in; RFC 8259 §9 lets a reader set a limit
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL and halves of characters: PostgreSQL stores neither
REPLACED = "\ufffd"  # stands for what no text may hold
TOO_DEEP = f"… (not shown: it is nested more than {MAX_DEPTH} deep)"


class HostileJSON(ValueError):
    """The text is JSON that cannot be stored or understood one way; the message says why."""


def _no_constant(name: str) -> Any:
    raise HostileJSON(f"{name} is not a JSON value")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        doubled = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise HostileJSON(f"the key {doubled!r} occurs twice in one object")
    return result


def strict_loads(raw: bytes, *, keeps_numbers: bool = False) -> Any:
    """Parse UTF-8 JSON; `HostileJSON` (a ValueError) says what PostgreSQL or a reader would choke on.

    With `keeps_numbers`, a number that Python would write otherwise is an `exact_numbers.Number`.
    """
    as_float = exact_numbers.exact_float if keeps_numbers else exact_numbers.finite
    as_int = exact_numbers.exact_int if keeps_numbers else None
    hooks: Any = {"parse_constant": _no_constant, "object_pairs_hook": _unique_keys}
    try:
        text = _text(raw)
        value = json.loads(text, parse_float=as_float, parse_int=as_int, **hooks)
    except HostileJSON:
        raise
    except exact_numbers.TooLarge as error:
        raise HostileJSON(str(error)) from None
    except RecursionError:
        raise HostileJSON(_TOO_DEEP) from None
    except ValueError as error:
        raise HostileJSON(f"the body is not JSON: {error}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH and is_too_deep(value):
        raise HostileJSON(_TOO_DEEP)
    if "\\u" in text:
        _refuse_unstorable(value)
    elif "\x00" in text:
        raise HostileJSON("the body contains a NUL character")
    return value


def _text(raw: bytes) -> str:
    """UTF-8, without the byte order mark that some senders put before it (RFC 8259 §8.1 lets a reader ignore it)."""
    other = _other_encoding(raw)
    if other:
        raise HostileJSON(f"the body is not UTF-8: it is {other}; send it as UTF-8")
    try:
        return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise HostileJSON(f"the body is not UTF-8 (byte {error.start})") from None


def _other_encoding(raw: bytes) -> str:
    """UTF-16 or UTF-32, by its mark or by the zeros among its first two characters; else ""."""
    for name, marks in _MARKS.items():
        if raw.startswith(marks):
            return name
    return _ZEROS.get(tuple(byte == 0 for byte in raw[:4]), "")


_MARKS = {  # the longer ones first: a UTF-32 mark begins with that of UTF-16
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_ZEROS: dict[tuple[bool, ...], str] = {  # RFC 4627 §3
    (True, True, True, False): "UTF-32",
    (False, True, True, True): "UTF-32",
    (True, False, True, False): "UTF-16",
    (False, True, False, True): "UTF-16",
}
_TOO_DEEP = f"the body is nested too deeply: at most {MAX_DEPTH} objects and lists may lie in one another"


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """Whether more than `most` objects and lists lie in one another. Level by level, so that no depth can break it."""
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list | tuple)
        ]
    return bool(level)


def cut(value: Any) -> Any:
    """The value, or a copy that says `TOO_DEEP` where it is nested deeper than anything we take in today."""
    return _cut(value, MAX_DEPTH) if is_too_deep(value) else value


def _cut(value: Any, left: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not left:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: _cut(item, left - 1) for key, item in value.items()}
    return [_cut(item, left - 1) for item in value]


def shown_loads(raw: bytes | str) -> Any:
    """Stored JSON for showing, with its numbers kept; what is nested too deeply is cut. Raises ValueError."""
    try:
        return cut(exact_numbers.loads(raw))
    except RecursionError:
        return TOO_DEEP


def tolerant_loads(raw: bytes) -> Any:
    """UTF-8 JSON of many entries, of which one bad one must not take the others down. Raises HostileJSON.

    NUL and halves of characters become `REPLACED`, NaN, infinity and the value of a doubled key null; what lies
    too deep is cut. Not for what is stored as data: there it would change what was said.
    """
    try:
        text = _text(raw)
        value = json.loads(
            text, parse_constant=lambda _name: None, parse_float=_finite_or_none, object_pairs_hook=_clear_pairs
        )
    except HostileJSON:
        raise
    except RecursionError:
        raise HostileJSON(_TOO_DEEP) from None
    except ValueError as error:
        raise HostileJSON(f"the body is not JSON: {error}") from None
    value = cut(value)
    return _mended(value) if "\\u" in text else value


def mended_loads(raw: bytes) -> tuple[Any, int]:
    """UTF-8 JSON, and in how many texts of it NUL or half a character was `REPLACED`. Otherwise as `strict_loads`.

    For what has been paid for and comes once: what no text may hold must not cost the rest.
    """
    try:
        return strict_loads(raw), 0
    except HostileJSON as error:
        refused = error
    try:
        text = raw.decode("utf-8")
        hooks: Any = {"parse_constant": _no_constant, "object_pairs_hook": _unique_keys}
        value = json.loads(text, parse_float=exact_numbers.finite, strict=False, **hooks)
    except (ValueError, RecursionError):
        raise refused from None
    if is_too_deep(value):
        raise refused
    replaced = _count_unstorable(value)
    mended = _mended(value)
    if not replaced or _has_clash(value, mended):
        raise refused
    return mended, replaced


def _count_unstorable(value: Any) -> int:
    """Of something that is not too deep."""
    if isinstance(value, str):
        return 1 if _UNSTORABLE.search(value) else 0
    if isinstance(value, list):
        return sum(map(_count_unstorable, value))
    if isinstance(value, dict):
        return sum(map(_count_unstorable, value)) + sum(map(_count_unstorable, value.values()))
    return 0


def _has_clash(value: Any, mended: Any) -> bool:
    """Whether two keys of one object have become the same, so that something would be missing."""
    if isinstance(value, list):
        return any(map(_has_clash, value, mended))
    if isinstance(value, dict):
        return len(value) != len(mended) or any(map(_has_clash, value.values(), mended.values()))
    return False


def _clear_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        result.update({key: None for key, _ in pairs if key in seen or seen.add(key)})  # type: ignore[func-returns-value]
    return result


def _finite_or_none(text: str) -> float | None:
    try:
        return exact_numbers.finite(text)
    except exact_numbers.TooLarge:
        return None


def mended(text: str) -> str:
    """The same text, or one with `REPLACED` for each character that PostgreSQL does not store."""
    return _UNSTORABLE.sub(REPLACED, text) if _UNSTORABLE.search(text) else text


def _mended(value: Any) -> Any:
    """Of something that is not too deep."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def _refuse_unstorable(value: Any) -> None:
    """NUL and lone surrogates arrive as `\\u0000`, `\\ud800`; PostgreSQL stores neither."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            refuse_text(item)
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())


def refuse_text(text: str) -> None:
    """HostileJSON for NUL and for half a character: PostgreSQL stores neither."""
    if "\x00" in text:
        raise HostileJSON("a text contains the NUL character (\\u0000), which cannot be stored")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise HostileJSON("a text contains half of a surrogate pair, which is no character") from None


class StrictJSONParser(JSONParser):
    """DRF's JSON parser with `strict_loads`: refusals are 400s that say why."""

    keeps_numbers = False

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return strict_loads(stream.read(), keeps_numbers=self.keeps_numbers)
        except HostileJSON as error:
            raise ParseError(f"{error}.") from None


class ExactJSONParser(StrictJSONParser):
    """For views that take an event's data: its numbers keep their text."""

    keeps_numbers = True


class ExactJSONRenderer(JSONRenderer):
    """For views that show an event's data, as it was sent."""

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        if data is None:
            return b""
        media_type = accepted_media_type or ""
        indent = self.get_indent(media_type, renderer_context or {})
        separators = (",", ":") if indent is None and self.compact else (", ", ": ") if indent is None else (",", ": ")
        encoder = self.encoder_class()
        text = exact_numbers.dumps(
            data,
            default=encoder.default,
            indent=indent,
            ensure_ascii=self.ensure_ascii,
            allow_nan=not self.strict,
            separators=separators,
        )
        return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()
