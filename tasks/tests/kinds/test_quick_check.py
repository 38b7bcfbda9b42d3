"""The quick question is never surer than the schema, and says yes to what everybody sends."""

from typing import Any

import pytest

from tasks.kinds import schemas
from tasks.kinds.quick_check import compiled

BUSINESS = {"name": "Bäckerei", "rating": 4.5, "reviews": None}
RIGHT = [
    (schemas.MAP_SEARCH, {"trade": "寿司屋", "place": "東京"}),
    (schemas.MAP_SEARCH, {"trade": "bakery", "place": "Łódź", "country": "", "limit": 50}),
    (schemas.EMAIL_GENERATION, {"business": BUSINESS, "tone": "formal", "language": "no"}),
    (schemas.SCORING, {"business": BUSINESS, "email": {"subject": "", "body": "x"}, "threshold": 0}),
    (schemas.BATCH_REPORT, {"batch": "17"}),
]
SCHEMAS = [schemas.MAP_SEARCH, schemas.EMAIL_GENERATION, schemas.SCORING, schemas.BATCH_REPORT]
PARTS: list[Any] = [
    None, True, False, 0, 1, -1, 10.0, 10.5, 101, float("nan"), "", " ", "x", "x" * 501, "NO", "no\n", "N", "17",
    "17\n", "a\x00b", "\ud800", "formal", [], {}, {"name": ""}, {"name": "x", "y": 1}, BUSINESS,
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), RIGHT)
def test_it_is_sure_of_what_is_right(schema: Any, value: Any) -> None:
    assert compiled(schema)(value) and schemas.problems(schema, value) == []


@pytest.mark.parametrize("schema", SCHEMAS)
def test_it_is_sure_of_nothing_that_the_schema_refuses(schema: Any) -> None:
    check, validator = compiled(schema), schemas._Validator(schema)
    for _, base in [pair for pair in RIGHT if pair[0] is schema]:
        for name in [*schema["properties"], "unknown"]:
            for part in PARTS:
                value = {**base, name: part}
                refused = any(validator.iter_errors(value)) or bool(schemas._unstorable(value))
                assert not (check(value) and refused), value
    assert not any(check(part) for part in PARTS)


@pytest.mark.parametrize(
    "rule",
    [{"type": "string", "format": "uri"}, {"type": "array"}, {"type": ["string", "integer"]}, {"const": 1}, {}],
)
def test_of_words_it_does_not_know_it_is_never_sure(rule: Any) -> None:
    schema = {"type": "object", "additionalProperties": False, "properties": {"a": rule}}
    assert not compiled(schema)({})
    assert not compiled({"type": "object", "properties": {}})({})  # lets anything in beside
