"""Fetch results of jobs that are finished upstream, and let the kind's rules judge them.

Fetching has retries of its own: not there yet, too many calls, provider down. Only a result that is lost, or that the
kind's rules reject, starts a new external job, because a new job is paid for again: one that cannot be read, that is
too large or that the provider refuses is a dead letter, and a redrive fetches it again. What came is kept for the
operator (`tasks.external.kept`). The URL is built by the adapter from its own base and the job id, never from a
payload.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F

from kernel import correlation
from tasks import kinds, providers
from tasks.engine import backoff, lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external import kept
from tasks.models import ExternalJob, Task, Transition
from tasks.providers import results
from tasks.providers.base import (
    AnswerTooLarge,
    BadAnswer,
    Gone,
    NotThere,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    Result,
)
from tasks.states import Cause, JobState, State

LEASE = timedelta(seconds=90)
GRACE = timedelta(seconds=120)  # so long a finished job's result may be "not there"
BAD_ANSWERS = 3
REFUSED, UNREADABLE, TOO_LARGE, FAILED = "result_refused", "result_unreadable", "result_too_large", "fetch_failed"
FETCH_LIMIT = 100  # with the backoff's cap of five minutes: some eight hours of a provider that is down

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fetch:
    task_id: int
    token: uuid.UUID
    kind: str
    input: Mapping[str, Any]
    correlation_id: str
    provider: str
    job_id: str
    item_key: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """A result, or why there is none. `note` and `raw`: see `Result`."""

    result: Any = None
    error: ProviderError | None = None
    note: str = ""
    raw: bytes | None = None


def claim(kind: str, limit: int, now: datetime) -> list[Fetch]:
    """Lease due tasks of a kind; their next try is moved ahead before anything is called."""
    token = uuid.uuid4()
    with transaction.atomic():
        rows = Task.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        due = rows.filter(kind=kind, state=State.FETCHING, next_attempt_at__lte=now, lease_token__isnull=True)
        tasks = list(due.defer("result").order_by("next_attempt_at", "pk")[:limit])
        if not tasks:
            return []
        ids = [task.pk for task in tasks]
        lease = {"lease_token": token, "leased_until": now + LEASE, "next_attempt_at": now + LEASE}
        Task.objects.filter(pk__in=ids).update(fetch_count=F("fetch_count") + 1, **lease)
        jobs = {job.task_id: job for job in ExternalJob.objects.filter(task_id__in=ids).order_by("pk")}
    return [_fetch(task, jobs[task.pk], token) for task in tasks]


def next_due(kind: str) -> datetime | None:
    """When a result of this kind is to be fetched next."""
    waiting = Task.objects.filter(kind=kind, state=State.FETCHING, lease_token__isnull=True)
    return waiting.order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()


def _fetch(task: Task, job: ExternalJob, token: uuid.UUID) -> Fetch:
    return Fetch(task.pk, token, task.kind, task.input, task.correlation_id, job.provider, job.job_id, job.item_key)


def call(fetch: Fetch) -> Fetched:
    """Ask the provider; in a thread, without the database. Never raises."""
    provider = providers.get(fetch.provider)
    if provider is None:
        return Fetched(error=ProviderUnavailable(f"The provider {fetch.provider} is not configured any more."))
    with correlation.bind(fetch.correlation_id):
        try:
            found = provider.result(fetch.job_id, fetch.item_key)
            if not isinstance(found, Result):  # what cannot be written must not be read, whatever an adapter reads with
                found = results.of(found)
            return Fetched(found.value, note=found.note, raw=found.raw)
        except ProviderError as error:
            return Fetched(error=error)
        except Exception as error:
            log.exception("fetch_broke", task=fetch.task_id, error=type(error).__name__)
            return Fetched(error=BadAnswer("Fetching the result broke unexpectedly; see the log."))


def settle(pairs: Sequence[tuple[Fetch, Fetched]], now: datetime) -> None:
    """Write what came of many fetches, in one transaction. A fetch whose lease was taken over writes nothing."""
    by_id = {fetch.task_id: (fetch, fetched) for fetch, fetched in pairs}
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        tasks = [task for task in unit.lock(by_id) if task.state == State.FETCHING]
        jobs = unit.jobs_of(tasks)
        for task in tasks:
            fetch, fetched = by_id[task.pk]
            if task.lease_token != fetch.token:
                continue
            if fetched.error is None:
                _judge(unit, task, jobs[task.pk], fetch, fetched)
            else:
                _not_fetched(unit, task, jobs[task.pk], fetched.error)


def _judge(unit: UnitOfWork, task: Task, job: ExternalJob, fetch: Fetch, fetched: Fetched) -> None:
    problem = _problem(fetch, fetched.result)
    if problem or fetched.note:
        kept.keep(job, fetched.raw, " ".join(words for words in (problem, fetched.note) if words))
    elif task.error_code == BadAnswer.code:
        kept.drop(job)  # a page of something in between, as it turns out
    if not problem:
        lifecycle.succeed(unit, task, fetched.result, detail=fetched.note)
        return
    unit.job(job, error_text=problem)
    lifecycle.fail(unit, task, code="result_rejected", text=problem, permanent=bool(fetched.note))


def _problem(fetch: Fetch, result: Any) -> str:
    try:
        return kinds.get(fetch.kind).accept(fetch.input, result)
    except Exception as error:
        log.exception("acceptance_rule_broke", task=fetch.task_id, kind=fetch.kind)
        return f"The result has a form that the rules of {fetch.kind} cannot judge ({type(error).__name__})."


def _not_fetched(unit: UnitOfWork, task: Task, job: ExternalJob, error: ProviderError) -> None:
    if isinstance(error, BadAnswer):
        kept.keep(job, error.raw, error.detail)
    if isinstance(error, Gone) or (isinstance(error, NotThere) and unit.now - _asked_since(unit, task, job) > GRACE):
        unit.job(job, state=JobState.LOST, error_text=error.detail)
        text = f"The job is finished, but its result cannot be had any more. {error.detail}"
        lifecycle.fail(unit, task, code="result_lost", text=text)
    elif code := _for_good(task, error):
        unit.job(job, error_text=error.detail)
        lifecycle.fail(unit, task, code=code, text=_at_an_end(task, code, error), permanent=True)
    else:
        wait = backoff.before_fetch(task.fetch_count, error.retry_after)
        unit.amend(
            task,
            lease_token=None,
            leased_until=None,
            next_attempt_at=unit.now + timedelta(seconds=wait),
            error_code=error.code,
            error_text=error.detail[:2000],
        )


def _asked_since(unit: UnitOfWork, task: Task, job: ExternalJob) -> datetime:
    """From when on a result that is not there is waited for: the end of its job, or a redrive that asks again."""
    finished = job.finished_at or unit.now
    again = Transition.objects.filter(task=task, to_state=State.FETCHING, reason="redriven").order_by("-id")
    redriven = again.values_list("at", flat=True).first() if task.redrive_count else None
    return max(finished, redriven) if redriven else finished


def _for_good(task: Task, error: ProviderError) -> str:
    """The reason word of a fetch that is not tried again by itself; "" where it is."""
    if isinstance(error, AnswerTooLarge):
        return TOO_LARGE
    if isinstance(error, ProviderRejected):
        return REFUSED
    if isinstance(error, BadAnswer) and task.fetch_count >= BAD_ANSWERS:
        return UNREADABLE
    return FAILED if task.fetch_count >= FETCH_LIMIT else ""


_ENDS = {
    TOO_LARGE: "The job is finished, but its result is larger than we take.",
    REFUSED: "The job is finished, but the provider refuses to hand out its result.",
    UNREADABLE: "The job is finished, but its result cannot be read; what came is kept.",
}


def _at_an_end(task: Task, code: str, error: ProviderError) -> str:
    words = _ENDS.get(code) or f"The result could not be fetched in {task.fetch_count} tries."
    return f"{words} {error.detail} No new job was started; a redrive fetches it again."
