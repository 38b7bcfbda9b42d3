"""`apply`: every reason of the contract, in its order, and what it costs."""

from datetime import timedelta
from typing import Any

import pytest

from delivery.models import Event
from tasks.external import apply, apply_many
from tasks.models import ExternalJob, Task, Transition
from tasks.providers.base import ProviderUpdate
from tasks.states import Cause, JobState, JobStatus, State
from tasks.tests import drive

pytestmark = pytest.mark.django_db

RAW = {"queued": "queued", "running": "processing", "succeeded": "completed", "failed": "failed"}


def update(status: str, job_id: str = "j1", **more: Any) -> ProviderUpdate:
    return ProviderUpdate(job_id, status=JobStatus(status), raw_status=RAW.get(status, status), **more)


def word(status: str, job_id: str = "j1", cause: Cause = Cause.WEBHOOK, **more: Any) -> tuple[str, str | None]:
    done = apply(update(status, job_id, **more), provider="sandbox", cause=cause)
    return done.status, done.reason


def test_the_usual_way(make_task: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    assert word("queued") == ("applied", None)
    assert word("running", progress=10) == ("applied", None)
    assert word("running", progress=60) == ("applied", None)
    assert word("succeeded", progress=100) == ("accepted", None)
    task.refresh_from_db()
    assert (task.state, task.progress) == (State.FETCHING, 60)
    job = task.jobs.get()
    assert (job.state, job.finished_by, job.provider_status) == (JobState.SUCCEEDED, "webhook", "completed")
    assert job.last_webhook_at is not None


@pytest.mark.parametrize(
    ("state", "job", "status", "answer"),
    [
        (State.FETCHING, JobState.SUCCEEDED, "succeeded", ("ignored", "duplicate_completed")),
        (State.SUCCEEDED, JobState.SUCCEEDED, "succeeded", ("ignored", "duplicate_completed")),
        (State.SUCCEEDED, JobState.SUCCEEDED, "failed", ("ignored", "already_completed")),
        (State.SUCCEEDED, JobState.SUCCEEDED, "running", ("ignored", "already_completed")),
        (State.DEAD_LETTER, JobState.FAILED, "succeeded", ("ignored", "already_completed")),
        (State.CANCELLED, JobState.CANCELLED, "cancelled", ("ignored", "already_completed")),
        (State.FETCHING, JobState.SUCCEEDED, "running", ("ignored", "invalid_transition")),
        (State.FETCHING, JobState.SUCCEEDED, "failed", ("ignored", "invalid_transition")),
        (State.RETRYING, JobState.FAILED, "failed", ("ignored", "invalid_transition")),
        (State.RETRYING, JobState.LOST, "succeeded", ("ignored", "invalid_transition")),
        (State.QUEUED, JobState.FAILED, "running", ("ignored", "invalid_transition")),
        (State.RUNNING, JobState.SUBMITTED, "unknown", ("ignored", "unknown_status")),
        (State.SUCCEEDED, JobState.SUCCEEDED, "unknown", ("ignored", "unknown_status")),
    ],
)
def test_ignored_words_change_nothing(
    make_task: Any, state: State, job: JobState, status: str, answer: tuple[str, str]
) -> None:
    task = make_task(state, job=job, job_id="j1", progress=50)
    assert word(status) == answer
    after = Task.objects.get()
    assert (after.state, after.progress, after.updated_at) == (task.state, task.progress, task.updated_at)
    assert not Transition.objects.exists() and not Event.objects.exists()


def test_late_words_do_not_move_a_running_task_back(make_task: Any) -> None:
    make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    assert word("running", progress=60) == ("applied", None)
    assert word("running", progress=60) == ("applied", None)  # says the same again
    assert word("running", progress=10) == ("ignored", "invalid_transition")
    assert word("queued") == ("ignored", "invalid_transition")
    assert Task.objects.get().progress == 60


def test_strangers_are_parked_only_while_a_start_is_open_at_that_provider(make_task: Any) -> None:
    assert word("running", "strange") == ("ignored", "task_not_found")
    make_task(State.RUNNING, job=JobState.SUBMITTING)
    assert word("running", "strange") == ("accepted", "parked")
    assert word("unknown", "strange") == ("ignored", "unknown_status")
    assert apply(update("running", "strange"), provider="other", cause=Cause.WEBHOOK).reason == "task_not_found"


def test_only_the_newest_job_counts(make_task: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.LOST, job_id="old", attempt_count=2)
    ExternalJob.objects.create(task=task, provider="sandbox", attempt=2, state=JobState.SUBMITTED, job_id="new")
    assert word("succeeded", "old") == ("ignored", "superseded_job")
    assert word("unknown", "old") == ("ignored", "unknown_status")
    assert word("succeeded", "new") == ("accepted", None)


def test_failed_upstream_waits_for_its_next_attempt_until_they_are_used_up(make_task: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1", attempt_limit=2, subscriber="acme")
    assert word("failed", error_code="quota", error_text="Too much.") == ("applied", None)
    task.refresh_from_db()
    assert (task.state, task.error_code, task.error_text) == (State.RETRYING, "quota", "Too much.")
    assert not Event.objects.exists()
    Task.objects.update(state=State.RUNNING, attempt_count=2)
    ExternalJob.objects.create(task=task, provider="sandbox", attempt=2, state=JobState.SUBMITTED, job_id="j2")
    assert word("failed", "j2") == ("applied", None)
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "failed_upstream")
    event = Event.objects.get()
    assert (event.type, event.subscriber) == ("task.dead_lettered", "acme")


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_end_that_somebody_asked_for_is_a_cancellation(make_task: Any, now: Any, status: str) -> None:
    make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1", cancel_requested_at=now)
    assert word(status) == ("applied", None)
    assert Task.objects.get().state == State.CANCELLED
    assert Event.objects.get().type == "task.cancelled"


def test_a_cancellation_that_nobody_asked_for_is_tried_again(make_task: Any) -> None:
    make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    assert word("cancelled") == ("applied", None)
    assert Task.objects.get().state == State.RETRYING


def test_one_payload_updates_many_and_names_one_twice(make_batch: Any, now: Any) -> None:
    batch = make_batch(*[State.RUNNING] * 4)
    for number, task in enumerate(batch.tasks.order_by("position")):
        ExternalJob.objects.create(
            task=task, provider="sandbox", attempt=1, state=JobState.SUBMITTED, job_id=f"j{number}"
        )
    updates = [
        update("succeeded", "j0"),
        update("failed", "j1"),
        update("running", "j2", progress=30),
        update("succeeded", "j2"),
        update("queued", "nobody"),
        update("succeeded", "j0"),
    ]
    answers = apply_many(updates, provider="sandbox", cause=Cause.WEBHOOK)
    assert [(a.status, a.reason) for a in answers] == [
        ("accepted", None),
        ("applied", None),
        ("applied", None),
        ("accepted", None),
        ("ignored", "task_not_found"),
        ("ignored", "duplicate_completed"),
    ]
    batch.refresh_from_db()
    assert batch.counts == {"fetching": 2, "retrying": 1, "running": 1}
    drive.assert_counted()


def test_the_poll_says_how_late_it_was(make_task: Any, now: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    said = update("succeeded", happened_at=now - timedelta(seconds=43))
    apply(said, provider="sandbox", cause=Cause.POLL, now=now)
    assert task.transitions.get().detail == "Noticed by poll, 43 s after it happened."
    assert task.jobs.get().finished_by == "poll"


def _batch_of_running(make_batch: Any, number: int) -> list[ProviderUpdate]:
    batch = make_batch(*[State.RUNNING] * number)
    updates = []
    for task in batch.tasks.all():
        ExternalJob.objects.create(
            task=task, provider="sandbox", attempt=1, state=JobState.SUBMITTED, job_id=f"q{task.pk}"
        )
        updates.append(update("succeeded", f"q{task.pk}"))
    return updates


@pytest.mark.parametrize("number", [1, 50])
def test_a_payload_costs_the_same_queries_whatever_its_size(
    make_batch: Any, django_assert_num_queries: Any, number: int, now: Any
) -> None:
    updates = _batch_of_running(make_batch, number)
    # find jobs; savepoint; lock tasks; lock jobs; update tasks; update jobs; log; lock batch; count; release
    with django_assert_num_queries(10):
        apply_many(updates, provider="sandbox", cause=Cause.WEBHOOK, now=now)
