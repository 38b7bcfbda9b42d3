"""A word that names one of our starts: its job is adopted, and nobody takes a job that is another's."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tasks.engine import clock
from tasks.external import adoption, apply, apply_many, starting
from tasks.models import ExternalJob, ProviderAccount, Task
from tasks.providers.base import ProviderUpdate, StartedJob
from tasks.providers.sandbox import SandboxProvider
from tasks.states import Cause, JobState, JobStatus, State
from tasks.submit import submit
from tasks.tests import drive
from tasks.tests.conftest import Sandbox

pytestmark = pytest.mark.django_db
STATUS = {"running": "processing", "succeeded": "completed", "failed": "failed", "unknown": "resting"}


def word(status: str, job_id: str, reference: object, account: str = "sandbox", **more: Any) -> tuple[str, str | None]:
    update = ProviderUpdate(
        job_id, status=JobStatus(status), raw_status=STATUS[status], reference=str(reference), **more
    )
    done = apply(update, provider=account, cause=Cause.WEBHOOK)
    return done.status, done.reason


@pytest.fixture
def open_start(make_task: Callable[..., Task]) -> tuple[Task, ExternalJob]:
    """A start without an answer yet."""
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    return task, task.jobs.get()


def test_a_callback_that_names_an_open_start_is_its_job(open_start: Any) -> None:
    task, job = open_start
    assert word("running", "j1", job.start_token, progress=40) == ("applied", None)
    task.refresh_from_db()
    job.refresh_from_db()
    assert (job.state, job.job_id, job.provider_status) == (JobState.SUBMITTED, "j1", "processing")
    assert (task.state, task.progress, task.lease_token) == (State.RUNNING, 40, None)
    step = task.transitions.get()
    assert (step.reason, step.cause) == ("adopted", "webhook") and "names this start" in step.detail


def test_a_start_that_waits_for_a_person_goes_on_by_its_callback(
    sandbox: Sandbox, open_start: Any, monkeypatch: Any
) -> None:
    task, job = open_start
    monkeypatch.setattr(SandboxProvider, "finds_references", False)
    adoption.adopt(clock.now() + starting.LEASE * 2)
    assert ExternalJob.objects.get().unanswered_at is not None
    assert word("succeeded", "j1", job.start_token) == ("accepted", None)
    task.refresh_from_db()
    assert (task.state, task.error_code, ExternalJob.objects.get().unanswered_at) == (State.FETCHING, "", None)
    assert drive.path(task) == [("running", "start_unanswered"), ("running", "adopted"), ("fetching", "completed")]


def test_the_answer_that_comes_after_the_callback_changes_nothing(sandbox: Sandbox) -> None:
    submit("scoring", {"business": {"name": "Bar"}}, caller="t")
    (start,) = starting.claim("scoring", 1, clock.now())
    reference = start.jobs[0].reference
    assert word("running", "j1", reference) == ("applied", None)
    starting.settle(start, {reference: StartedJob(reference, "j1")}, clock.now())
    job = ExternalJob.objects.get()
    assert (job.state, job.job_id) == (JobState.SUBMITTED, "j1")
    starting.settle(start, {reference: StartedJob(reference, "j2")}, clock.now())
    job.refresh_from_db()
    assert (job.state, job.job_id) == (JobState.SUBMITTED, "j1")


def test_what_a_start_that_was_given_up_has_begun_is_known_by_name_and_moves_nothing(
    make_task: Callable[..., Task],
) -> None:
    task = make_task(State.RUNNING, job=JobState.LOST)
    old = task.jobs.get()
    new = ExternalJob.objects.create(task=task, provider="sandbox", attempt=1, state="submitted", job_id="new")
    assert word("succeeded", "late", old.start_token) == ("ignored", "superseded_job")
    old.refresh_from_db()
    new.refresh_from_db()
    task.refresh_from_db()
    assert (old.state, old.job_id) == (JobState.LOST, "late")
    assert (new.state, task.state) == (JobState.SUBMITTED, State.RUNNING)
    assert not task.transitions.exists()


# --- the hostile ------------------------------------------------------------------------------------------------


def unmoved(task: Task, job: ExternalJob) -> bool:
    before = (job.state, job.job_id)
    job.refresh_from_db()
    return (job.state, job.job_id) == before and not task.transitions.exists()


@pytest.mark.parametrize(
    "reference",
    ["x", "0", "{}", "\u2603" * 60, "f" * 32, "0e05102f-6744-4670-b78c-84816445b18e", "urn:uuid:", "1" * 5000, "\x00"],
)
def test_a_reference_that_is_none_of_ours_is_kept_apart(open_start: Any, reference: str) -> None:
    assert word("succeeded", "j1", reference) == ("ignored", "unknown_reference")
    assert unmoved(*open_start)


def test_a_reference_of_another_accounts_start_is_kept_apart(open_start: Any) -> None:
    ProviderAccount.objects.create(name="other", adapter="sandbox")
    assert word("succeeded", "j1", open_start[1].start_token, account="other") == ("ignored", "unknown_reference")
    assert unmoved(*open_start)


@pytest.mark.parametrize("state", [JobState.SUBMITTED, JobState.SUCCEEDED, JobState.FAILED, JobState.LOST])
def test_a_second_job_for_a_start_that_has_one_is_kept_apart(make_task: Callable[..., Task], state: JobState) -> None:
    task = make_task(State.RUNNING, job=state, job_id="j1")
    job = task.jobs.get()
    assert word("succeeded", "j2", job.start_token) == ("ignored", "reference_used")
    assert unmoved(task, job) and ExternalJob.objects.count() == 1


def test_a_job_that_is_another_tasks_is_not_taken_over(open_start: Any, make_task: Callable[..., Task]) -> None:
    """The job id decides whose it is, whatever reference is beside it."""
    owner = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    assert word("running", "j1", open_start[1].start_token, progress=10) == ("applied", None)
    owner.refresh_from_db()
    assert owner.progress == 10 and unmoved(*open_start)


def test_two_jobs_for_one_start_in_one_payload_give_it_the_first(open_start: Any) -> None:
    task, job = open_start
    both = [
        ProviderUpdate(name, status=JobStatus.RUNNING, raw_status="processing", reference=str(job.start_token))
        for name in ("j1", "j2")
    ]
    done = apply_many(both, provider="sandbox", cause=Cause.WEBHOOK)
    assert [(one.status, one.reason) for one in done] == [("applied", None), ("ignored", "reference_used")]
    assert task.jobs.get().job_id == "j1"


def test_an_entry_that_cannot_be_read_adopts_nothing(open_start: Any) -> None:
    assert word("unknown", "j1", open_start[1].start_token, problem="no status") == ("ignored", "unreadable_entry")
    assert unmoved(*open_start)


def test_a_word_without_a_job_id_is_its_starts_where_that_has_one(make_task: Callable[..., Task]) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    token = task.jobs.get().start_token
    assert word("succeeded", "", token) == ("accepted", None)
    assert word("succeeded", "", uuid.uuid4()) == ("ignored", "unknown_reference")
    task.refresh_from_db()
    assert task.state == State.FETCHING


def test_a_word_without_a_job_id_for_a_start_without_one_is_parked(open_start: Any) -> None:
    assert word("succeeded", "", open_start[1].start_token) == ("accepted", "parked")
    assert unmoved(*open_start)


def test_a_reference_beside_a_known_job_costs_two_queries_and_none_costs_none(
    make_task: Callable[..., Task], django_assert_num_queries: Any
) -> None:
    token = make_task(State.SUCCEEDED, job=JobState.SUCCEEDED, job_id="j1").jobs.get().start_token
    for reference, queries in (("", 7), (str(token), 9)):
        update = ProviderUpdate("j1", status=JobStatus.RUNNING, reference=reference)
        with django_assert_num_queries(queries):
            apply(update, provider="sandbox", cause=Cause.WEBHOOK)
