""" "It is this job": asked about first, then adopted and followed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kernel.models import AuditEntry
from tasks.engine import clock
from tasks.errors import NotAdopted
from tasks.external import naming
from tasks.external.reconcile import time_out
from tasks.models import ExternalJob, Task
from tasks.states import JobState, State
from tasks.tests import drive
from tasks.tests.conftest import Sandbox, start_elsewhere

pytestmark = pytest.mark.django_db
BY = {"actor": "me", "reason": "seen in the provider's console"}


@pytest.fixture
def waiting(sandbox: Sandbox, make_task: Callable[..., Task]) -> Task:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING, error_code="start_unanswered")
    ExternalJob.objects.update(unanswered_at=clock.now(), next_poll_at=None)
    return task


def test_a_job_that_a_person_names_is_adopted_and_followed_to_its_end(sandbox: Sandbox, waiting: Task) -> None:
    job_id = start_elsewhere("somebody's")
    assert naming.adopt(waiting.pk, f" {job_id} ", **BY)
    job = waiting.jobs.get()
    assert job.job_id == job_id and job.unanswered_at is None
    drive.until(drive.all_final)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.error_code, waiting.jobs.count()) == (State.SUCCEEDED, "", 1)
    step = waiting.transitions.order_by("id").first()
    assert step is not None and (step.reason, step.cause, step.actor) == ("adopted", "operator", "me")
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.object_ids, entry.detail) == ("adopt", [waiting.pk], {"job_id": job_id})
    assert sandbox.stats()["jobs"] == 1


def test_what_the_provider_says_of_it_is_applied_at_once(sandbox: Sandbox, waiting: Task) -> None:
    job_id = start_elsewhere("x")
    drive.until_true(lambda: naming._ask(waiting.jobs.get(), job_id, "").raw_status == "completed")
    assert naming.adopt(waiting.pk, job_id, **BY) == "completed"
    waiting.refresh_from_db()
    assert waiting.state == State.FETCHING


def test_a_job_that_is_named_when_its_attempts_time_is_over_has_that_time_anew(sandbox: Sandbox, waiting: Task) -> None:
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    now = clock.now()
    ExternalJob.objects.update(created_at=now - timedelta(hours=3))
    Task.objects.update(deadline_at=now - timedelta(hours=2))
    naming.adopt(waiting.pk, start_elsewhere("x"), **BY)
    waiting.refresh_from_db()
    assert waiting.deadline_at is not None and waiting.deadline_at >= now + timedelta(hours=1)
    assert time_out(clock.now()) == 0 and waiting.state == State.RUNNING


def refused(task: Task, job_id: str) -> str:
    with pytest.raises(NotAdopted) as error:
        naming.adopt(task.pk, job_id, **BY)
    assert not AuditEntry.objects.exists() and not task.transitions.exists()
    return str(error.value)


def test_a_job_that_the_provider_does_not_know_is_refused(waiting: Task) -> None:
    assert "knows no job nosuch" in refused(waiting, "nosuch")
    assert waiting.jobs.get().unanswered_at is not None


def test_a_job_of_another_task_is_refused_with_its_name(waiting: Task, make_task: Callable[..., Task]) -> None:
    other = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    assert f"that of task {other.pk}" in refused(waiting, "j1")


@pytest.mark.parametrize("job_id", ["", "   ", "x" * 201, "a\x00b", "a\nb", "\ud800"])
def test_what_can_be_no_job_id_is_refused_with_what_to_do(waiting: Task, job_id: str) -> None:
    assert refused(waiting, job_id)


def test_while_the_provider_does_not_answer_nothing_is_adopted(
    unreachable_sandbox: None, make_task: Callable[..., Task]
) -> None:
    """Unasked, a wrong id would be lost by the poll, and the work started a second time."""
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    ExternalJob.objects.update(unanswered_at=clock.now())
    assert "Try again later" in refused(task, "j1")


@pytest.mark.parametrize("job", [JobState.SUBMITTING, JobState.SUBMITTED, JobState.LOST])
def test_only_a_start_that_waits_can_be_given_a_job(
    sandbox: Sandbox, make_task: Callable[..., Task], job: JobState
) -> None:
    task = make_task(State.RUNNING, job=job, job_id="" if job == JobState.SUBMITTING else "j0")
    assert "Nothing was done" in refused(task, "j1")
    assert sandbox.stats()["calls"].get("status", 0) == 0


def test_a_task_that_is_not_there_is_refused(db: None) -> None:
    with pytest.raises(NotAdopted):
        naming.adopt(987654, "j1", **BY)


def test_of_two_who_name_a_job_the_second_is_told(sandbox: Sandbox, waiting: Task, monkeypatch: Any) -> None:
    job_id = start_elsewhere("x")
    real = naming._ask

    def slow(*args: Any) -> Any:
        update = real(*args)
        ExternalJob.objects.update(state=JobState.SUBMITTED, job_id="j0", submitted_at=clock.now() - timedelta(1))
        return update

    monkeypatch.setattr(naming, "_ask", slow)
    assert "Nothing was done" in refused(waiting, job_id)
    assert waiting.jobs.get().job_id == "j0"
