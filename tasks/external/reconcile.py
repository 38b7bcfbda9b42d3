"""The poll: ask providers about every open external job, many in one call, and repair what webhooks missed.

What the provider says goes through the same `apply` as a webhook. A provider that is down changes nothing. Each job's
next poll is set before it is asked about, so a crash makes a later poll, never a storm.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Count, Max, Q

from kernel import steps
from tasks import providers
from tasks.engine import lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external import adoption
from tasks.external.updates import apply_many
from tasks.models import ExternalJob
from tasks.providers.base import Provider, ProviderError, ProviderUpdate
from tasks.states import Cause, JobState, JobStatus, State

EVERY = timedelta(seconds=50)  # a little under the beat's minute, so that each job is asked about in each round
MISSES = 3  # so many polls in a row that did not find a job, and it is lost
YOUNG = timedelta(seconds=60)  # a job this young may not be listed yet
CHUNK = 500

log = structlog.get_logger(__name__)


@dataclass
class ReconcileReport:
    """What a round did or, in a dry run, would do. `differences`: `{task_id, job_id, ours, theirs, would}`."""

    asked: int = 0
    changed: int = 0
    not_found: int = 0
    lost: int = 0
    timed_out: int = 0
    adopted: int = 0
    never_began: int = 0
    unreachable: dict[str, str] = field(default_factory=dict)
    differences: list[dict[str, Any]] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        return asdict(self)


def reconcile(now: datetime, *, dry_run: bool = False, force: bool = False) -> ReconcileReport:
    """One round over all providers. `force` asks about every open job, not only those that are due."""
    report = ReconcileReport()
    if not dry_run:
        report.adopted, report.never_began = adoption.adopt(now).values()
    open_jobs = ExternalJob.objects.filter(state=JobState.SUBMITTED)
    for name in list(open_jobs.order_by().values_list("provider", flat=True).distinct()):
        provider = providers.get(name)
        if provider is None:
            report.unreachable[name] = "not configured"
            continue
        look = partial(_round, provider, now, report, dry_run=dry_run, everything=force or dry_run)
        if not steps.guarded(f"tasks: poll of {name}", look):
            report.unreachable[name] = "poll_broke"
    if not dry_run:
        report.timed_out = time_out(now)
    log.info("reconciled", **{k: v for k, v in report.shown().items() if isinstance(v, int) and v})
    return report


def _round(provider: Provider, now: datetime, report: ReconcileReport, *, dry_run: bool, everything: bool) -> None:
    after = 0
    while jobs := _due(provider.name, now, after, everything=everything, claim=not dry_run):
        after = jobs[-1].pk
        report.asked += len(jobs)
        try:
            listed = provider.list_jobs(job_ids=list(dict.fromkeys(job.job_id for job in jobs)))
        except ProviderError as error:
            report.unreachable[provider.name] = error.code
            log.warning("poll_not_answered", provider=provider.name, jobs=len(jobs), error=error.code)
            return
        said = {(job.update.job_id, job.update.item_key): job.update for job in listed}
        found = [(job, said[job.job_id, job.item_key]) for job in jobs if (job.job_id, job.item_key) in said]
        missing = [job for job in jobs if (job.job_id, job.item_key) not in said]
        report.not_found += len(missing)
        if dry_run:
            report.differences += _differences(found, missing)
        else:
            report.changed += _apply(provider.name, found, now)
            report.lost += _count_missing(missing, now)


def _due(provider: str, now: datetime, after: int, *, everything: bool, claim: bool) -> list[ExternalJob]:
    with transaction.atomic():
        rows = ExternalJob.objects.filter(provider=provider, state=JobState.SUBMITTED, pk__gt=after)
        if not everything:
            rows = rows.filter(next_poll_at__lte=now)
        if claim:
            rows = rows.select_for_update(no_key=True, skip_locked=True, of=("self",))
        jobs = list(rows.order_by("pk")[:CHUNK])
        if claim:
            ids = [job.pk for job in jobs]
            ExternalJob.objects.filter(pk__in=ids).update(next_poll_at=now + EVERY, last_polled_at=now)
    return jobs


def _is_news(job: ExternalJob, update: ProviderUpdate) -> bool:
    """Progress alone is no news for the poll: only a status that differs is worth the locks."""
    return bool(update.problem) or update.raw_status[:60] != job.provider_status or bool(job.poll_misses)


def _apply(provider: str, found: Sequence[tuple[ExternalJob, ProviderUpdate]], now: datetime) -> int:
    return _applied(provider, [update for job, update in found if _is_news(job, update)], now)


def _applied(provider: str, news: Sequence[ProviderUpdate], now: datetime) -> int:
    """All together; if one of them breaks that, each for itself. Returns how many changed something."""
    if not news:
        return 0
    try:
        answers = apply_many(news, provider=provider, cause=Cause.POLL, now=now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("poll_updates_failed", provider=provider, jobs=len(news))
        return sum(_applied(provider, [update], now) for update in news) if len(news) > 1 else 0
    return sum(answer.status != "ignored" for answer in answers)


def _count_missing(missing: Sequence[ExternalJob], now: datetime) -> int:
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
                text = f"The provider did not know the job in {job.poll_misses} polls in a row.{_last_word(job)}"
                unit.job(job, **_closed(unit, JobState.LOST, text))
                lost += lifecycle.fail(unit, tasks[job.task_id], code="job_lost", text=text)
    return lost


def _closed(unit: UnitOfWork, state: JobState, text: str) -> dict[str, Any]:
    return {
        "state": state,
        "finished_at": unit.now,
        "finished_by": unit.cause.value,
        "next_poll_at": None,
        "error_text": text,
    }


def time_out(now: datetime) -> int:
    """Jobs that took longer than their kind allows fail; the provider is asked to stop them, to save their cost."""
    open_states = [JobState.SUBMITTING, JobState.SUBMITTED]
    late = ExternalJob.objects.filter(state__in=open_states, task__state=State.RUNNING, task__deadline_at__lt=now)
    late_ids = list(late.order_by("pk").values_list("task_id", flat=True)[:CHUNK])
    stopped = []
    with UnitOfWork.opened(cause=Cause.POLL, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(late_ids, deadline_at__lt=now)} if late_ids else {}
        for job in unit.jobs_of(tasks.values()).values():
            text = f"The provider did not finish within the time that the kind's policy allows.{_last_word(job)}"
            if job.state in open_states and lifecycle.fail(unit, tasks[job.task_id], code="timed_out", text=text):
                unit.job(job, **_closed(unit, JobState.FAILED, text))
                stopped.append(job)
    for job in stopped:
        _stop(job)
    return len(stopped)


def _last_word(job: ExternalJob) -> str:
    """What the provider said of it last, in its own words; it may say what ours hide ("aborted")."""
    status = f" Its last word was “{job.provider_status}”." if job.provider_status else ""
    if job.state == JobState.SUBMITTING:
        status = " It never said that it has the job."
    return f"{status} {job.error_text}".rstrip()[:1000]


def _stop(job: ExternalJob) -> None:
    provider = providers.get(job.provider)
    if provider is None or not job.job_id:
        return
    try:
        provider.cancel(job.job_id)
    except ProviderError as error:
        log.warning("late_job_not_stopped", external_job=job.pk, provider=job.provider, error=error.code)
    except Exception:
        log.exception("late_job_not_stopped", external_job=job.pk, provider=job.provider)


def _differences(
    found: Sequence[tuple[ExternalJob, ProviderUpdate]], missing: Sequence[ExternalJob]
) -> list[dict[str, Any]]:
    rows = [_difference(job, update.raw_status, _WOULD.get(update.status, "change nothing"))
            for job, update in found if _is_news(job, update)]  # fmt: skip
    return rows + [_difference(job, "not found", "count a miss") for job in missing]


def _difference(job: ExternalJob, theirs: str, would: str) -> dict[str, Any]:
    ours = job.provider_status or "submitted"
    return {"task_id": str(job.task_id), "job_id": job.job_id, "ours": ours, "theirs": theirs, "would": would}


_WOULD = {
    JobStatus.QUEUED: "note the progress",
    JobStatus.RUNNING: "note the progress",
    JobStatus.SUCCEEDED: "fetch the result",
    JobStatus.FAILED: "fail the attempt",
    JobStatus.CANCELLED: "cancel the task or fail the attempt",
}


@dataclass(frozen=True)
class Silence:
    """How much of a provider's work only the poll finished: near 1.0, its webhooks do not reach us."""

    provider: str
    finished: int
    by_poll: int
    open: int
    last_webhook_at: datetime | None


def silence(now: datetime, window: timedelta = timedelta(hours=1)) -> list[Silence]:
    """For each provider that finished anything in the window, who noticed. `open` is counted now."""
    recent = ExternalJob.objects.filter(finished_at__gt=now - window, finished_by__in=[Cause.WEBHOOK, Cause.POLL])
    rows = recent.order_by("provider").values("provider").annotate(
        finished=Count("pk"), by_poll=Count("pk", filter=Q(finished_by=Cause.POLL)), last=Max("last_webhook_at")
    )  # fmt: skip
    open_jobs = ExternalJob.objects.filter(state=JobState.SUBMITTED).order_by()
    waiting = dict(open_jobs.values_list("provider").annotate(number=Count("pk")))
    return [
        Silence(row["provider"], row["finished"], row["by_poll"], waiting.get(row["provider"], 0), row["last"])
        for row in rows
    ]
