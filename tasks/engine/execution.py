"""Internal kinds: claimed many at once, run under a lease, settled many at once, with the lifecycle of work elsewhere.

The lease is short, and whoever runs the task extends it while the run lives (`extend`). Every write repeats the lease's
token: who has lost it writes nothing. What happens between claim and settle is no business of this module.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tasks import kinds
from tasks.engine import due, lifecycle, limits
from tasks.engine.performing import Ended
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import KindPolicy, Task
from tasks.states import Cause, State

LEASE = timedelta(seconds=60)
DEFAULT_MEMORY_MB = 1_024
RunKey = tuple[int, uuid.UUID]  # task and lease


@dataclass(frozen=True, slots=True)
class Claimed:
    """Tasks of one kind that begin now, under one lease, and what its policy says of a run."""

    tasks: Sequence[Task]
    timeout_seconds: int
    memory_mb: int


def claim(kind: str, most: int, now: datetime) -> Claimed:
    """Take due tasks of an internal kind, within its limits."""
    kinds.policy_for(kind)
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        policy = limits.locked_policy(kind)
        if policy is None:
            return Claimed((), 0, 0)
        tasks = due.take(policy, min(most, limits.room(policy, now)), now)
        token, deadline = uuid.uuid4(), policy.attempt_deadline(now)
        for task in tasks:
            lifecycle.start(unit, task, deadline=deadline, lease_token=token, leased_until=now + LEASE)
        limits.spend(policy, tasks, now)
    return Claimed(tasks, policy.timeout_seconds, _memory(policy))


def _memory(policy: KindPolicy) -> int:
    return policy.memory_mb or DEFAULT_MEMORY_MB


def settle(ends: Mapping[RunKey, Ended], now: datetime) -> int:
    """Write how runs ended, all in one transaction; (id, lease) → its `Ended`. Returns how many still held it."""
    written = 0
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        for task in unit.lock([pk for pk, _ in ends], state=State.RUNNING):
            ended = ends.get((task.pk, task.lease_token)) if task.lease_token else None
            if ended is not None:
                written += _ENDS[ended.word](unit, task, ended)
    return written


def _succeeded(unit: UnitOfWork, task: Task, ended: Ended) -> bool:
    return lifecycle.succeed(unit, task, ended.value())


def _failed(unit: UnitOfWork, task: Task, ended: Ended) -> bool:
    return lifecycle.fail(
        unit, task, code=ended.code, text=ended.text, permanent=ended.permanent, wait_seconds=ended.seconds
    )


def _snoozed(unit: UnitOfWork, task: Task, ended: Ended) -> bool:
    until = ended.until or unit.now + timedelta(seconds=ended.seconds or 0.0)
    return lifecycle.postponed(unit, task, reason=ended.code, detail=ended.text, until=max(until, unit.now))


def _cancelled(unit: UnitOfWork, task: Task, ended: Ended) -> bool:
    return lifecycle.stopped(unit, task, reason=ended.code, detail=ended.text)


_ENDS = {"result": _succeeded, "failed": _failed, "snooze": _snoozed, "cancel": _cancelled}


def extend(runs: Iterable[RunKey], now: datetime) -> tuple[set[int], set[int]]:
    """The heartbeat: these runs live. Returns whose lease holds on, and which of them somebody wants stopped."""
    held, unwanted = set(), set()
    by_token: dict[uuid.UUID, list[int]] = {}
    for pk, token in runs:
        by_token.setdefault(token, []).append(pk)
    for token, ids in by_token.items():
        rows = Task.objects.filter(pk__in=ids, lease_token=token, state=State.RUNNING)
        rows.filter(leased_until__lt=now + LEASE / 2).update(leased_until=now + LEASE)
        for pk, asked in rows.values_list("pk", "cancel_requested_at"):
            held.add(pk)
            if asked is not None:
                unwanted.add(pk)
    return held, unwanted


def note_progress(said: Mapping[RunKey, tuple[int, str]], now: datetime) -> None:
    """Write how far runs are; of one whose lease is lost, nothing."""
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        for task in unit.lock([pk for pk, _ in said], state=State.RUNNING):
            if task.lease_token is not None and (task.pk, task.lease_token) in said:
                percent, note = said[task.pk, task.lease_token]
                unit.amend(task, progress=max(percent, task.progress), progress_note=note)
