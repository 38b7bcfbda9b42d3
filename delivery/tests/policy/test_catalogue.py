"""The catalogue says what is sent, in words, in a schema and in an example that agree with one another."""

import pytest
from jsonschema import Draft202012Validator

from delivery import events
from delivery.policy.catalogue import CATALOGUE

EVERY = pytest.mark.parametrize("one", CATALOGUE.values(), ids=CATALOGUE.keys())


@EVERY
def test_the_example_is_what_the_schema_says(one):
    Draft202012Validator.check_schema(one.schema)
    checks = Draft202012Validator(one.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert [error.message for error in checks.iter_errors(one.payload)] == []


@EVERY
def test_a_field_more_or_less_is_noticed(one):
    checks = Draft202012Validator(one.schema)
    data = dict(one.payload["data"])
    assert list(checks.iter_errors({**one.payload, "data": {**data, "more": 1}}))
    data.popitem()
    assert list(checks.iter_errors({**one.payload, "data": data}))


@EVERY
def test_every_type_is_ours_and_is_told_in_words(one):
    assert one.name.startswith(events.OUR_TYPES)
    assert events.TYPE.fullmatch(one.name)
    for words in (one.meaning, one.sent, one.receivers):
        assert words.endswith(".")
