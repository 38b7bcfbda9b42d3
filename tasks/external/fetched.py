"""What becomes of a task when its result has come, or has not. On locked rows, in the caller's unit of work.

Only a result that is lost starts a new external job, because a new job is paid for again. One that cannot be read, that
is too large or that the provider refuses is a dead letter, and a redrive fetches it again; one that breaks a rule of
its kind is one under the rule's name, unless the kind says that a new job is to be started. What came is
kept for the operator (`tasks.external.kept`). A call that was too many, or made with a key that is refused, is the
account's trouble and is not counted against the task.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from tasks import kinds
from tasks.engine import backoff, lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external import kept
from tasks.models import ExternalJob, Task, Transition
from tasks.providers import results
from tasks.providers.base import (
    AnswerTooLarge,
    BadAnswer,
    Gone,
    ItemFailed,
    NotThere,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    ProviderThrottled,
    Result,
)
from tasks.states import JobState, State

GRACE = timedelta(seconds=120)  # so long a finished job's result may be "not there"
BAD_ANSWERS = 3
REFUSED, UNREADABLE, TOO_LARGE, FAILED = "result_refused", "result_unreadable", "result_too_large", "fetch_failed"
FETCH_LIMIT = 100  # with the backoff's cap of five minutes: some eight hours of a provider that is down

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A result, or why there is none. `note` and `raw`: see `Result`."""

    result: Any = None
    error: ProviderError | None = None
    note: str = ""
    raw: bytes | None = None


def of(found: Any, kind: str) -> Fetched:
    """What an adapter handed out, within what its kind takes. Raises BadAnswer."""
    if isinstance(found, ProviderError):
        return Fetched(error=found)
    if not isinstance(found, Result):  # what cannot be written must not be read, whatever an adapter reads with
        found = results.of(found)
    most = bytes_taken(kind)
    if found.raw is not None and len(found.raw) > most:
        return Fetched(error=AnswerTooLarge(f"It has {len(found.raw):,} bytes; {kind} takes {most:,}."))
    return Fetched(found.value, note=found.note, raw=found.raw)


def bytes_taken(kind: str) -> int:
    """The largest result that a kind takes."""
    known = kinds.find(kind)
    return known.result_bytes if known is not None else kinds.RESULT_BYTES


def judge(unit: UnitOfWork, task: Task, job: ExternalJob, given: Mapping[str, Any], fetched: Fetched) -> None:
    """`given` is the task's input, which a unit of work does not read."""
    if fetched.error is None:
        _has_come(unit, task, job, given, fetched)
    else:
        has_not_come(unit, task, job, fetched.error)


def _has_come(unit: UnitOfWork, task: Task, job: ExternalJob, given: Mapping[str, Any], fetched: Fetched) -> None:
    kind = kinds.get(task.kind)
    problem = str(kind.broken(given, fetched.result) or "")
    if problem or fetched.note:
        kept.keep(job, fetched.raw, " ".join(words for words in (problem, fetched.note) if words))
    elif task.error_code == BadAnswer.code:
        kept.drop(job)  # a page of something in between, as it turns out
    if not problem:
        lifecycle.succeed(unit, task, fetched.result, detail=fetched.note)
        return
    unit.job(job, error_text=problem)
    again = kind.starts_again_when_rejected and not fetched.note
    lifecycle.fail(unit, task, code="result_rejected", text=problem, permanent=not again)


def has_not_come(unit: UnitOfWork, task: Task, job: ExternalJob, error: ProviderError) -> None:
    """A wait, an end, or a new job."""
    if isinstance(error, BadAnswer):
        kept.keep(job, error.raw, error.detail)
    if isinstance(error, ItemFailed):
        unit.job(job, state=JobState.FAILED, error_text=error.detail)
        code = error.said or error.code
        lifecycle.fail(unit, task, code=code, text=error.detail, permanent=error.is_permanent, reason=error.code)
    elif isinstance(error, Gone) or (isinstance(error, NotThere) and unit.now - _asked_since(unit, task, job) > GRACE):
        unit.job(job, state=JobState.LOST, error_text=error.detail)
        text = f"The job is finished, but its result cannot be had any more. {error.detail}"
        lifecycle.fail(unit, task, code="result_lost", text=text)
    elif code := _for_good(task, error):
        unit.job(job, error_text=error.detail)
        lifecycle.fail(unit, task, code=code, text=_at_an_end(task, code, error), permanent=True)
    else:
        _wait(unit, task, error)


def is_missing(unit: UnitOfWork, task: Task, job: ExternalJob) -> None:
    """The results of its shared job came to their end twice, and its own was not among them."""
    if task.fetch_count < 2:
        _wait(unit, task, NotThere("The results of its job came to their end without this item; they are read again."))
        return
    text = "The job is finished and its results were read to their end twice, but this item's is not among them."
    unit.job(job, state=JobState.LOST, error_text=text)
    lifecycle.fail(unit, task, code="item_missing", text=text)


def _wait(unit: UnitOfWork, task: Task, error: ProviderError) -> None:
    is_the_accounts = isinstance(error, ProviderThrottled | ProviderDenied)
    seconds = backoff.before_fetch(task.fetch_count, error.retry_after)
    unit.amend(
        task,
        lease_token=None,
        leased_until=None,
        fetch_count=max(0, task.fetch_count - 1) if is_the_accounts else task.fetch_count,
        next_attempt_at=unit.now + timedelta(seconds=seconds),
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
    if isinstance(error, ProviderThrottled | ProviderDenied):
        return ""
    return FAILED if task.fetch_count >= FETCH_LIMIT else ""


_ENDS = {
    TOO_LARGE: "The job is finished, but its result is larger than we take.",
    REFUSED: "The job is finished, but the provider refuses to hand out its result.",
    UNREADABLE: "The job is finished, but its result cannot be read; what came is kept.",
}


def _at_an_end(task: Task, code: str, error: ProviderError) -> str:
    words = _ENDS.get(code) or f"The result could not be fetched in {task.fetch_count} tries."
    return f"{words} {error.detail} No new job was started; a redrive fetches it again."
