"""Drive the task side by hand, as the workers would, until nothing moves."""

import time
from collections import Counter
from collections.abc import Callable

from tasks import workers
from tasks.engine import clock
from tasks.engine.worker_loop import run_streams
from tasks.external.reconcile import reconcile
from tasks.models import Batch, Task, Transition
from tasks.states import State


def start_due(seconds: float = 10) -> int:
    return run_streams(workers.start_streams(), seconds=seconds, should_stop=lambda: False)


def fetch_due(seconds: float = 10) -> int:
    return run_streams(workers.fetch_streams(), seconds=seconds, should_stop=lambda: False)


def cancel_due(seconds: float = 5) -> int:
    return run_streams(workers.cancel_streams(), seconds=seconds, should_stop=lambda: False)


def until_true(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for the other process, doing nothing ourselves."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "the other side did not get there"
        time.sleep(0.02)


def until(condition: Callable[[], bool], *, seconds: float = 60) -> None:
    """Start, poll and fetch until the condition holds. For real components only: elsewhere pass `now`."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"not reached; states: {states()}"
        start_due(1)
        reconcile(clock.now(), force=True)
        fetch_due(1)
        time.sleep(0.02)


def states() -> dict[str, int]:
    found: dict[str, int] = {}
    for state in Task.objects.values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found


def all_final() -> bool:
    return set(states()) <= {State.SUCCEEDED, State.DEAD_LETTER, State.CANCELLED}


def recount(batch_id: int) -> dict[str, int]:
    """The truth that a batch's `counts` must equal."""
    return dict(Counter(Task.objects.filter(batch_id=batch_id).values_list("state", flat=True)))


def assert_counted() -> None:
    """And every step names the batch of its task."""
    for batch in Batch.objects.all():
        assert batch.counts == recount(batch.pk)
    assert {
        step.pk for step in Transition.objects.select_related("task") if step.batch_id != step.task.batch_id
    } == set()


def path(task: Task) -> list[tuple[str, str]]:
    """The task's steps: (to, reason)."""
    rows = Transition.objects.filter(task=task).order_by("id")
    return [(row.to_state, row.reason) for row in rows]
