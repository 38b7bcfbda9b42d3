"""Words that carry the reference of one of our starts: they say whose start began the job that they speak of.

A start whose answer has not come, or never will, is given its job by such a word; so is one that was given up, so that
what it began is known by name. The reference is no proof of anything: whoever hands updates in has verified them. It
never takes a job from a start that has one, and of another account it says nothing.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import structlog
from django.db import IntegrityError

from tasks.engine import lifecycle, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external.starting import settle_one
from tasks.models import ExternalJob
from tasks.providers.base import ProviderUpdate, StartedJob
from tasks.states import Cause, JobState, Reason

LENGTH = 64  # what is kept of a reference that a URL names

log = structlog.get_logger(__name__)


def is_ours(provider: str, reference: str) -> bool:
    """Whether the account made a start of this reference."""
    token = _token(reference)
    return token is not None and ExternalJob.objects.filter(provider=provider, start_token=token).exists()


def of(provider: str, references: Iterable[str]) -> dict[str, ExternalJob]:
    """The account's starts, by their references as they were given."""
    tokens = {reference: token for reference in references if (token := _token(reference)) is not None}
    rows = ExternalJob.objects.filter(provider=provider, start_token__in=set(tokens.values())) if tokens else ()
    by_token = {row.start_token: row for row in rows}
    return {reference: by_token[token] for reference, token in tokens.items() if token in by_token}


def _token(reference: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(reference)
    except ValueError:
        return None


def take_up(
    updates: Sequence[ProviderUpdate], provider: str, cause: Cause, now: datetime
) -> tuple[list[ProviderUpdate], dict[int, Reason]]:
    """Give the starts that are named here their jobs. Returns the updates, each with the job id that it then has, and
    for those that cannot be judged, by their index, why."""
    taken, apart = list(updates), dict[int, Reason]()
    named = [index for index, update in enumerate(updates) if update.reference and not update.problem]
    if not named:
        return taken, apart
    ids = {updates[index].job_id for index in named}
    rows = ExternalJob.objects.filter(provider=provider, job_id__in=ids - {""})
    known = set(rows.values_list("job_id", "item_key"))
    starts = of(provider, [updates[index].reference for index in named])
    for index in named:
        update = updates[index]
        if (update.job_id, update.item_key) in known or update.means_all_items:
            continue
        start = starts.get(update.reference)
        if not update.job_id:
            taken[index], reason = _by_its_start(update, start)
        else:
            reason = _adopted(start, update, cause, now) if start else Reason.UNKNOWN_REFERENCE
        if reason is not None:
            apart[index] = reason
    return taken, apart


def _by_its_start(update: ProviderUpdate, start: ExternalJob | None) -> tuple[ProviderUpdate, Reason | None]:
    """Of a word without a job id: the job that its start was given, where it was given one yet."""
    if start is None:
        return update, Reason.UNKNOWN_REFERENCE
    if not start.job_id:
        return update, Reason.PARKED if start.state == JobState.SUBMITTING else Reason.SUPERSEDED_JOB
    return replace(update, job_id=start.job_id, item_key=start.item_key), None


def _adopted(start: ExternalJob, update: ProviderUpdate, cause: Cause, now: datetime) -> Reason | None:
    """In a transaction of its own, so that one that cannot be adopted keeps no other back."""
    try:
        reason = _adopt(start, update, cause, now)
    except IntegrityError:  # another start was given this job at the same moment
        reason = Reason.REFERENCE_USED
    if reason is not None:
        log.warning("reference_not_taken", provider=start.provider, external_job=start.pk, reason=reason.value)
    return reason


def _adopt(start: ExternalJob, update: ProviderUpdate, cause: Cause, now: datetime) -> Reason | None:
    with UnitOfWork.opened(cause=cause, now=now) as unit:
        tasks = unit.lock([start.task_id])
        job = ExternalJob.objects.select_for_update(no_key=True, of=("self",)).filter(pk=start.pk).first()
        if job is None or not tasks:
            return Reason.TASK_NOT_FOUND
        if job.job_id:
            is_same = (job.job_id, job.item_key) == (update.job_id, update.item_key)
            return None if is_same else Reason.REFERENCE_USED
        is_open = job.state == JobState.SUBMITTING
        settle_one(unit, tasks[0], job, StartedJob(update.reference, update.job_id, item_key=update.item_key))
        if is_open:
            words = "The provider's callback" if cause == Cause.WEBHOOK else "The provider"
            detail = f"{words} names this start, and the job {update.job_id}, before the start call was answered."
            lifecycle.adopted(unit, tasks[0], detail=detail)
            unit.wake(*wake.jobs_named())
    return None
