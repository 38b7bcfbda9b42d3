"""Internal kinds: run in our own worker, under a lease, with the same lifecycle as work elsewhere."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from kernel import correlation
from tasks import kinds
from tasks.engine import lifecycle, limits
from tasks.engine.unit_of_work import UnitOfWork
from tasks.errors import RunFailed
from tasks.models import Task
from tasks.states import Cause, State

LEASE_SLACK = timedelta(seconds=30)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run came to: a result, or a typed failure."""

    result: Any = None
    failure: RunFailed | None = None


def claim(kind: str, now: datetime) -> Task | None:
    """Take the next due task of an internal kind, within its limits."""
    kinds.policy_for(kind)
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        policy = limits.locked_policy(kind)
        if policy is None or limits.room(policy, now) < 1:
            return None
        rows = Task.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        due = rows.filter(kind=kind, state__in=[State.QUEUED, State.RETRYING], next_attempt_at__lte=now)
        task = due.defer("result").order_by("next_attempt_at", "pk").first()
        if task is None:
            return None
        deadline = policy.attempt_deadline(now)
        lifecycle.start(unit, task, deadline=deadline, lease_token=uuid.uuid4(), leased_until=deadline + LEASE_SLACK)
        limits.spend(policy, 1, now)
    return task


def perform(task: Task) -> RunOutcome:
    """Run it and normalise what came of it. Never raises."""
    kind = kinds.get(task.kind)
    with correlation.bind(task.correlation_id):
        try:
            result = kind.run(task) if kind.run else None
            problem = kind.accept(task.input, result)
        except RunFailed as failure:
            return RunOutcome(failure=failure)
        except Exception as error:
            log.exception("run_broke", task=task.pk, kind=task.kind)
            return RunOutcome(failure=RunFailed("run_broke", f"The run broke ({type(error).__name__}); see the log."))
    if problem:
        return RunOutcome(failure=RunFailed("result_rejected", problem))
    return RunOutcome(result)


def settle(task: Task, outcome: RunOutcome, now: datetime) -> bool:
    """Write the outcome, unless the lease was taken over meanwhile."""
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        for locked in unit.lock([task.pk], lease_token=task.lease_token, state=State.RUNNING):
            if outcome.failure is None:
                return lifecycle.succeed(unit, locked, outcome.result)
            failure = outcome.failure
            return lifecycle.fail(unit, locked, code=failure.code, text=failure.detail, permanent=failure.permanent)
    return False
