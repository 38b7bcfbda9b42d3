"""Submitting: durable rows, or a refusal that names the field; nothing waits for broker or provider."""

from datetime import timedelta
from typing import Any

import pytest

from tasks.engine import clock, lifecycle
from tasks.errors import BadBatch, InvalidInput
from tasks.models import Batch, Task, Transition
from tasks.states import State
from tasks.submit import submit, submit_batch
from tasks.tests import drive

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_sandbox")]

SEARCH = {"trade": "bakery", "place": "Łódź"}


def test_a_task_is_stored_with_its_story() -> None:
    task = submit("map-search", SEARCH, caller="key:1", subscriber="acme", reference="r", correlation_id="journey-1")
    task.refresh_from_db()
    assert (task.kind, task.state, task.input) == ("map_search", State.QUEUED, {**SEARCH, "limit": 10})
    assert (task.caller, task.subscriber, task.reference) == ("key:1", "acme", "r")
    assert drive.path(task) == [("queued", "submitted")]


def test_run_at_ahead_waits_and_is_promoted() -> None:
    now = clock.now()
    task = submit("map_search", SEARCH, caller="t", run_at=now + timedelta(hours=1))
    assert task.state == State.SCHEDULED
    assert lifecycle.promote_due(now) == 0
    assert lifecycle.promote_due(now + timedelta(hours=1)) == 1
    task.refresh_from_db()
    assert task.state == State.QUEUED and drive.path(task)[-1] == ("queued", "due")


def test_one_bad_item_and_nothing_is_stored() -> None:
    items: list[Any] = [{"input": SEARCH}, {"input": {"trade": "x"}}, {"input": SEARCH, "refrence": "r"}, 7]
    with pytest.raises(InvalidInput) as caught:
        submit_batch("map_search", items, caller="t")
    assert [(row["field"], row["code"]) for row in caught.value.errors] == [
        ("tasks.1.input.place", "required"),
        ("tasks.2.refrence", "unknown_field"),
        ("tasks.3.input", "wrong_type"),
    ]
    assert not Batch.objects.exists() and not Task.objects.exists()


@pytest.mark.parametrize("items", [[], "text", None, [{}] * 10_001])
def test_a_batch_has_one_to_ten_thousand_tasks(items: Any) -> None:
    with pytest.raises(BadBatch):
        submit_batch("map_search", items, caller="t")


def test_at_most_a_hundred_errors_are_told() -> None:
    with pytest.raises(InvalidInput) as caught:
        submit_batch("map_search", [{"input": {}}] * 500, caller="t")
    assert len(caught.value.errors) == 100


@pytest.mark.parametrize("number", [2, 1500])
def test_a_batch_costs_the_same_queries_whatever_its_size(django_assert_num_queries: Any, number: int) -> None:
    submit("map_search", SEARCH, caller="t")  # makes the policy
    # policy; savepoint; batch; tasks; transitions; release
    with django_assert_num_queries(6):
        batch = submit_batch("map_search", [{"input": SEARCH}] * number, caller="t")
    assert batch.counts == {"queued": number} and Transition.objects.filter(batch=batch).count() == number
    drive.assert_counted()


def test_ten_thousand_tasks_make_one_batch() -> None:
    batch = submit_batch("map_search", [{"input": SEARCH, "reference": f"r{n}"} for n in range(10_000)], caller="t")
    assert batch.tasks.count() == 10_000


def test_a_wake_up_is_rung_after_commit_only(django_capture_on_commit_callbacks: Any, monkeypatch: Any) -> None:
    rung: list[str] = []
    monkeypatch.setattr("kernel.wakeups._wakeups.ring", rung.append)
    with django_capture_on_commit_callbacks(execute=True):
        submit("map_search", SEARCH, caller="t")
        submit("batch_report", {"batch": "1"}, caller="t")
        assert rung == []
    assert rung == ["tasks.start", "tasks.run_internal"]
