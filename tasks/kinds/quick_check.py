"""A kind's schema as one quick question: is this input surely right? Pure. Who is not sure asks the schema itself.

Ten thousand inputs of a batch are right, as a rule, and the validator takes a hundred times as long to say so. Only the
words that are known here are compiled; of a schema with any other word nothing is sure, and it is always asked.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]
_WORDS = frozenset({"title", "description", "default", "examples", "type"})  # `type` is read, the others say nothing
_KNOWN: dict[str, frozenset[str]] = {
    "string": _WORDS | {"minLength", "maxLength", "pattern", "enum"},
    "integer": _WORDS | {"minimum", "maximum"},
    "number": _WORDS | {"minimum", "maximum"},
    "object": _WORDS | {"required", "properties", "additionalProperties"},
}


def compiled(schema: Mapping[str, Any]) -> Check:
    """Answers True only for what the schema lets in and a row can hold; False for what has to be asked about."""
    return _check(schema) or _never


def _never(_value: Any) -> bool:
    return False


def _check(schema: Mapping[str, Any]) -> Check | None:
    """None where the schema says something that is not known here."""
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else list(kinds or [])
    wanted = [name for name in names if name != "null"]
    if len(wanted) != 1 or wanted[0] not in _KNOWN or not schema.keys() <= _KNOWN[wanted[0]]:
        return None
    made = _MAKERS[wanted[0]](schema)
    if made is None or "null" not in names:
        return made
    return lambda value: value is None or made(value)


def _object(schema: Mapping[str, Any]) -> Check | None:
    if schema.get("additionalProperties") is not False or "properties" not in schema:
        return None
    checks: dict[str, Check] = {}
    for name, rule in schema["properties"].items():
        found = _check(rule)
        if found is None:
            return None
        checks[name] = found
    required = frozenset(schema.get("required", ()))

    def check(value: Any) -> bool:
        if type(value) is not dict or not required <= value.keys():
            return False
        for name, item in value.items():
            rule = checks.get(name)
            if rule is None or not rule(item):
                return False
        return True

    return check


def _string(schema: Mapping[str, Any]) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength", float("inf"))
    fits = re.compile(ecma(schema["pattern"])).search if "pattern" in schema else None
    choices = frozenset(schema["enum"]) if "enum" in schema else None

    def check(value: Any) -> bool:
        if type(value) is not str or not least <= len(value) <= most or not is_storable(value):
            return False
        return (fits is None or fits(value) is not None) and (choices is None or value in choices)

    return check


def _number(schema: Mapping[str, Any]) -> Check:
    kinds = schema["type"]
    types = (int,) if "integer" in kinds else (int, float)
    least, most = schema.get("minimum", -float("inf")), schema.get("maximum", float("inf"))
    return lambda value: type(value) in types and least <= value <= most


_MAKERS: dict[str, Callable[[Mapping[str, Any]], Check | None]] = {
    "object": _object,
    "string": _string,
    "integer": _number,
    "number": _number,
}


def ecma(pattern: str) -> str:
    """As ECMA-262 has it, of which JSON Schema's patterns are: `$` is the end, where Python lets a line feed follow."""
    return re.sub(r"(?<!\\)\$", r"\\Z", pattern)


def is_storable(text: str) -> bool:
    """Neither NUL nor half a character: valid JSON, and PostgreSQL stores neither."""
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
