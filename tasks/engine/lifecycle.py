"""Every step a task can take: the table, and one named verb per transition.

    scheduled ──promote──▶ queued ──start──▶ running ──upstream_completed──▶ fetching ──succeed──▶ succeeded
                              ▲                │  ▲  ╲─────────succeed (internal kinds)──────────▶╱
                              │     retry ◀────┤  │ start                         │
                           redrive  retrying ──┼──┘            retry, bury ◀──────┘
                              │                ▼
                              └─────────── dead_letter ──discard──▶ cancelled ◀──cancel── (every open state)
                                               └──refetch──▶ fetching (a redrive, where only the result was missing)

The verbs that take a unit work on a task which that unit has locked; the others are transactions of their own and
must not be mixed into one (a bulk operation runs a single one inside the transaction that writes its outcomes). A
provider's word can only move a task forward: what goes back (retry, rescue, redrive) is
our own decision, and its transition says so.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from kernel import audit
from tasks import kinds
from tasks.engine import backoff, clock, wake
from tasks.engine.unit_of_work import Step, UnitOfWork
from tasks.models import SMALL_MOST, Task
from tasks.states import FINAL_STATES, OPEN_STATES, Cause, JobState, State

MAX_RESCUES = 5  # leases that expired in a row, before a task counts as poison
MAX_UNANSWERED = 100  # with the backoff's cap, half a day of a gateway that answers for a provider that is down
REFETCHED = frozenset({"result_refused", "result_unreadable", "result_too_large", "fetch_failed"})
CHUNK = 500


def _step(name: str, sources: Iterable[str], target: State | None) -> Step:
    return Step(name, frozenset(map(str, sources)), target)


PROMOTE = _step("promote", [State.SCHEDULED], State.QUEUED)
START = _step("start", [State.QUEUED, State.RETRYING], State.RUNNING)
UPSTREAM_COMPLETED = _step("upstream_completed", [State.RUNNING], State.FETCHING)
SUCCEED = _step("succeed", [State.RUNNING, State.FETCHING], State.SUCCEEDED)
RETRY = _step("retry", [State.RUNNING, State.FETCHING], State.RETRYING)
BURY = _step("bury", [State.RUNNING, State.FETCHING, State.RETRYING], State.DEAD_LETTER)
CANCEL = _step("cancel", OPEN_STATES, State.CANCELLED)
REDRIVE = _step("redrive", [State.DEAD_LETTER], State.QUEUED)
REFETCH = _step("refetch", [State.DEAD_LETTER], State.FETCHING)
DISCARD = _step("discard", [State.DEAD_LETTER], State.CANCELLED)
RESCUE = _step("rescue", [State.RUNNING, State.FETCHING], None)
TABLE = (PROMOTE, START, UPSTREAM_COMPLETED, SUCCEED, RETRY, BURY, CANCEL, REDRIVE, REFETCH, DISCARD, RESCUE)


# --- verbs on a locked task -----------------------------------------------------------------------------------


def start(unit: UnitOfWork, task: Task, *, deadline: datetime, detail: str = "", **lease: Any) -> bool:
    """An attempt begins: charged now, given back by `not_started` if it came to nothing."""
    return unit.move(
        task,
        START,
        reason="started",
        detail=detail,
        attempt_count=task.attempt_count + 1,
        fetch_count=0,
        progress=0,
        started_at=task.started_at or unit.now,
        deadline_at=deadline,
        **lease,
    )


def upstream_completed(unit: UnitOfWork, task: Task, *, detail: str = "") -> bool:
    """The provider says it is done; the result has to be fetched, and is due at once."""
    unit.wake(wake.FETCH)
    return unit.move(
        task, UPSTREAM_COMPLETED, reason="completed", detail=detail, next_attempt_at=unit.now, fetch_count=0
    )


def succeed(unit: UnitOfWork, task: Task, result: Any, *, detail: str = "") -> bool:
    """`detail` says what of the result had to be replaced."""
    done = {"result": result, "progress": 100, "error_code": "", "error_text": ""}
    return unit.move(task, SUCCEED, reason="result_accepted", detail=detail, **done)


def fail(unit: UnitOfWork, task: Task, *, code: str, text: str, permanent: bool = False, reason: str = "") -> bool:
    """An attempt came to nothing: another one later, a dead letter, or the end that somebody asked for meanwhile.

    `reason` is our own word for the transition where `code` is the provider's.
    """
    reason = reason or code
    if task.cancel_requested_at is not None:
        return _cancelled(unit, task, reason=reason, detail=text)
    error = {"error_code": code[:60], "error_text": text[:2000]}
    if permanent or task.attempt_count >= task.attempt_limit:
        return unit.move(task, BURY, reason=reason, detail=text, **error)
    wait = backoff.before_attempt(task.attempt_count)
    return unit.move(
        task,
        RETRY,
        reason=reason,
        detail=text,
        next_attempt_at=unit.now + timedelta(seconds=wait),
        progress=0,
        **error,
    )


def not_started(unit: UnitOfWork, task: Task, *, code: str, text: str, wait_seconds: float) -> bool:
    """The start certainly came to nothing (429, 5xx, no connection): waits, and the attempt is not charged."""
    if task.cancel_requested_at is not None:
        return _cancelled(unit, task, reason=code, detail=text)
    return unit.move(
        task,
        RETRY,
        reason=code,
        detail=text,
        attempt_count=max(0, task.attempt_count - 1),
        next_attempt_at=unit.now + timedelta(seconds=wait_seconds),
        error_code=code[:60],
        error_text=text[:2000],
    )


def not_answered(unit: UnitOfWork, task: Task, *, text: str, tries: int) -> bool:
    """The `tries`-th start of this attempt that was given no clear answer, and began nothing, as we found by asking.

    As little charged as one that was refused, and not poison: whoever called is alive. Not for ever, because each such
    start may have cost something after all.
    """
    if tries >= MAX_UNANSWERED:
        words = f"{text} That happened {tries} times, so it is not started again by itself."
        return fail(unit, task, code="start_unanswered", text=words, permanent=True)
    return not_started(
        unit, task, code="outcome_unknown", text=text, wait_seconds=backoff.before_attempt(min(tries, 100))
    )


def rescue(unit: UnitOfWork, task: Task, *, detail: str, back_to_retrying: bool = False) -> bool:
    """Whoever held the lease is gone. Costs no attempt; the fifth in a row makes it a dead letter, `poison`."""
    count = task.rescue_count + 1
    if task.cancel_requested_at is not None and back_to_retrying:
        return _cancelled(unit, task, reason="rescued", detail=detail)
    if count >= MAX_RESCUES:
        text = f"{detail} That happened {count} times in a row, so it is not tried again by itself."
        error = {"error_code": "poison", "error_text": text}
        return unit.move(task, BURY, reason="poison", detail=detail, rescue_count=count, **error)
    if not back_to_retrying:
        return unit.move(task, RESCUE, reason="rescued", detail=detail, rescue_count=count)
    return unit.move(
        task,
        RETRY,
        reason="rescued",
        detail=detail,
        rescue_count=count,
        attempt_count=max(0, task.attempt_count - 1),
        next_attempt_at=unit.now,
    )


def adopted(unit: UnitOfWork, task: Task) -> bool:
    """The provider has the job of a start whose answer never came: it goes on, and the timeline says why."""
    detail = "The start call's answer never came; the provider was asked, and has the job."
    return unit.move(task, RESCUE, reason="adopted", detail=detail)


def cancelled_by_provider(unit: UnitOfWork, task: Task, *, text: str) -> bool:
    """The provider stopped it: the end if somebody asked for it, else an attempt that failed."""
    if task.cancel_requested_at is not None:
        return _cancelled(unit, task, reason="cancelled_by_provider", detail=text)
    return fail(unit, task, code="cancelled_by_provider", text=text or "The provider cancelled the job.")


def _cancelled(unit: UnitOfWork, task: Task, *, reason: str, detail: str) -> bool:
    asked = task.cancel_requested_at or unit.now
    return unit.move(task, CANCEL, reason=reason, detail=detail, cancel_requested_at=asked)


# --- verbs that are transactions of their own -----------------------------------------------------------------


def promote_due(now: datetime, limit: int = CHUNK) -> int:
    """Scheduled tasks whose time has come are queued; returns how many."""
    due = Task.objects.filter(state=State.SCHEDULED, next_attempt_at__lte=now).order_by("next_attempt_at")
    ids = list(due.values_list("pk", flat=True)[:limit])
    with UnitOfWork.opened(cause=Cause.SCHEDULE, now=now) as unit:
        for task in unit.lock(ids):
            unit.move(task, PROMOTE, reason="due")
            unit.wake(wake.START if task.kind in kinds.EXTERNAL else wake.RUN_INTERNAL)
    return len(ids)


def cancel(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.API, now: datetime | None = None
) -> dict[int, str]:
    """Stop tasks. Answers for each id `cancelled`, `cancelling` (whoever runs it decides) or `refused` (final, gone).

    While the provider has the job, the wish is noted, the provider is asked, and its answer decides the race.
    """
    wanted = list(dict.fromkeys(ids))
    answers = dict.fromkeys(wanted, "refused")
    with UnitOfWork.opened(cause=cause, now=now or clock.now(), actor=actor) as unit:
        for task in unit.lock(wanted):
            if task.state == State.RUNNING:
                answers[task.pk] = "cancelling"
                if task.cancel_requested_at is None:
                    unit.amend(task, cancel_requested_at=unit.now)
                    unit.wake(wake.SWEEP)
            elif _cancelled(unit, task, reason="cancelled", detail=reason):
                answers[task.pk] = "cancelled"
        _audited("cancel", [pk for pk, word in answers.items() if word != "refused"], actor, reason)
    return answers


def cancel_batch(batch_id: int, *, actor: str, reason: str, cause: Cause = Cause.API) -> dict[str, int]:
    """`cancel` for every open task of a batch, in parts. Answers how many of each word."""
    open_ids = Task.objects.filter(batch_id=batch_id).exclude(state__in=FINAL_STATES).order_by("pk")
    ids = list(open_ids.values_list("pk", flat=True))
    answers: Counter[str] = Counter()
    for start_at in range(0, len(ids), CHUNK):
        part = ids[start_at : start_at + CHUNK]
        answers.update(cancel(part, actor=actor, reason=reason, cause=cause).values())
    return dict(answers)


def redrive(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.API, now: datetime | None = None
) -> set[int]:
    """Dead letters get new attempts, as many as their kind allows now; their batches open again. Answers who moved.

    Where the job itself succeeded and only its result could not be had or used, the result is fetched again: a new job
    would be paid for.
    """
    moved = set()
    with UnitOfWork.opened(cause=cause, now=now or clock.now(), actor=actor) as unit:
        tasks = unit.lock(ids)
        finished = _finished_upstream(unit, tasks)
        limits = {name: kinds.policy_for(name).attempt_limit for name in {task.kind for task in tasks}}
        for task in tasks:
            fresh = {
                "attempt_limit": min(task.attempt_count + limits[task.kind], SMALL_MOST),
                "redrive_count": min(task.redrive_count + 1, SMALL_MOST),
                "rescue_count": 0,
                "fetch_count": 0,
                "progress": 0,
                "cancel_requested_at": None,
                "next_attempt_at": unit.now,
            }
            step = REFETCH if task.pk in finished else REDRIVE
            if unit.move(task, step, reason="redriven", detail=reason, **fresh):
                moved.add(task.pk)
                unit.wake(_worker_of(task))
        _audited("redrive", sorted(moved), actor, reason)
    return moved


def _finished_upstream(unit: UnitOfWork, tasks: Iterable[Task]) -> set[int]:
    """Those whose result is still to be had, as far as we know."""
    asked = [task for task in tasks if task.state == State.DEAD_LETTER and task.error_code in REFETCHED]
    return {pk for pk, job in unit.jobs_of(asked).items() if job.state == JobState.SUCCEEDED}


def _worker_of(task: Task) -> str:
    if task.state == State.FETCHING:
        return wake.FETCH
    return wake.START if task.kind in kinds.EXTERNAL else wake.RUN_INTERNAL


def discard(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.API, now: datetime | None = None
) -> set[int]:
    """Dead letters that nobody wants any more become cancelled. Answers who moved."""
    with UnitOfWork.opened(cause=cause, now=now or clock.now(), actor=actor) as unit:
        moved = {task.pk for task in unit.lock(ids) if unit.move(task, DISCARD, reason="discarded", detail=reason)}
        _audited("discard", sorted(moved), actor, reason)
    return moved


def _audited(verb: str, ids: list[int], actor: str, reason: str) -> None:
    if ids:
        audit.record(actor, verb, "task", ids, reason)
