"""Schemas of kinds that others bring: lists, booleans, free objects, constants."""

import pytest

from tasks.kinds import schemas

OWN = {
    "type": "object",
    "required": ["tags"],
    "properties": {
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "deep": {"type": "boolean", "default": True},
        "mode": {"const": "fast"},
        "any": {},
        "extra": {"type": "object"},
    },
    "additionalProperties": True,
}


def test_a_row_of_a_csv_file_is_read_by_the_fields_types():
    row = {"tags": "a; b", "deep": "False", "mode": "fast", "extra.x": "1"}
    given = schemas.from_texts(OWN, row)
    assert given == {"tags": ["a", "b"], "deep": False, "mode": "fast", "extra": {"x": "1"}}
    assert schemas.problems(OWN, given) == []


def test_defaults_are_filled_in_and_what_a_schema_lets_in_is_kept():
    given = {"tags": ["a"], "any": [1.0], "extra": {"x": {"y": 2}}, "more": {"z": None}}
    assert schemas.normalised(OWN, given) == {**given, "deep": True}


@pytest.mark.parametrize(
    ("given", "row"),
    [
        ({"tags": []}, ("tags", "too_short", "This must have at least 1 entries.")),
        ({"tags": ["a"] * 3}, ("tags", "too_long", "This may have at most 2 entries; it has 3.")),
        ({"tags": ["a"], "deep": "soon"}, ("deep", "wrong_type", "This must be true or false.")),
        ({"tags": ["a"], "mode": "slow"}, ("mode", "not_a_choice", "This must be fast.")),
        ({"tags": ["\x00"]}, ("tags.0", "bad_character", "This holds a character that cannot be stored.")),
        ({}, ("tags", "required", "This field is required.")),
    ],
)
def test_what_is_wrong_is_told_by_field_in_words(given, row):
    assert [tuple(one.values()) for one in schemas.problems(OWN, given)] == [row]


def test_a_schema_without_fields_refuses_every_field_in_words():
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    (row,) = schemas.problems(closed, {"a": 1})
    assert row["detail"] == "There is no such field; there are none."
