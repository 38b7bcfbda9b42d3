"""Rows alike go in by one statement, in their order, and nothing of them is cut."""

from typing import Any

import pytest
from django.db import DataError, transaction

from tasks.engine import clock
from tasks.engine.writing import insert_alike
from tasks.models import Task
from tasks.states import State

pytestmark = pytest.mark.django_db


def _sample() -> Task:
    now = clock.now()
    return Task(kind="map_search", correlation_id="journey-1", state=State.QUEUED, run_at=now, next_attempt_at=now)


def test_what_differs_is_each_rows_own_and_the_rest_is_the_samples(django_assert_num_queries: Any) -> None:
    said = [{"position": n, "reference": f"r{n} '\"ß", "input": {"n": n, "x": "💧\\"}} for n in (2, 0, 1)]
    sample = _sample()
    with django_assert_num_queries(1):
        made = insert_alike(sample, said)
    stored = Task.objects.in_bulk(made)
    assert made == sorted(stored) and [stored[pk].position for pk in made] == [2, 0, 1]
    assert [(row.reference, row.input) for row in map(stored.get, made)] == [(s["reference"], s["input"]) for s in said]
    assert {(row.correlation_id, row.state, row.result, row.attempt_limit) for row in stored.values()} == {
        ("journey-1", "queued", None, 3)
    }
    assert all(row.created_at is not None and row.input_bytes for row in stored.values())


def test_a_text_that_is_too_long_is_refused_and_not_cut() -> None:
    with pytest.raises(DataError), transaction.atomic():
        insert_alike(_sample(), [{"reference": "x" * 201, "input": {}}])
    assert not Task.objects.exists()
