"""Celery entry points: wake-ups only. Each goes on until nothing is due or its time is up.

A process runs each of them at most once at a time: a wake-up that comes meanwhile makes the running one look again.
"""

import threading
from collections.abc import Callable

from celery import shared_task
from celery.worker import state as worker_state

from kernel import steps
from tasks import follow_ups, kinds, schedules
from tasks.engine import clock, lifecycle, rescue, wake
from tasks.engine.worker_loop import Stream, run_streams
from tasks.external import adoption, cancelling, fetching, overdue, reconcile, shared_results, starting
from tasks.models import ExternalJob, FollowUp, Task
from tasks.runs import runner
from tasks.states import FollowUpState, JobState, State

BUDGET_SECONDS = 25.0


@shared_task(name=wake.START, ignore_result=True)
def start() -> None:
    """Start what is due of every external kind, in limits."""
    _alone("start", lambda: _serve("start", start_streams))


@shared_task(name=wake.FETCH, ignore_result=True)
def fetch() -> None:
    """Fetch the results that are due."""
    _alone("fetch", lambda: _serve("fetch", fetch_streams))


@shared_task(name=wake.RUN_INTERNAL, ignore_result=True)
def run_internal() -> None:
    """Have what is due of the internal kinds run: by a thread of its own, since a run may take hours."""
    runner.wake_up(should_stop)


@shared_task(name=wake.CANCEL, ignore_result=True)
def cancel() -> None:
    """Ask providers to stop what nobody wants any more."""
    _alone("cancel", lambda: _serve("cancel", cancel_streams))


@shared_task(name=wake.ADOPT, ignore_result=True)
def adopt() -> None:
    """Look for the jobs of starts that were never answered."""
    _alone("adopt", lambda: steps.guarded("tasks: adopt", lambda: adoption.adopt(clock.now())))


@shared_task(name=wake.FOLLOW_UP, ignore_result=True)
def follow_up() -> None:
    """Make what is to follow batches and tasks that have ended."""
    _alone("follow_up", lambda: steps.guarded("tasks: follow-ups", lambda: follow_ups.make_due(clock.now())))


@shared_task(name="tasks.poll", ignore_result=True)
def poll() -> None:
    """The minute's round over all accounts."""
    _alone("poll", lambda: steps.guarded("tasks: poll", _poll))


def _poll() -> None:
    reconcile.reconcile(clock.now(), should_stop=should_stop)


@shared_task(name="tasks.tick_schedules", ignore_result=True)
def tick_schedules() -> None:
    _alone("tick_schedules", lambda: steps.guarded("tasks: schedules", lambda: schedules.tick(clock.now())))


@shared_task(name=wake.SWEEP, ignore_result=True)
def sweep() -> None:
    """What no message told of: due schedules, expired leases, late jobs, waiting work. Calls no provider."""
    _alone("sweep", lambda: sweep_once())


def sweep_once() -> None:
    now = clock.now()
    all_of_them: dict[str, Callable[[], object]] = {
        "expire": lambda: lifecycle.expire_due(now),
        "promote": lambda: lifecycle.promote_due(now),
        "rescue": lambda: rescue.expired_leases(now),
        "overdue": lambda: overdue.time_out(now),
        "wake": lambda: [wake.publish(name) for name in due_workers()],
    }
    for name, step in all_of_them.items():
        steps.guarded(f"tasks: {name}", step)


def due_workers() -> list[str]:
    """Which of the workers have something to do now."""
    now = clock.now()
    waiting = Task.objects.filter(next_attempt_at__lte=now)
    to_start = waiting.filter(state__in=[State.QUEUED, State.RETRYING])
    starts = ExternalJob.objects.filter(state=JobState.SUBMITTING, next_poll_at__lte=now)
    looks: dict[str, Callable[[], bool]] = {
        wake.START: to_start.filter(kind__in=kinds.external()).exists,
        wake.RUN_INTERNAL: to_start.filter(kind__in=kinds.internal()).exists,
        wake.FETCH: waiting.filter(state=State.FETCHING, lease_token__isnull=True).exists,
        wake.CANCEL: lambda: bool(cancelling.due_accounts(now)),
        wake.ADOPT: starts.exists,
        wake.FOLLOW_UP: FollowUp.objects.filter(state=FollowUpState.WAITING).exists,
    }
    return [name for name, has_some in looks.items() if has_some()]


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
        for kind in kinds.external()
    ]


def fetch_streams() -> list[Stream]:
    """Of each account one for single results, and one for those of jobs that many tasks share."""
    fetching_at = Task.objects.filter(state=State.FETCHING).order_by()
    names = sorted(set(fetching_at.values_list("fetch_account", flat=True).distinct()))
    return [stream for name in names for stream in (_single_results(name), _shared_results(name))]


def _single_results(account: str) -> Stream:
    return Stream(
        name=f"fetch-{account}",
        claim=lambda free, now: fetching.claim(account, free, now),
        call=fetching.call,
        settle=fetching.settle,
        next_due=lambda: fetching.next_due(account),
        threads=8,
        depth=24,
    )


def _shared_results(account: str) -> Stream:
    return Stream(
        name=f"results-{account}",
        claim=lambda free, now: shared_results.claim(account, free, now),
        call=shared_results.call,
        settle=shared_results.settle,
        next_due=lambda: shared_results.next_due(account),
        more=shared_results.more,
        threads=1,  # a reading lives in one thread
        depth=1,
    )


def cancel_streams() -> list[Stream]:
    return [_cancels(name) for name in cancelling.due_accounts(clock.now())]


def _cancels(account: str) -> Stream:
    return Stream(
        name=f"cancel-{account}",
        claim=lambda free, now: cancelling.claim(account, free, now),
        call=cancelling.call,
        settle=cancelling.settle,
        threads=4,
        depth=8,
    )


def _each(settle: Callable[..., None], pairs: list, now: object) -> None:  # type: ignore[type-arg]
    for work, outcome in pairs:
        settle(work, outcome, now)


def should_stop() -> bool:
    """Whether the worker process has been asked to end."""
    flags = (worker_state.should_stop, worker_state.should_terminate)
    return any(flag is not None and flag is not False for flag in flags)


_turns: dict[str, threading.Lock] = {}
_again: set[str] = set()
_left: dict[str, list[Stream]] = {}  # streams with calls in the air, between two runs of the same worker function


def _serve(name: str, make: Callable[[], list[Stream]]) -> int:
    """Run the streams, those too whose calls the last run has left in the air; what hangs then is left again."""
    running = _left.pop(name, [])
    _join(running, make())
    count = run_streams(
        running,
        seconds=BUDGET_SECONDS,
        should_stop=should_stop,
        nudged=lambda: _take(name) and _join(running, make()),
        leaves=True,
    )
    if still := [stream for stream in running if stream.in_air]:
        _left[name] = still
        _again.add(name)
    return count


def _join(running: list[Stream], streams: list[Stream]) -> bool:
    """Accounts that have got work meanwhile have their streams from now on."""
    known = {stream.name for stream in running}
    running += [stream for stream in streams if stream.name not in known]
    return True


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
