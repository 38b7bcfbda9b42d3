"""Start external jobs: claim and commit, call the provider, settle.

The claim writes the job row with its start token before the call, so that a start whose answer never came can be
found at the provider and adopted (`tasks.external.adoption`). The call runs in a thread and touches no database. What
came of it is settled against the job's start token: a settle that comes after the rescue changes no state.
"""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

import structlog
from django.conf import settings

from kernel import correlation
from tasks import kinds, providers
from tasks.engine import lifecycle, limits, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import ExternalJob, KindPolicy, Task
from tasks.providers.base import (
    BadAnswer,
    NewJob,
    OutcomeUnknown,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    StartedJob,
)
from tasks.states import Cause, JobState, State

LEASE = timedelta(seconds=90)  # well above the longest call, with its repeats for a rejected batch
CALL_BUDGET_SECONDS = 45.0
FIRST_LOOK = timedelta(seconds=30)  # when an unanswered start is looked for; above one call's deadline
FIRST_POLL = timedelta(seconds=30)
AFTER_UNKNOWN = timedelta(seconds=3)

log = structlog.get_logger(__name__)
StartOutcome = StartedJob | ProviderError


@dataclass(frozen=True, slots=True)
class Start:
    """One start call: a single task's, or those of several tasks of one batch."""

    kind: str
    provider: str
    jobs: tuple[NewJob, ...]
    task_ids: tuple[int, ...]
    call: ProviderCall
    as_batch: bool


def callback_url(kind: str, provider: str) -> str:
    """Where the provider calls back; empty without PUBLIC_BASE_URL, and then the poll finishes everything."""
    if not settings.PUBLIC_BASE_URL:
        return ""
    return f"{settings.PUBLIC_BASE_URL}/webhooks/{kind.replace('_', '-')}/{provider.replace('_', '-')}/"


def claim(kind: str, calls: int, now: datetime) -> list[Start]:
    """Take due tasks of a kind for up to `calls` start calls, within its limits; their job rows are committed."""
    kinds.policy_for(kind)  # made, where this is the first task of its kind
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        policy = limits.locked_policy(kind)
        provider = kinds.provider_for(policy) if policy else None
        if policy is None or provider is None or calls < 1:
            return []
        size = max(1, min(policy.batch_size, provider.max_batch))
        room = min(limits.room(policy, now), size * calls)
        groups = _groups(_due(kind, room, now), size)[:calls] if room else []
        starts = [_begin(unit, policy, provider, group, size > 1) for group in groups]
        limits.spend(policy, sum(len(start.jobs) for start in starts), now)
    return starts


def _due(kind: str, room: int, now: datetime) -> list[Task]:
    rows = Task.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
    due = rows.filter(kind=kind, state__in=[State.QUEUED, State.RETRYING], next_attempt_at__lte=now)
    return list(due.defer("result").order_by("next_attempt_at", "pk")[:room])


def next_due(kind: str) -> datetime | None:
    """When a start of this kind may be made next; None where nothing waits, or only a finished task makes room."""
    policy = KindPolicy.objects.filter(kind=kind, is_paused=False).first()
    waiting = Task.objects.filter(kind=kind, state__in=[State.QUEUED, State.RETRYING])
    first = waiting.order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()
    if policy is None or first is None:
        return None
    if limits.is_full(policy):
        return None
    return max(moment for moment in (first, policy.held_until) if moment is not None)


def _groups(tasks: Sequence[Task], size: int) -> list[list[Task]]:
    """One start call each: neighbours of one batch together, single tasks alone, since each has its own journey."""
    groups = []
    for batch_id, run in groupby(tasks, key=lambda task: task.batch_id):
        members = list(run)
        step = size if batch_id else 1
        groups += [members[at : at + step] for at in range(0, len(members), step)]
    return groups


