"""`apply`: a provider's word about a job becomes a step of its task, or is ignored with a reason word.

The one function for webhook, poll and the answer to a cancel call. It judges under the task's lock, so two words that
come at once are judged one after the other, and whatever order they come in, none moves a task backwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tasks.engine import clock, lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import ExternalJob, Task
from tasks.providers.base import ProviderUpdate
from tasks.states import Cause, JobState, JobStatus, Reason, State

APPLIED, ACCEPTED, IGNORED = "applied", "accepted", "ignored"
_OPEN = (JobStatus.QUEUED, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Applied:
    """What an update did. `status`: applied, accepted (done upstream, result is being fetched; or parked), ignored."""

    status: str
    reason: str | None = None
    task_id: int | None = None
    job_id: str = ""


def apply(update: ProviderUpdate, *, provider: str, cause: Cause, now: datetime | None = None) -> Applied:
    """`apply_many` for one update."""
    return apply_many([update], provider=provider, cause=cause, now=now)[0]


def apply_many(
    updates: Sequence[ProviderUpdate], *, provider: str, cause: Cause, now: datetime | None = None
) -> list[Applied]:
    """Apply all updates of one payload, set by set, each set in one transaction. Answers in the order given.

    Must not run inside a caller's transaction that has locked tasks or batches.
    """
    moment = now or clock.now()
    # An entry without a job id belongs to nobody; an empty one would be found in every job that is being submitted.
    nameless = [index for index, update in enumerate(updates) if not update.job_id]
    answers = {index: Applied(IGNORED, Reason.UNREADABLE_ENTRY.value) for index in nameless}
    waiting = [index for index in range(len(updates)) if index not in answers]
    while waiting:  # a job named twice in one payload is judged twice, one after the other
        this_round: dict[tuple[str, str], int] = {}
        later = []
        for index in waiting:
            key = (updates[index].job_id, updates[index].item_key)
            if this_round.setdefault(key, index) != index:
                later.append(index)
        part = [updates[index] for index in this_round.values()]
        answers.update(zip(this_round.values(), _apply_set(part, provider, cause, moment), strict=True))
        waiting = later
    return [answers[index] for index in range(len(updates))]


def _apply_set(updates: Sequence[ProviderUpdate], provider: str, cause: Cause, now: datetime) -> list[Applied]:
    """Updates of different jobs, in one transaction."""
    rows = ExternalJob.objects.filter(provider=provider, job_id__in=[update.job_id for update in updates])
    task_of = {(job_id, item): task_id for job_id, item, task_id in rows.values_list("job_id", "item_key", "task_id")}
    stranger: Applied | None = None
    answers = []
    with UnitOfWork.opened(cause=cause, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(task_of.values())} if task_of else {}
        newest = unit.jobs_of(tasks.values())
        for update in updates:
            task = tasks.get(task_of.get((update.job_id, update.item_key), 0))
            if task is not None:
                status, reason = _judge(unit, task, newest[task.pk], update)
                answers.append(Applied(status, reason, task.pk, update.job_id))
            elif update.status == JobStatus.UNKNOWN:
                answers.append(Applied(IGNORED, _unknown(update), None, update.job_id))
            else:
                stranger = stranger or _stranger(provider)
                answers.append(Applied(stranger.status, stranger.reason, None, update.job_id))
    return answers


def _unknown(update: ProviderUpdate) -> str:
    return (Reason.UNREADABLE_ENTRY if update.problem else Reason.UNKNOWN_STATUS).value


def _stranger(provider: str) -> Applied:
    """A job id we do not know may belong to a start call that has not answered yet: the event is parked for it."""
    if ExternalJob.objects.filter(provider=provider, state=JobState.SUBMITTING).exists():
        return Applied(ACCEPTED, Reason.PARKED.value)
    return Applied(IGNORED, Reason.TASK_NOT_FOUND.value)


def _judge(unit: UnitOfWork, task: Task, job: ExternalJob, update: ProviderUpdate) -> tuple[str, str | None]:
    """The reasons of the contract, in its order; `job` is the task's newest."""
    is_newest = (job.job_id, job.item_key) == (update.job_id, update.item_key)
    if is_newest:
        _note_seen(unit, job, update)
    if update.status == JobStatus.UNKNOWN:
        return IGNORED, _unknown(update)
    if not is_newest:
        return IGNORED, Reason.SUPERSEDED_JOB.value
    if update.status == JobStatus.SUCCEEDED and task.state in (State.FETCHING, State.SUCCEEDED):
        return IGNORED, Reason.DUPLICATE_COMPLETED.value
    if task.is_final:
        return IGNORED, Reason.ALREADY_COMPLETED.value
    if task.state != State.RUNNING:
        return IGNORED, Reason.INVALID_TRANSITION.value
    if update.status in _OPEN:
        return _progressed(unit, task, job, update)
    return _ENDS[update.status](unit, task, job, update)


