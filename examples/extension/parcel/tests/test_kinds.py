"""The edges of what goes in, and what may come out."""

import pytest

from parcel import kinds as ours
from tasks import kinds
from tasks.errors import InvalidInput, RunFailed
from tasks.models import Task

GIVEN = {"grams": 500, "to": {"country": "NO", "zip": "0150"}}


def test_an_input_is_completed_with_its_defaults():
    assert kinds.get("parcel").checked(GIVEN) == {**GIVEN, "express": False}


def test_a_row_of_a_csv_file_becomes_an_input():
    row = {"grams": "500", "to.country": "NO", "to.zip": "0150", "express": "true"}
    assert kinds.get("parcel").from_texts(row) == {**GIVEN, "express": True}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"grams": 0}, "grams"),
        ({"to": {"country": "Norway", "zip": "0150"}}, "to.country"),
        ({"express": "soon"}, "express"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_field_is_named(wrong, field):
    with pytest.raises(InvalidInput) as refused:
        kinds.get("parcel").checked({**GIVEN, **wrong})
    assert [row["field"] for row in refused.value.errors] == [field]


@pytest.mark.parametrize("result", [None, [], {}, {"cents": 0}, {"cents": True}, {"cents": "12"}])
def test_a_quote_without_a_price_is_refused(result):
    assert "no price" in ours.price_is_there(GIVEN, result)


def test_a_quote_with_a_price_is_good():
    assert ours.price_is_there(GIVEN, {"cents": 1290}) == ""


def test_a_label_follows_from_a_quote():
    (item,) = ours.quotes_to_labels(Task(input=GIVEN, result={"cents": 1290}))
    label = kinds.get("parcel_label")
    result = label.run(Task(input=label.checked(item["input"])))
    assert result == {"text": "0150 · 12.90"}
    assert label.broken(item["input"], result) is None


def test_a_place_that_is_none_fails_for_good():
    with pytest.raises(RunFailed) as failed:
        ours.write_label(Task(input={"zip": "00001", "cents": 1}))
    assert failed.value.permanent