def _begin(unit: UnitOfWork, policy: KindPolicy, provider: Provider, group: list[Task], can_batch: bool) -> Start:
    lease = {"lease_token": uuid.uuid4(), "leased_until": unit.now + LEASE}
    deadline = policy.attempt_deadline(unit.now)
    jobs = []
    for task in group:
        token = uuid.uuid4()
        lifecycle.start(unit, task, deadline=deadline, detail=f"At {provider.name}.", **lease)
        unit.add_job(
            ExternalJob(
                task=task,
                provider=provider.name,
                attempt=task.attempt_count,
                start_token=token,
                next_poll_at=unit.now + FIRST_LOOK,
            )
        )
        jobs.append(NewJob(str(token), task.input))
    return Start(
        kind=policy.kind,
        provider=provider.name,
        jobs=tuple(jobs),
        task_ids=tuple(task.pk for task in group),
        call=ProviderCall(callback_url(policy.kind, provider.name), group[0].correlation_id),
        as_batch=can_batch and group[0].batch_id is not None,
    )


# --- the call: in a thread, without the database ----------------------------------------------------------------


def call(start: Start) -> dict[str, StartOutcome]:
    """Carry a start out; answers for each reference what came of it. Never raises."""
    provider = providers.get(start.provider)
    with correlation.bind(start.call.correlation_id):
        if provider is None:
            gone = ProviderUnavailable(f"The provider {start.provider} is not configured any more.")
            return {job.reference: gone for job in start.jobs}
        ends = time.monotonic() + CALL_BUDGET_SECONDS
        if start.as_batch:
            return _as_batch(provider, start, start.jobs, ends)
        return {job.reference: _one(provider, start, job) for job in start.jobs}


def _as_batch(provider: Provider, start: Start, jobs: Sequence[NewJob], ends: float) -> dict[str, StartOutcome]:
    """One call; if the provider rejects it, halves of it, until the job that it rejects stands alone."""
    if time.monotonic() > ends:
        late = ProviderUnavailable("Not tried: the batch was rejected, and looking for the reason took too long.")
        return {job.reference: late for job in jobs}
    outcome = _answered(lambda: provider.start_batch(start.kind, jobs, start.call))
    if isinstance(outcome, ProviderRejected) and len(jobs) > 1:
        middle = len(jobs) // 2
        first = _as_batch(provider, start, jobs[:middle], ends)
        return {**first, **_as_batch(provider, start, jobs[middle:], ends)}
    if isinstance(outcome, ProviderError):
        return {job.reference: outcome for job in jobs}
    started = {job.reference: job for job in outcome}
    missing = OutcomeUnknown("The provider's answer does not name this job.")
    return {job.reference: started.get(job.reference, missing) for job in jobs}


def _one(provider: Provider, start: Start, job: NewJob) -> StartOutcome:
    outcome: StartOutcome = _answered(lambda: provider.start(start.kind, job, start.call))
    return outcome


def _answered(make):  # type: ignore[no-untyped-def]
    """The call's answer or its typed error. What nobody foresaw may have started something."""
    try:
        return make()
    except BadAnswer as error:
        return OutcomeUnknown(error.detail)
    except ProviderError as error:
        return error
    except Exception as error:
        log.exception("start_call_broke", error=type(error).__name__)
        return OutcomeUnknown("The start call broke unexpectedly; see the log.")


# --- settling -------------------------------------------------------------------------------------------------


def settle(start: Start, outcomes: dict[str, StartOutcome], now: datetime) -> None:
    """Write what came of a start call."""
    failures = _failures(outcomes)
    outcomes = _each_its_own(start.provider, outcomes)
    wait = limits.hold(start.kind, failures[0], now) if failures else 0.0
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(start.task_ids)}
        jobs = ExternalJob.objects.select_for_update(no_key=True, of=("self",)).filter(start_token__in=list(outcomes))
        for job in jobs.order_by("pk"):
            settle_one(unit, tasks[job.task_id], job, outcomes[str(job.start_token)], wait)
        unit.wake(*wake.jobs_named())
    if not failures:
        limits.release(start.kind)
    _report(start, outcomes)


