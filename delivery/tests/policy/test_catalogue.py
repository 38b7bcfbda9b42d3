"""The catalogue says what is sent, in words, in a schema and in an example that agree with one another."""

import pytest
from jsonschema import Draft202012Validator

from delivery import events
from delivery.policy.catalogue import CATALOGUE
from tasks.states import BATCH_OUTCOMES, State

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


def test_the_words_of_states_and_outcomes_are_the_tasks_own():
    """The catalogue may not import them: they are told on a floor above it."""
    told = {one.fields["state"]["const"] for one in CATALOGUE.values() if "state" in one.fields}
    assert told == {State.SUCCEEDED, State.DEAD_LETTER, State.CANCELLED}
    assert tuple(CATALOGUE["batch.completed"].fields["outcome"]["enum"]) == BATCH_OUTCOMES
