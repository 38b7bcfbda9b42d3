"""Verbs that people call: cancel, redrive, discard; and what batches and leases make of them."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from delivery.models import Event
from tasks.engine import execution, lifecycle, rescue
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import SMALL_MOST, Batch, KindPolicy, Task
from tasks.states import FINAL_STATES, OPEN_STATES, Cause, State
from tasks.tests import drive

pytestmark = pytest.mark.django_db


def types() -> list[str]:
    return list(Event.objects.order_by("id").values_list("type", flat=True))


def test_the_table_names_every_state_and_leads_out_of_every_open_one() -> None:
    sources = {source for step in lifecycle.TABLE for source in step.sources}
    targets = {step.target for step in lifecycle.TABLE if step.target}
    assert sources == {*OPEN_STATES, State.DEAD_LETTER}
    assert targets | {State.SCHEDULED} == set(State)
    assert not any(source == State.SUCCEEDED or source == State.CANCELLED for source in sources)


@pytest.mark.parametrize("state", [State.SCHEDULED, State.QUEUED, State.RETRYING, State.FETCHING])
def test_cancel_stops_at_once_where_no_provider_works(make_task: Any, state: State) -> None:
    task = make_task(state)
    assert lifecycle.cancel([task.pk], actor="ada", reason="no longer needed") == {task.pk: "cancelled"}
    step = task.transitions.get()
    assert (step.from_state, step.to_state, step.actor, step.detail) == (state, "cancelled", "ada", "no longer needed")
    assert types() == ["task.cancelled"]


@pytest.mark.parametrize("state", FINAL_STATES)
def test_cancel_refuses_what_is_final(make_task: Any, state: str) -> None:
    task = make_task(State(state))
    assert lifecycle.cancel([task.pk, 999_999], actor="a", reason="") == {task.pk: "refused", 999_999: "refused"}
    assert not types()


def test_cancel_of_a_running_task_is_a_wish(make_task: Any) -> None:
    task = make_task(State.RUNNING)
    assert lifecycle.cancel([task.pk], actor="a", reason="") == {task.pk: "cancelling"}
    task.refresh_from_db()
    assert task.state == State.RUNNING and task.cancel_requested_at is not None


def test_a_batch_is_announced_once_for_each_time_it_is_completed(make_batch: Any) -> None:
    batch: Batch = make_batch(State.DEAD_LETTER, State.DEAD_LETTER, State.SUCCEEDED)
    first, second = batch.tasks.filter(state=State.DEAD_LETTER)
    assert lifecycle.redrive([first.pk, second.pk], actor="a", reason="fixed") == {first.pk, second.pk}
    batch.refresh_from_db()
    assert not batch.is_completed and batch.outcome == "" and batch.counts == {"succeeded": 1, "queued": 2}
    lifecycle.cancel([first.pk], actor="a", reason="")
    assert "batch.completed" not in types()
    lifecycle.cancel([second.pk], actor="a", reason="")
    batch.refresh_from_db()
    assert (batch.is_completed, batch.revision, batch.outcome) == (True, 2, "partly")
    assert types().count("batch.completed") == 1
    drive.assert_counted()


def test_discard_changes_the_counts_of_a_completed_batch_and_announces_no_second_end(make_batch: Any) -> None:
    batch = make_batch(State.DEAD_LETTER, State.SUCCEEDED)
    task = batch.tasks.get(state=State.DEAD_LETTER)
    assert lifecycle.discard([task.pk], actor="a", reason="obsolete") == {task.pk}
    batch.refresh_from_db()
    assert batch.counts == {"cancelled": 1, "succeeded": 1} and batch.revision == 1
    assert types() == ["task.cancelled"]
    assert lifecycle.discard([task.pk], actor="a", reason="again") == set()


def test_redrive_gives_as_many_attempts_as_the_kind_allows_now(make_task: Any) -> None:
    task = make_task(State.DEAD_LETTER, attempt_count=3, attempt_limit=3, error_code="x", rescue_count=4)
    KindPolicy.objects.create(kind="scoring", attempt_limit=5)
    lifecycle.redrive([task.pk], actor="a", reason="")
    task.refresh_from_db()
    assert (task.attempt_limit, task.redrive_count, task.rescue_count) == (8, 1, 0)
    assert task.finished_at is None


def test_a_task_with_as_many_attempts_as_its_column_holds_can_be_redriven(make_task: Any) -> None:
    task = make_task(
        State.DEAD_LETTER, attempt_count=SMALL_MOST - 1, attempt_limit=SMALL_MOST, redrive_count=SMALL_MOST
    )
    assert lifecycle.redrive([task.pk], actor="a", reason="") == {task.pk}
    task.refresh_from_db()
    assert (task.state, task.attempt_limit, task.redrive_count) == (State.QUEUED, SMALL_MOST, SMALL_MOST)


@pytest.mark.parametrize("wrong", [{"rate_per_minute": 0}, {"attempt_limit": 101}, {"attempt_limit": 0}])
def test_a_policy_that_would_mean_something_else_cannot_be_stored(db: None, wrong: dict[str, int]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        KindPolicy.objects.create(kind="scoring", **wrong)
    assert not KindPolicy.objects.exists()


def test_cancel_batch_answers_how_many_of_each(make_batch: Any) -> None:
    batch = make_batch(State.QUEUED, State.RUNNING, State.SUCCEEDED, State.RETRYING)
    assert lifecycle.cancel_batch(batch.pk, actor="a", reason="") == {"cancelled": 2, "cancelling": 1}


def test_a_step_that_the_table_does_not_know_is_not_taken(make_task: Any, now: Any) -> None:
    task = make_task(State.SUCCEEDED)
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        (locked,) = unit.lock([task.pk])
        assert not lifecycle.upstream_completed(unit, locked)
    assert not task.transitions.exists()


def test_an_internal_task_runs_and_its_report_adds_up(make_batch: Any, make_task: Any, now: Any) -> None:
    batch = make_batch(State.SUCCEEDED, State.SUCCEEDED, State.DEAD_LETTER)
    for score, task in enumerate(batch.tasks.filter(state=State.SUCCEEDED).order_by("position")):
        task.result = {"score": 40 + 20 * score, "passed": bool(score)}
        task.input = {"business": {"name": f"Bar {score}", "country": "no"}}
        task.save()
    batch.tasks.filter(state=State.DEAD_LETTER).update(error_code="poison")
    report = make_task(State.QUEUED, kind="batch_report", input={"batch": str(batch.pk), "top": 1})
    task = execution.claim("batch_report", now)
    assert task is not None and task.pk == report.pk
    assert execution.settle(task, execution.perform(task), now)
    report.refresh_from_db()
    assert report.state == State.SUCCEEDED
    assert report.result["counts"] == {"succeeded": 2, "dead_letter": 1}
    assert report.result["scores"] == {"mean": 50.0, "lowest": 40, "highest": 60, "passed": 1}
    assert report.result["top"][0]["name"] == "Bar 1" and len(report.result["top"]) == 1
    assert report.result["countries"] == {"NO": 2, "UNKNOWN": 1} and report.result["errors"] == {"poison": 1}


def test_a_report_on_another_subscribers_batch_is_refused(make_batch: Any, make_task: Any, now: Any) -> None:
    batch = make_batch(State.SUCCEEDED)
    make_task(State.QUEUED, kind="batch_report", input={"batch": str(batch.pk)}, subscriber="mallory")
    task = execution.claim("batch_report", now)
    assert task is not None
    execution.settle(task, execution.perform(task), now)
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "batch_not_found")


def test_an_abandoned_run_is_rescued_and_its_zombie_settles_nothing(make_task: Any, make_batch: Any, now: Any) -> None:
    batch = make_batch(State.SUCCEEDED)
    make_task(State.QUEUED, kind="batch_report", input={"batch": str(batch.pk)})
    zombie = execution.claim("batch_report", now)
    assert zombie is not None and execution.claim("batch_report", now) is None
    assert rescue.expired_leases(now + timedelta(minutes=30)) == 0
    later = now + timedelta(hours=2)
    assert rescue.expired_leases(later) == 1
    assert not execution.settle(zombie, execution.RunOutcome({"counts": {}}), later)
    task = Task.objects.get(pk=zombie.pk)
    assert (task.state, task.attempt_count, task.rescue_count) == (State.RETRYING, 0, 1)
    again = execution.claim("batch_report", later)
    assert again is not None and execution.settle(again, execution.perform(again), later)


def test_the_fifth_rescue_in_a_row_is_a_dead_letter(make_task: Any, now: Any) -> None:
    task = make_task(State.QUEUED, kind="batch_report", input={"batch": "1"})
    for turn in range(5):
        moment = now + timedelta(hours=3 * turn)
        assert execution.claim("batch_report", moment) is not None
        rescue.expired_leases(moment + timedelta(hours=2))
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "poison")
    assert [reason for _, reason in drive.path(task)].count("rescued") == 4
    assert types() == ["task.dead_lettered"]
