"""A batch's counters equal a recount, and each revision is announced once, however its last task ends."""

import json

import pytest

from delivery.models import Event
from tasks.engine import lifecycle
from tasks.models import Batch, Task
from tasks.submit import submit_batch
from tasks.tests import drive
from tasks.tests.follow_ups.ending import bury, succeed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_sandbox")]


def two() -> tuple[Batch, int, int]:
    batch = submit_batch("map_search", [{"input": {"trade": "bar", "place": "Oslo"}}] * 2, caller="me")
    first, last = batch.tasks.order_by("pk").values_list("pk", flat=True)
    return batch, first, last


def told(batch: Batch) -> list[tuple[int, str]]:
    """(revision, outcome) of every announcement; the counters looked at on the way."""
    drive.assert_counted()
    batch.refresh_from_db()
    events = [
        json.loads(event.payload)["data"] for event in Event.objects.filter(type="batch.completed").order_by("pk")
    ]
    assert batch.revision == len(events)
    return [(event["revision"], event["outcome"]) for event in events]


def test_the_last_task_is_cancelled() -> None:
    batch, first, last = two()
    succeed(first)
    assert told(batch) == []
    lifecycle.cancel([last], actor="me", reason="")
    assert told(batch) == [(1, "partly")]


def test_the_last_task_is_a_dead_letter_that_is_discarded() -> None:
    batch, first, last = two()
    bury(first, last)
    assert told(batch) == [(1, "none")]
    lifecycle.discard([last], actor="me", reason="")
    assert told(batch) == [(1, "none")] and batch.is_completed
    assert batch.counts == {"dead_letter": 1, "cancelled": 1}


def test_the_last_task_is_redriven_and_ends_well_or_badly() -> None:
    batch, first, last = two()
    succeed(first)
    bury(last)
    lifecycle.redrive([last], actor="me", reason="")
    assert told(batch) == [(1, "partly")] and not batch.is_completed and batch.completed_at is None
    bury(last)
    assert told(batch) == [(1, "partly"), (2, "partly")]
    lifecycle.redrive([last], actor="me", reason="")
    succeed(last)
    assert told(batch) == [(1, "partly"), (2, "partly"), (3, "all_succeeded")]


def test_one_that_is_redriven_and_cancelled_completes_it_anew() -> None:
    batch, first, last = two()
    bury(first, last)
    lifecycle.redrive([first, last], actor="me", reason="")
    lifecycle.cancel_batch(batch.pk, actor="me", reason="")
    assert told(batch) == [(1, "none"), (2, "none")]


def test_all_of_it_ends_in_one_transaction() -> None:
    batch, first, last = two()
    succeed(first, last)
    assert told(batch) == [(1, "all_succeeded")]
    assert Task.objects.filter(batch=batch, state="succeeded").count() == 2


def test_what_ends_twice_counts_once() -> None:
    batch, first, last = two()
    lifecycle.cancel([first, last], actor="me", reason="")
    assert lifecycle.cancel([first, last], actor="me", reason="") == {first: "refused", last: "refused"}
    assert lifecycle.discard([first], actor="me", reason="") == set()
    assert told(batch) == [(1, "none")]
