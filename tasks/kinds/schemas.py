"""The JSON Schemas of the kinds' inputs, and the check of an input against them. Pure: no model, no setting.

The OpenAPI and `/kinds/` show these very schemas. Nothing a schema does not name is let in.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

Problem = dict[str, str]


def _text(title: str, longest: int, *, required: bool = False) -> dict[str, Any]:
    bounds = {"minLength": 1, "pattern": r"\S"} if required else {}
    return {"type": "string", "title": title, "maxLength": longest, **bounds}


_COUNTRY = {
    "type": "string",
    "title": "Country code (ISO 3166, two letters)",
    "pattern": "^([A-Za-z]{2})?$",
}
_BUSINESS = {
    "type": "object",
    "title": "The business",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": _text("Name", 500, required=True),
        "category": _text("Category", 200),
        "place": _text("Place", 200),
        "country": _COUNTRY,
        "rating": {"type": ["number", "null"], "title": "Stars", "minimum": 0, "maximum": 5},
        "reviews": {"type": ["integer", "null"], "title": "Number of reviews", "minimum": 0},
        "website": _text("Website", 500),
    },
}

MAP_SEARCH = {
    "type": "object",
    "additionalProperties": False,
    "required": ["trade", "place"],
    "properties": {
        "trade": _text("What to look for", 100, required=True),
        "place": _text("Where", 200, required=True),
        "country": _COUNTRY,
        "limit": {"type": "integer", "title": "Most places", "minimum": 1, "maximum": 50, "default": 10},
    },
}
EMAIL_GENERATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["business"],
    "properties": {
        "business": _BUSINESS,
        "tone": {"type": "string", "title": "Tone", "enum": ["friendly", "formal"]},
        "language": {"type": "string", "title": "Language (ISO 639-1)", "pattern": "^([A-Za-z]{2})?$"},
    },
}
SCORING = {
    "type": "object",
    "additionalProperties": False,
    "required": ["business"],
    "properties": {
        "business": _BUSINESS,
        "email": {
            "type": "object",
            "title": "The e-mail to judge with it",
            "additionalProperties": False,
            "properties": {"subject": _text("Subject", 1000), "body": _text("Body", 20_000)},
        },
        "threshold": {"type": "integer", "title": "Score needed to pass", "minimum": 0, "maximum": 100},
    },
}
BATCH_REPORT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["batch"],
    "properties": {
        "batch": {"type": "string", "title": "Id of the batch", "pattern": "^[0-9]{1,18}$"},
        "top": {"type": "integer", "title": "Most rows in the list of the best", "minimum": 1, "maximum": 100,
                "default": 10},
    },
}  # fmt: skip

_CODES = {
    "required": "required",
    "additionalProperties": "unknown_field",
    "type": "wrong_type",
    "minLength": "too_short",
    "maxLength": "too_long",
    "minimum": "too_small",
    "maximum": "too_large",
    "enum": "not_a_choice",
    "pattern": "bad_format",
}


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """As ECMA-262 has it, of which JSON Schema's patterns are: `$` is the end, where Python lets a line feed follow."""
    if isinstance(instance, str) and not re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Validator = validators.extend(Draft202012Validator, {"pattern": _pattern})


@lru_cache(maxsize=64)
def _validator(key: int) -> Any:
    return _Validator(_by_key[key])


_by_key: dict[int, Mapping[str, Any]] = {}


def problems(schema: Mapping[str, Any], value: Any) -> list[Problem]:
    """What is wrong with an input, as `{field, code, detail}`; `field` is a dotted path, `input` for the whole."""
    _by_key.setdefault(id(schema), schema)
    found: dict[str, Problem] = {}
    for error in _validator(id(schema)).iter_errors(value):
        for row in _rows(error):
            found.setdefault(row["field"], row)  # one word for a field is enough
    return list(found.values()) or _unstorable(value)


def _rows(error: ValidationError) -> list[Problem]:
    """One row for each field; jsonschema lumps all unknown fields of an object together."""
    path = [str(part) for part in error.absolute_path]
    code = _CODES.get(str(error.validator), "invalid")
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        wanted = next(name for name in missing if f"'{name}'" in error.message)
        return [_row([*path, wanted], code, "This field is required.")]
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        choices = ", ".join(known)
        extra = [name for name in error.instance if name not in known]
        return [_row([*path, str(name)[:60]], code, f"There is no such field; there are {choices}.") for name in extra]
    return [_row(path, code, _words(error))]


def _row(path: list[str], code: str, detail: str) -> Problem:
    return {"field": ".".join(path) or "input", "code": code, "detail": detail}


def _words(error: ValidationError) -> str:
    wanted = error.validator_value
    match error.validator:
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            return f"This must be {' or '.join(_TYPES[name] for name in names)}."
        case "minLength":
            return "This must not be empty."
        case "maxLength":
            return f"This may have at most {wanted} characters; it has {len(error.instance)}."
        case "minimum":
            return f"This must be at least {wanted}."
        case "maximum":
            return f"This must be at most {wanted}."
        case "enum":
            return f"Choose one of {', '.join(map(str, wanted))}."
        case "pattern":
            return _PATTERNS.get(wanted, "This has the wrong form.")
    return "This is not valid."


_TYPES: dict[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_PATTERNS: dict[str, str] = {
    r"\S": "This must not be blank.",
    "^([A-Za-z]{2})?$": "This must be a code of two letters, such as NO or de.",
    "^[0-9]{1,18}$": "This must be the id of a batch: digits only, as text.",
}


def _unstorable(value: Any, path: tuple[str, ...] = ()) -> list[Problem]:
    """NUL characters and lone surrogates: valid JSON, and PostgreSQL stores neither."""
    if isinstance(value, Mapping):
        return [row for key, item in value.items() for row in _unstorable(item, (*path, str(key)))]
    if isinstance(value, str) and ("\x00" in value or not _is_text(value)):
        return [_row(list(path), "bad_character", "This holds a character that cannot be stored.")]
    return []


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def normalised(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """A valid input as it is stored: defaults filled in, empty and null fields dropped, 10.0 written as 10."""
    kept: dict[str, Any] = {}
    for name, rule in schema["properties"].items():
        given = value.get(name)
        if given is None or given == "":
            if "default" in rule:
                kept[name] = copy.deepcopy(rule["default"])
        elif rule.get("type") == "object":
            kept[name] = normalised(rule, given)
        elif isinstance(given, float) and given.is_integer() and "integer" in rule["type"]:
            kept[name] = int(given)
        else:
            kept[name] = given
    return kept


def from_texts(schema: Mapping[str, Any], row: Mapping[str, str | None]) -> dict[str, Any]:
    """An input from a row of a CSV file: columns are fields, `business.name` goes inside, numbers are read.

    What cannot be read as a number stays text, so that the check names the field.
    """
    made: dict[str, Any] = {}
    for column, text in row.items():
        if text is None or not text.strip():
            continue
        *parents, name = column.strip().split(".")
        rules: Mapping[str, Any] = schema
        into = made
        for parent in parents:
            rules = rules.get("properties", {}).get(parent, {})
            into = into.setdefault(parent, {})
        rule = rules.get("properties", {}).get(name, {})
        into[name] = _read(text.strip(), rule.get("type", "string"))
    return made


_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,200}(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,2})?")


def _read(text: str, kinds: str | list[str]) -> Any:
    """As JSON writes numbers: Python would read `nan`, `1_000` and other scripts' digits as well."""
    if "integer" in kinds:
        return int(text) if _WHOLE.fullmatch(text) else text
    if "number" in kinds:
        return float(text) if _NUMBER.fullmatch(text) else text
    return text
