"""What a poll heard against what we have: news is applied, misses are counted, differences are told in a dry run."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError

from tasks.engine import lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external.overdue import closed, last_word
from tasks.external.updates import apply_many
from tasks.models import ExternalJob
from tasks.providers.base import ProviderUpdate
from tasks.states import Cause, JobState, JobStatus

EVERY = timedelta(seconds=50)  # a little under the beat's minute, so that each job is asked about in each round
MISSES = 3  # so many polls in a row that did not find a job, and it is lost
YOUNG = timedelta(seconds=60)  # a job this young may not be listed yet

log = structlog.get_logger(__name__)


def is_news(job: ExternalJob, update: ProviderUpdate) -> bool:
    """Progress alone is no news for the poll: only a status that differs is worth the locks."""
    return bool(update.problem) or update.raw_status[:60] != job.provider_status or bool(job.poll_misses)


def apply_all(provider: str, news: Sequence[ProviderUpdate], now: datetime) -> int:
    """All together; if one of them breaks that, each for itself. Returns how many changed something."""
    if not news:
        return 0
    try:
        answers = apply_many(news, provider=provider, cause=Cause.POLL, now=now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("poll_updates_failed", provider=provider, jobs=len(news))
        return sum(apply_all(provider, [update], now) for update in news) if len(news) > 1 else 0
    return sum(answer.status != "ignored" for answer in answers)


def count_missing(missing: Sequence[ExternalJob], now: datetime) -> int:
    """Unknown to the provider for several polls, a minute apart: lost, and the task gets a new attempt."""
    if not missing:
        return 0
    lost, asked = 0, {job.pk: job.last_polled_at for job in missing}
    with UnitOfWork.opened(cause=Cause.POLL, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock([job.task_id for job in missing])}
        for job in unit.jobs_of(tasks.values()).values():
            if job.pk not in asked or job.state != JobState.SUBMITTED or now < (job.submitted_at or now) + YOUNG:
                continue
            before = asked[job.pk]  # as it was before this poll
            if job.poll_misses and before is not None and now < before + EVERY:
                unit.job(job, last_polled_at=before)  # asked out of turn: a moment's gap in a listing is one miss
                continue
            unit.job(job, poll_misses=job.poll_misses + 1)
            if job.poll_misses >= MISSES:
                text = f"The provider did not know the job in {job.poll_misses} polls in a row.{last_word(job)}"
                unit.job(job, **closed(unit, JobState.LOST, text))
                lost += lifecycle.fail(unit, tasks[job.task_id], code="job_lost", text=text)
    return lost


Difference = dict[str, Any]  # task_id, job_id, ours, theirs, would


def difference(job: ExternalJob, update: ProviderUpdate | None) -> Difference:
    """What a dry run tells of a job; None where the provider does not know it."""
    theirs = update.raw_status if update is not None else "not found"
    would = _WOULD.get(update.status, "change nothing") if update is not None else "count a miss"
    ours = job.provider_status or "submitted"
    return {"task_id": str(job.task_id), "job_id": job.job_id, "ours": ours, "theirs": theirs, "would": would}


_WOULD = {
    JobStatus.QUEUED: "note the progress",
    JobStatus.RUNNING: "note the progress",
    JobStatus.SUCCEEDED: "fetch the result",
    JobStatus.FAILED: "fail the attempt",
    JobStatus.CANCELLED: "cancel the task or fail the attempt",
}
