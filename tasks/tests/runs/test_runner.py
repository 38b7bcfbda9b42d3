"""Runs in children: every way to end one, and what it takes with it."""

import os
from datetime import timedelta
from typing import Any

import pytest

from tasks.engine import clock, lifecycle, rescue
from tasks.models import KindPolicy, Task
from tasks.runs import crew
from tasks.states import State
from tasks.submit import submit, submit_batch
from tasks.tests import drive
from tasks.tests.runs.conftest import Worker

pytestmark = pytest.mark.django_db(transaction=True)


def do(does: str, kind: str = "behaving", **given: Any) -> Task:
    return submit(kind, {"does": does, **given}, caller="tester")


def state_of(task: Task) -> str:
    task.refresh_from_db()
    return task.state


def is_running(task: Task) -> bool:
    return state_of(task) == State.RUNNING


def test_quick_runs_share_a_child_and_are_settled_together(worker: Worker) -> None:
    batch = submit_batch("behaving", [{"input": {"say": n}} for n in range(300)], caller="t")
    worker.until(drive.all_final)
    batch.refresh_from_db()
    assert batch.counts == {"succeeded": 300} and batch.revision == 1
    results = list(batch.tasks.order_by("position").values_list("result", flat=True))
    assert [result["said"] for result in results] == list(range(300))
    assert 1 <= len({result["pid"] for result in results}) <= 2
    assert os.getpid() not in {result["pid"] for result in results}
    assert drive.path(batch.tasks.first()) == [
        ("queued", "submitted"),
        ("running", "started"),
        ("succeeded", "result_accepted"),
    ]
    drive.assert_counted()


@pytest.mark.parametrize(
    ("does", "state", "reason", "code", "attempts"),
    [
        ("retry", "retrying", "retry_asked", "retry_asked", 1),
        ("snooze", "retrying", "snoozed", "", 0),
        ("fail", "dead_letter", "no_such_book", "no_such_book", 1),
        ("break", "retrying", "run_broke", "run_broke", 1),
        ("exit", "retrying", "run_exited", "run_exited", 1),
        ("set", "dead_letter", "result_unusable", "result_unusable", 1),
        ("hoard", "retrying", "out_of_memory", "out_of_memory", 1),
        ("segfault", "retrying", "run_died", "run_died", 1),
        ("kill", "retrying", "run_died", "run_died", 1),
        ("asks_database", "succeeded", "result_accepted", "", 1),
    ],
)
def test_every_way_a_run_can_end(worker: Worker, does: str, state: str, reason: str, code: str, attempts: int) -> None:
    task = do(does)
    beside = do("echo", kind="behaving_too")
    worker.until(lambda: state_of(task) not in (State.QUEUED, State.RUNNING) and state_of(beside) == State.SUCCEEDED)
    assert (task.state, task.error_code, task.attempt_count) == (state, code, attempts)
    assert drive.path(task)[-1] == (state, reason)
    if does == "asks_database":
        assert task.result == {"caller": "tester"}
    if does == "snooze":
        assert task.next_attempt_at.year == 2099


def test_a_death_takes_only_its_own_run_with_it(worker: Worker) -> None:
    others = [do("echo") for _ in range(10)]
    killer = do("kill")
    others += [do("echo") for _ in range(10)]
    worker.until(lambda: all(state_of(task) == State.SUCCEEDED for task in others) and not is_running(killer))
    assert (state_of(killer), killer.error_code) == (State.RETRYING, "run_died")
    assert {task.attempt_count for task in others} == {1}


def test_a_long_run_keeps_no_quick_one_waiting(worker: Worker) -> None:
    long = [do("sleep") for _ in range(2)]
    worker.until(lambda: all(is_running(task) for task in long))
    quick = do("echo", kind="behaving_too")
    worker.until(lambda: state_of(quick) == State.SUCCEEDED)
    assert all(is_running(task) for task in long)


def test_what_waits_behind_a_long_run_is_given_to_another_child(worker: Worker) -> None:
    submit_batch("behaving", [{"input": {}}] * 50, caller="t")
    worker.until(drive.all_final)  # the kind is known as quick
    long = do("sleep")
    behind = [do("echo") for _ in range(20)]
    worker.until(lambda: all(state_of(task) == State.SUCCEEDED for task in behind))
    assert is_running(long)


def test_its_time_limit_ends_a_run_and_what_it_has_started(worker: Worker, monkeypatch: Any) -> None:
    monkeypatch.setattr(crew, "TERM_SECONDS", 0.2)
    KindPolicy.objects.create(kind="behaving", timeout_seconds=1)
    task = do("stubborn")
    worker.until(lambda: state_of(task) == State.RETRYING)
    assert (task.error_code, drive.path(task)[-1]) == ("timed_out", ("retrying", "timed_out"))


def test_progress_is_shown_and_the_lease_goes_on(worker: Worker) -> None:
    task = do("sleep")
    worker.until(lambda: is_running(task))
    soon = clock.now() + timedelta(seconds=5)
    Task.objects.filter(pk=task.pk).update(leased_until=soon)
    worker.until(lambda: state_of(task) == State.RUNNING and task.progress == 20)
    assert task.progress_note == "still asleep"
    worker.until(lambda: state_of(task) == State.RUNNING and task.leased_until > soon)
    assert rescue.expired_leases(clock.now()) == 0


def test_a_run_that_is_asked_to_stop_says_so_and_is_cancelled(worker: Worker) -> None:
    task = do("until_asked")
    worker.until(lambda: is_running(task))
    assert lifecycle.cancel([task.pk], actor="me", reason="") == {task.pk: "cancelling"}
    worker.until(lambda: state_of(task) == State.CANCELLED)
    assert drive.path(task)[-1] == ("cancelled", "cancelled_by_run")
    assert task.transitions.last().detail == "stopped where nothing is half done"


def test_a_run_that_does_not_stop_is_ended(worker: Worker, monkeypatch: Any) -> None:
    monkeypatch.setattr(crew, "CANCEL_SECONDS", 0.1)
    task = do("sleep")
    worker.until(lambda: is_running(task))
    lifecycle.cancel([task.pk], actor="me", reason="")
    worker.until(lambda: state_of(task) == State.CANCELLED)
    assert drive.path(task)[-1] == ("cancelled", "cancelled_by_force")


def test_a_run_whose_lease_is_lost_is_ended_and_writes_nothing(worker: Worker) -> None:
    task = do("sleep", seconds=600)
    worker.until(lambda: is_running(task))
    rescue.expired_leases(clock.now() + timedelta(hours=1))
    Task.objects.filter(pk=task.pk).update(next_attempt_at=clock.now() + timedelta(hours=1))
    worker.until(lambda: worker.runner._crew.is_idle())
    assert (state_of(task), drive.path(task)[-1]) == (State.RETRYING, ("retrying", "rescued"))


def test_a_worker_that_stops_gives_back_what_it_runs_uncharged(worker: Worker, monkeypatch: Any) -> None:
    monkeypatch.setattr("tasks.runs.runner.STOP_SECONDS", 0.2)
    task = do("sleep")
    worker.until(lambda: is_running(task))
    worker.stops = True
    worker.runner.run()
    assert (state_of(task), task.attempt_count) == (State.RETRYING, 0)
    assert drive.path(task)[-1] == ("retrying", "worker_stopped")