def _each_its_own(provider: str, outcomes: dict[str, StartOutcome]) -> dict[str, StartOutcome]:
    """A job id that two starts were given is one's at most: the other is looked for, and keeps nobody back."""
    ids = {outcome.job_id for outcome in outcomes.values() if isinstance(outcome, StartedJob)}
    rows = ExternalJob.objects.filter(provider=provider, job_id__in=ids) if ids else ExternalJob.objects.none()
    holder = {
        (job_id, item): str(token) for job_id, item, token in rows.values_list("job_id", "item_key", "start_token")
    }
    kept: dict[str, StartOutcome] = {}
    for reference, outcome in outcomes.items():
        if isinstance(outcome, StartedJob) and reference != holder.setdefault(
            (outcome.job_id, outcome.item_key), reference
        ):
            outcome = OutcomeUnknown(f"The provider gave the job {outcome.job_id} for this start and for another one.")
        kept[reference] = outcome
    return kept


def _failures(outcomes: dict[str, StartOutcome]) -> list[ProviderError]:
    """Why the kind has to wait: the provider could not take the call, or nobody can say whether it did.

    One start of many without an answer holds nobody up: the others show that the provider takes work.
    """
    errors = [outcome for outcome in outcomes.values() if isinstance(outcome, ProviderError)]
    waits = [error for error in errors if not isinstance(error, ProviderRejected | OutcomeUnknown)]
    return waits or [error for error in errors if isinstance(error, OutcomeUnknown) and len(errors) == len(outcomes)]


def settle_one(unit: UnitOfWork, task: Task, job: ExternalJob, outcome: StartOutcome, wait: float = 0.0) -> None:
    """One job's part; `task` and `job` are locked. Also how an orphan that was found is adopted."""
    if job.state != JobState.SUBMITTING:
        if isinstance(outcome, StartedJob) and not job.job_id:  # given up as lost meanwhile; now we know its name
            unit.job(job, job_id=outcome.job_id, item_key=outcome.item_key, provider_batch_id=outcome.batch_id)
        return
    if isinstance(outcome, StartedJob):
        unit.job(
            job,
            state=JobState.SUBMITTED,
            job_id=outcome.job_id,
            item_key=outcome.item_key,
            provider_batch_id=outcome.batch_id,
            submitted_at=unit.now,
            next_poll_at=unit.now + FIRST_POLL,
            poll_misses=0,
        )
        unit.amend(task, lease_token=None, leased_until=None, rescue_count=0, error_code="", error_text="")
    elif isinstance(outcome, OutcomeUnknown):
        unit.job(job, next_poll_at=unit.now + AFTER_UNKNOWN, error_text=outcome.detail)
        # Without its lease: the caller is alive and has said what it knows, so this will be no rescue.
        said = {"error_code": outcome.code, "error_text": outcome.detail[:2000]}
        unit.amend(task, lease_token=None, leased_until=None, **said)
    elif isinstance(outcome, ProviderRejected):
        text = outcome.detail
        unit.job(job, state=JobState.FAILED, finished_at=unit.now, next_poll_at=None, error_text=text)
        lifecycle.fail(unit, task, code=outcome.code, text=text, permanent=True)
    else:
        job.delete()  # nothing exists at the provider; the transition keeps the story
        lifecycle.not_started(unit, task, code=outcome.code, text=outcome.detail, wait_seconds=wait)


def _report(start: Start, outcomes: dict[str, StartOutcome]) -> None:
    words: dict[str, int] = {}
    for outcome in outcomes.values():
        word = "started" if isinstance(outcome, StartedJob) else outcome.code
        words[word] = words.get(word, 0) + 1
    with correlation.bind(start.call.correlation_id):
        log.info("start_call_settled", kind=start.kind, provider=start.provider, **words)