def _note_seen(unit: UnitOfWork, job: ExternalJob, update: ProviderUpdate) -> None:
    if unit.cause == Cause.WEBHOOK:
        unit.job(job, last_webhook_at=unit.now)
    if update.status == JobStatus.UNKNOWN and job.state == JobState.SUBMITTED:
        if update.problem:
            unit.job(job, error_text=f"What the provider says of it cannot be read: {update.problem}"[:2000])
        else:
            unit.job(job, provider_status=update.raw_status[:60])
    if job.poll_misses:
        unit.job(job, poll_misses=0)


def _progressed(unit: UnitOfWork, task: Task, job: ExternalJob, update: ProviderUpdate) -> tuple[str, str | None]:
    """Queued and running: forward only. A word that says less than we know came late."""
    progress = update.progress if update.progress is not None else task.progress
    is_back = update.status == JobStatus.QUEUED and job.provider_status not in ("", update.raw_status)
    if is_back or progress < task.progress:
        return IGNORED, Reason.INVALID_TRANSITION.value
    if job.provider_status != update.raw_status:
        unit.job(job, provider_status=update.raw_status[:60])
    if progress > task.progress:
        unit.amend(task, progress=min(progress, 100))
    return APPLIED, None


def _ended(unit: UnitOfWork, job: ExternalJob, update: ProviderUpdate, state: JobState) -> str:
    """Close the job; returns who noticed, and how late, in words for the timeline."""
    unit.job(
        job,
        state=state,
        provider_status=update.raw_status[:60],
        finished_by=unit.cause.value,
        finished_at=unit.now,
        next_poll_at=None,
        error_text=update.error_text,
    )
    if update.happened_at is None:
        return f"Noticed by {unit.cause.value}."
    late = max(0, round((unit.now - update.happened_at).total_seconds()))
    return f"Noticed by {unit.cause.value}, {late} s after it happened."


def _completed(unit: UnitOfWork, task: Task, job: ExternalJob, update: ProviderUpdate) -> tuple[str, str | None]:
    detail = _ended(unit, job, update, JobState.SUCCEEDED)
    lifecycle.upstream_completed(unit, task, detail=detail)
    return ACCEPTED, None


def _failed(unit: UnitOfWork, task: Task, job: ExternalJob, update: ProviderUpdate) -> tuple[str, str | None]:
    _ended(unit, job, update, JobState.FAILED)
    text = update.error_text or "The provider says that the job failed, and not why."
    lifecycle.fail(unit, task, code=update.error_code or "failed_upstream", text=text, reason="failed_upstream")
    return APPLIED, None


def _cancelled(unit: UnitOfWork, task: Task, job: ExternalJob, update: ProviderUpdate) -> tuple[str, str | None]:
    detail = _ended(unit, job, update, JobState.CANCELLED)
    lifecycle.cancelled_by_provider(unit, task, text=update.error_text or detail)
    return APPLIED, None


_ENDS: dict[JobStatus, Callable[[UnitOfWork, Task, ExternalJob, ProviderUpdate], tuple[str, Any]]] = {
    JobStatus.SUCCEEDED: _completed,
    JobStatus.FAILED: _failed,
    JobStatus.CANCELLED: _cancelled,
}
