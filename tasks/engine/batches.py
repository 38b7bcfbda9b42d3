"""A batch's counters and its end. The counters always equal a recount of its tasks by state.

`count` runs inside the unit's transaction, after the tasks are locked: batches are locked in id order.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tasks.models import Batch, Task
from tasks.states import OPEN_STATES, State


def count(moved: Iterable[tuple[Task, str]], now: datetime) -> tuple[list[Batch], bool]:
    """Carry `(task, state before)` into the batches. Returns those that have just been completed, and whether work of
    the concerned tasks' kinds may be waiting for the slots that became free."""
    deltas: dict[int, Counter[str]] = {}
    waiting = False
    for task, before in moved:
        if task.batch_id is None:
            waiting = True  # not known without a query; a wake-up too many is cheap
        elif before != task.state:
            delta = deltas.setdefault(task.batch_id, Counter())
            delta[task.state] += 1
            delta[before] -= 1
    completed = []
    for batch in Batch.objects.select_for_update(no_key=True).filter(pk__in=deltas).order_by("pk") if deltas else ():
        if _carry(batch, deltas[batch.pk], now):
            completed.append(batch)
        waiting = waiting or bool(batch.counts.get(State.QUEUED) or batch.counts.get(State.RETRYING))
        batch.save(update_fields=["counts", "revision", "is_completed", "outcome", "completed_at"])
    return completed, waiting


def _carry(batch: Batch, delta: Counter[str], now: datetime) -> bool:
    """Apply one batch's changes; True if this completed it."""
    numbers = Counter(batch.counts)
    numbers.update(delta)
    batch.counts = {state: number for state, number in numbers.items() if number}
    is_open = any(batch.counts.get(state) for state in OPEN_STATES)
    if is_open:
        batch.is_completed, batch.outcome, batch.completed_at = False, "", None
        return False
    batch.outcome = outcome(batch.counts, batch.total)
    if batch.is_completed:
        return False
    batch.is_completed, batch.completed_at, batch.revision = True, now, batch.revision + 1
    return True


def outcome(counts: dict[str, int], total: int) -> str:
    """The word for a completed batch."""
    succeeded = counts.get(State.SUCCEEDED, 0)
    if succeeded == total:
        return "all_succeeded"
    return "partly" if succeeded else "none"
