"""Celery entry points: wake-ups only. Each goes on until nothing is due or its time is up.

A process runs each of them at most once at a time: a wake-up that comes meanwhile makes the running one look again.
"""

import threading
from collections.abc import Callable

from celery import shared_task
from celery.worker import state as worker_state

from kernel import steps
from tasks import kinds, schedules
from tasks.engine import clock, execution, lifecycle, rescue, wake
from tasks.engine.worker_loop import Stream, run_streams
from tasks.external import adoption, cancelling, fetching, reconcile, starting
from tasks.models import Task
from tasks.states import State

BUDGET_SECONDS = 25.0


@shared_task(name=wake.START, ignore_result=True)
def start() -> None:
    """Start what is due of every external kind, in limits."""
    _alone("start", lambda: _serve("start", start_streams()))


@shared_task(name=wake.FETCH, ignore_result=True)
def fetch() -> None:
    """Fetch the results that are due."""
    _alone("fetch", lambda: _serve("fetch", fetch_streams()))


@shared_task(name=wake.RUN_INTERNAL, ignore_result=True)
def run_internal() -> None:
    """Run what is due of the internal kinds."""
    _alone("run_internal", lambda: run_due())


@shared_task(name="tasks.poll", ignore_result=True)
def poll() -> None:
    """The minute's round over all providers."""
    _alone("poll", lambda: steps.guarded("tasks: poll", lambda: reconcile.reconcile(clock.now())))


@shared_task(name="tasks.tick_schedules", ignore_result=True)
def tick_schedules() -> None:
    _alone("tick_schedules", lambda: steps.guarded("tasks: schedules", lambda: schedules.tick(clock.now())))


@shared_task(name=wake.SWEEP, ignore_result=True)
def sweep() -> None:
    """What no message told of: due schedules, expired leases, orphaned starts, wishes to cancel, waiting work."""
    _alone("sweep", lambda: sweep_once())


def sweep_once() -> None:
    now = clock.now()
    all_of_them: dict[str, Callable[[], object]] = {
        "promote": lambda: lifecycle.promote_due(now),
        "rescue": lambda: rescue.expired_leases(now),
        "adopt": lambda: adoption.adopt(now),
        "cancel": lambda: _serve("cancel", cancel_streams()),
        "wake": lambda: [wake.publish(name) for name in due_workers()],
    }
    for name, step in all_of_them.items():
        steps.guarded(f"tasks: {name}", step)


def due_workers() -> list[str]:
    """Which of the workers have something to do now."""
    now = clock.now()
    waiting = Task.objects.filter(next_attempt_at__lte=now)
    to_start = waiting.filter(state__in=[State.QUEUED, State.RETRYING])
    looks = {
        wake.START: to_start.filter(kind__in=kinds.EXTERNAL),
        wake.RUN_INTERNAL: to_start.filter(kind__in=kinds.INTERNAL),
        wake.FETCH: waiting.filter(kind__in=kinds.EXTERNAL, state=State.FETCHING, lease_token__isnull=True),
    }
    return [name for name, rows in looks.items() if rows.exists()]


def start_streams() -> list[Stream]:
    """One for each kind, so that a provider that hangs holds up no other kind."""
    return [
        Stream(
            name=f"start-{kind}",
            claim=lambda free, now, kind=kind: starting.claim(kind, free, now),  # type: ignore[misc]
            call=starting.call,
            settle=lambda pairs, now: _each(starting.settle, pairs, now),
            next_due=lambda kind=kind: starting.next_due(kind),  # type: ignore[misc]
        )
        for kind in kinds.EXTERNAL
    ]


def fetch_streams() -> list[Stream]:
    return [
        Stream(
            name=f"fetch-{kind}",
            claim=lambda free, now, kind=kind: fetching.claim(kind, free, now),  # type: ignore[misc]
            call=fetching.call,
            settle=fetching.settle,
            next_due=lambda kind=kind: fetching.next_due(kind),  # type: ignore[misc]
            threads=8,
            depth=24,
        )
        for kind in kinds.EXTERNAL
    ]


def cancel_streams() -> list[Stream]:
    return [
        Stream(
            name=f"cancel-{kind}",
            claim=lambda free, now, kind=kind: cancelling.claim(kind, free, now),  # type: ignore[misc]
            call=cancelling.call,
            settle=lambda pairs, now: _each(cancelling.settle, pairs, now),
        )
        for kind in kinds.EXTERNAL
    ]


def run_due() -> int:
    """Run internal tasks one after the other until none is due; returns how many."""
    count = 0
    for kind in kinds.INTERNAL:
        while not should_stop() and (task := execution.claim(kind, clock.now())) is not None:
            execution.settle(task, execution.perform(task), clock.now())
            count += 1
    return count


def _each(settle: Callable[..., None], pairs: list, now: object) -> None:  # type: ignore[type-arg]
    for work, outcome in pairs:
        settle(work, outcome, now)


def should_stop() -> bool:
    """Whether the worker process has been asked to end."""
    flags = (worker_state.should_stop, worker_state.should_terminate)
    return any(flag is not None and flag is not False for flag in flags)


_turns: dict[str, threading.Lock] = {}
_again: set[str] = set()


def _serve(name: str, streams: list[Stream]) -> int:
    return run_streams(streams, seconds=BUDGET_SECONDS, should_stop=should_stop, nudged=lambda: _take(name))


def _take(name: str) -> bool:
    """Whether a wake-up came since the last look."""
    was_there = name in _again
    _again.discard(name)
    return was_there


def _alone(name: str, work: Callable[[], object]) -> None:
    """Run `work` unless it runs in this process already; then that run is told to look once more."""
    _again.add(name)
    lock = _turns.setdefault(name, threading.Lock())
    while name in _again and not should_stop() and lock.acquire(blocking=False):
        try:
            while _take(name) and not should_stop():
                work()
        finally:
            lock.release()
