"""Starts whose answer never came: ask the provider by start token, then adopt the job or conclude there is none.

A worker that died between the claim and the answer, a call that timed out after the provider had obeyed it: both leave
a job row `submitting`. Starting again at once would do and pay the work twice.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.db import InterfaceError, OperationalError, transaction

from tasks import providers
from tasks.engine import lifecycle, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external.starting import LEASE, settle_one
from tasks.external.updates import apply_many
from tasks.models import ExternalJob, Task
from tasks.providers.base import ListedJob, ProviderError, StartedJob
from tasks.states import Cause, JobState

LOOK_AGAIN = timedelta(seconds=10)
LOOKS = 3  # so many times not found, after the lease is over, and it never began
LIMIT = 200

log = structlog.get_logger(__name__)


def adopt(now: datetime, cause: Cause = Cause.POLL) -> dict[str, int]:
    """Settle due unanswered starts of every provider. Returns how many were adopted and how many never began."""
    numbers = {"adopted": 0, "never_began": 0}
    names = ExternalJob.objects.filter(state=JobState.SUBMITTING, next_poll_at__lte=now)
    for name in list(names.order_by().values_list("provider", flat=True).distinct()):
        while jobs := _claim(name, now):
            found = _look(name, jobs)
            if found is None:
                break  # the provider is down: nothing changes, and nothing is concluded
            numbers["adopted"] += _adopt_found(name, found, now, cause)
            numbers["never_began"] += _count_missing(jobs, {job.reference for job in found}, now, cause)
            if len(jobs) < LIMIT:
                break
    return numbers


def _claim(provider: str, now: datetime) -> list[ExternalJob]:
    """Those to look for now; the next look is set before this one is made."""
    with transaction.atomic():
        rows = ExternalJob.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        due = rows.filter(provider=provider, state=JobState.SUBMITTING, next_poll_at__lte=now)
        jobs = list(due.order_by("next_poll_at", "pk")[:LIMIT])
        ExternalJob.objects.filter(pk__in=[job.pk for job in jobs]).update(
            next_poll_at=now + LOOK_AGAIN, last_polled_at=now
        )
    return jobs


def _look(name: str, jobs: Sequence[ExternalJob]) -> list[ListedJob] | None:
    provider = providers.get(name)
    if provider is None or not provider.finds_references:
        return [] if provider else None
    try:
        return provider.list_jobs(references=[str(job.start_token) for job in jobs])
    except ProviderError as error:
        log.warning("orphans_not_looked_for", provider=name, jobs=len(jobs), error=error.code)
        return None


def _adopt_found(provider: str, found: Sequence[ListedJob], now: datetime, cause: Cause) -> int:
    """Give each row the job that carries its token (the oldest, should there be two), then apply what it says.

    Each in a transaction of its own, so that one that cannot be adopted keeps no other back.
    """
    by_token: dict[str, ListedJob] = {}
    for listed in found:
        by_token.setdefault(listed.reference, listed)
    orphans = ExternalJob.objects.filter(start_token__in=[token for token in by_token if _is_token(token)])
    adopted = 0
    for job in list(orphans.order_by("pk")):
        match = by_token[str(job.start_token)]
        try:
            adopted += _adopt_one(job, match, now, cause)
            if match.update.job_id:
                apply_many([match.update], provider=provider, cause=cause, now=now)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("orphan_not_adopted", external_job=job.pk, provider=provider)
    return adopted


def _is_token(reference: str) -> bool:
    """Whether it can be one of ours: a listing holds whatever its provider kept."""
    try:
        return str(uuid.UUID(reference)) == reference
    except ValueError:
        return False


def _adopt_one(orphan: ExternalJob, match: ListedJob, now: datetime, cause: Cause) -> bool:
    update = match.update
    with UnitOfWork.opened(cause=cause, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock([orphan.task_id])}
        job = unit.jobs_of(tasks.values()).get(orphan.task_id)
        if job is None or job.pk != orphan.pk or job.state != JobState.SUBMITTING:
            return False
        if words := _unusable(job, match):
            unit.job(job, error_text=words)
            return False
        started = StartedJob(match.reference, update.job_id, match.batch_id, update.item_key)
        settle_one(unit, tasks[job.task_id], job, started)
        lifecycle.adopted(unit, tasks[job.task_id])
        unit.wake(*wake.jobs_named())
    return True


def _unusable(job: ExternalJob, match: ListedJob) -> str:
    """Why this entry cannot be taken for the orphan's job; "" where it can. It is asked about again."""
    update = match.update
    if not update.job_id:
        return f"The provider knows this start, but what it says of it cannot be read: {update.problem}"[:2000]
    others = ExternalJob.objects.filter(provider=job.provider, job_id=update.job_id, item_key=update.item_key)
    if others.exclude(pk=job.pk).exists():
        return f"The provider gives the job {update.job_id} for this start and for another one."
    return ""


def _count_missing(jobs: Sequence[ExternalJob], found: set[str], now: datetime, cause: Cause) -> int:
    """Not found often enough, and surely no call is in the air any more: the start never began. Not charged."""
    missing = {job.pk: job.task_id for job in jobs if str(job.start_token) not in found}
    if not missing:
        return 0
    never_began = 0
    with UnitOfWork.opened(cause=cause, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(missing.values())}
        for job in unit.jobs_of(tasks.values()).values():
            if job.pk not in missing or job.state != JobState.SUBMITTING:
                continue
            unit.job(job, poll_misses=job.poll_misses + 1)
            if job.poll_misses < LOOKS or now < job.created_at + LEASE:
                continue
            unit.job(job, state=JobState.LOST, finished_at=now, finished_by=cause.value, next_poll_at=None)
            _never_began(unit, tasks[job.task_id], job)
            unit.wake(wake.START)
            never_began += 1
    return never_began


def _never_began(unit: UnitOfWork, task: Task, job: ExternalJob) -> None:
    """A call that was answered, though not clearly, was made by somebody who lives; one that was not, perhaps not."""
    if task.lease_token is None:
        lost = ExternalJob.objects.filter(task_id=task.pk, attempt=job.attempt, state=JobState.LOST).exclude(pk=job.pk)
        text = f"{job.error_text} The provider knows no job with this start token, so it is started again."
        lifecycle.not_answered(unit, task, text=text.strip(), tries=lost.count() + 1)
        return
    detail = "The start call never reached the provider: it knows no job with this start token."
    lifecycle.rescue(unit, task, detail=detail, back_to_retrying=True)
