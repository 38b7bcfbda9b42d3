"""Starts whose answer never came, at a provider that cannot be asked: unknown is not no."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from kernel.models import AuditEntry
from tasks.engine import clock, lifecycle
from tasks.external import adoption, starting, unanswered
from tasks.external.reconcile import time_out
from tasks.models import ExternalJob, KindPolicy, Task
from tasks.providers.sandbox import SandboxProvider
from tasks.states import Cause, JobState, State
from tasks.submit import submit
from tasks.tests import drive
from tasks.tests.conftest import Sandbox

pytestmark = pytest.mark.django_db
KNOWS_NONE = "knows no job"


def later(seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)


@pytest.fixture
def cannot_be_asked(sandbox: Sandbox, monkeypatch: Any) -> Sandbox:
    monkeypatch.setattr(SandboxProvider, "finds_references", False)
    return sandbox


@pytest.fixture
def waiting(cannot_be_asked: Sandbox, make_task: Callable[..., Task]) -> Task:
    """A task whose start waits for a person."""
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    adoption.adopt(later(91))
    task.refresh_from_db()
    return task


def test_it_waits_with_a_reason_word_and_is_not_started_again(waiting: Task, cannot_be_asked: Sandbox) -> None:
    job = waiting.jobs.get()
    assert (waiting.state, waiting.error_code, waiting.attempt_count) == (State.RUNNING, "start_unanswered", 1)
    assert (job.state, job.next_poll_at, job.unanswered_at is not None) == (JobState.SUBMITTING, None, True)
    assert "cannot be asked" in waiting.error_text and KNOWS_NONE not in waiting.error_text
    assert drive.path(waiting) == [("running", "start_unanswered")]
    for hours in range(1, 100, 9):
        adoption.adopt(later(hours * 3600))
        time_out(later(hours * 3600))
        assert starting.claim("scoring", 5, later(hours * 3600)) == []
    assert waiting.jobs.count() == 1 and drive.path(waiting) == [("running", "start_unanswered")]
    assert cannot_be_asked.stats()["jobs"] == 0


def test_nothing_is_concluded_while_the_call_may_be_in_the_air(
    cannot_be_asked: Sandbox, make_task: Callable[..., Task]
) -> None:
    make_task(State.RUNNING, job=JobState.SUBMITTING)
    for seconds in (3, 31, 60, 80):
        adoption.adopt(later(seconds))
    assert not unanswered.waiting().exists() and ExternalJob.objects.get().next_poll_at is not None


def test_an_account_that_is_gone_cannot_be_asked_either(make_task: Callable[..., Task]) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    adoption.adopt(later(91))
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RUNNING, "start_unanswered")


@pytest.mark.parametrize("lease", [None, "4f0a4b6e-6c6a-4f4e-9b1e-0d3c7a5b2f11"])
def test_a_kind_may_take_the_risk_and_the_timeline_says_so(
    cannot_be_asked: Sandbox, make_task: Callable[..., Task], lease: str | None
) -> None:
    """Whether the caller said that it does not know, or died."""
    KindPolicy.objects.create(kind="scoring", starts_again_unasked=True)
    task = make_task(State.RUNNING, job=JobState.SUBMITTING, lease_token=lease)
    adoption.adopt(later(91))
    task.refresh_from_db()
    assert (task.state, task.attempt_count, task.jobs.get().state) == (State.RETRYING, 0, JobState.LOST)
    step = task.transitions.order_by("-id").first()
    assert step is not None and "may be paid for twice" in step.detail and KNOWS_NONE not in step.detail
    assert task.rescue_count == (1 if lease else 0)


def test_one_that_was_to_be_cancelled_ends_cancelled(cannot_be_asked: Sandbox, make_task: Callable[..., Task]) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING, cancel_requested_at=clock.now())
    adoption.adopt(later(91))
    task.refresh_from_db()
    assert (task.state, task.jobs.get().state) == (State.CANCELLED, JobState.LOST)


def test_cancelling_one_that_waits_ends_it_with_the_next_sweep(waiting: Task) -> None:
    assert lifecycle.cancel([waiting.pk], actor="me", reason="not needed") == {waiting.pk: "cancelling"}
    adoption.adopt(clock.now())
    waiting.refresh_from_db()
    assert (waiting.state, waiting.jobs.get().state) == (State.CANCELLED, JobState.LOST)
    assert not unanswered.waiting().exists()


def test_started_again_by_a_person_there_is_a_new_job_and_the_old_one_is_closed(
    waiting: Task, cannot_be_asked: Sandbox
) -> None:
    moved = unanswered.start_again([waiting.pk], actor="me", reason="looked, it is not there")
    assert moved == {waiting.pk}
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempt_count, waiting.error_code) == (State.RETRYING, 0, "")
    assert unanswered.start_again([waiting.pk], actor="me", reason="again") == set()
    drive.until(drive.all_final)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempt_count) == (State.SUCCEEDED, 1)
    assert list(waiting.jobs.order_by("pk").values_list("state", flat=True)) == ["lost", "succeeded"]
    assert cannot_be_asked.stats()["jobs"] == 1
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.object_ids, entry.reason) == ("start_again", [waiting.pk], "looked, it is not there")


def test_a_start_that_is_still_looked_for_is_not_to_be_started_again(
    sandbox: Sandbox, make_task: Callable[..., Task]
) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    assert unanswered.start_again([task.pk], actor="me", reason="") == set()
    assert not AuditEntry.objects.exists() and task.jobs.get().state == JobState.SUBMITTING


def test_a_provider_that_does_not_answer_is_asked_on_and_nothing_is_started_meanwhile(
    unreachable_sandbox: None, make_task: Callable[..., Task]
) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    adoption.adopt(later(120))
    assert not unanswered.waiting().exists()
    adoption.adopt(later(3700))
    assert time_out(later(3700)) == 0
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RUNNING, "start_unanswered")
    assert ExternalJob.objects.get().next_poll_at is not None


def test_and_when_it_answers_again_that_decides(sandbox: Sandbox, make_task: Callable[..., Task]) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    ExternalJob.objects.update(unanswered_at=clock.now())
    for seconds in (10, 60, 91):
        adoption.adopt(later(seconds))
    task.refresh_from_db()
    assert (task.state, task.jobs.get().unanswered_at) == (State.RETRYING, None)
    assert KNOWS_NONE in task.error_text


def test_many_at_once_take_as_many_queries_as_three(
    cannot_be_asked: Sandbox, make_task: Callable[..., Task], django_assert_max_num_queries: Any
) -> None:
    for _ in range(40):
        make_task(State.RUNNING, job=JobState.SUBMITTING)
    adoption.adopt(clock.now())
    with django_assert_max_num_queries(22):
        adoption.adopt(later(91), Cause.POLL)
    assert unanswered.waiting("sandbox").count() == 40


def test_the_call_itself_may_say_that_it_does_not_know(cannot_be_asked: Sandbox, monkeypatch: Any) -> None:
    cannot_be_asked.faults(start_timeout=1.0, hang_ms=1500)
    from tasks.providers import calling

    monkeypatch.setattr(calling, "CALL_SECONDS", 0.3)
    task = submit("scoring", {"business": {"name": "Bar"}}, caller="t")
    now = clock.now()
    (start,) = starting.claim("scoring", 1, now)
    starting.settle(start, starting.call(start), now)
    adoption.adopt(now + timedelta(seconds=5))
    adoption.adopt(now + timedelta(seconds=91))
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RUNNING, "start_unanswered")
    assert cannot_be_asked.stats()["jobs"] == 1
