"""Write down what is to follow, in the transaction in which a batch or a single task has ended.

The row is the promise: unique by its parent and wish, and committed with the end itself, so that whatever dies
afterwards it is there once. Who carries it out is a floor above and says so itself (`carried_out_by`): at once and in
the same transaction where the parent is small, else by a worker, in parts of a transaction each.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from django.db.models import QuerySet, Sum

from tasks.kinds import following
from tasks.models import Batch, FollowUp, Task
from tasks.states import FollowUpState, State, When

SMALL_TASKS, SMALL_BYTES = 100, 256 * 1024  # of a parent whose follow-up is made where it ends

_carriers: list[Callable[[int, datetime], None]] = []


def carried_out_by(carry_out: Callable[[int, datetime], None]) -> None:
    """`carry_out(follow_up_id, now)` makes one where it was written down; it must raise nothing of its own."""
    _carriers.append(carry_out)


def note(ended: Iterable[Task], completed: Iterable[Batch], now: datetime) -> bool:
    """The wishes of tasks without a batch that have become final, and of batches that are completed.

    Returns whether something is left for the worker. The parents are locked.
    """
    left = False
    for batch in completed:
        is_met = batch.outcome == "all_succeeded"
        for wish in following.wishes(batch.kind, batch.then):
            row = _noted(wish, batch, FollowUp(parent_batch=batch), batch.revision, is_met=is_met)
            left = _carry_out(row, batch.tasks.all() if batch.total <= SMALL_TASKS else None, now) or left
    for task in ended:
        if task.batch_id is None and task.is_final:
            is_met, turn = task.state == State.SUCCEEDED, task.redrive_count + 1
            for wish in following.wishes(task.kind, task.then):
                row = _noted(wish, task, FollowUp(parent_task=task), turn, is_met=is_met)
                left = _carry_out(row, Task.objects.filter(pk=task.pk), now) or left
    return left


def _noted(wish: following.Wish, parent: Batch | Task, new: FollowUp, revision: int, *, is_met: bool) -> FollowUp:
    """The row of this wish, made now or found from an earlier end of its parent; locked either way."""
    found = FollowUp.objects.select_for_update(no_key=True, of=("self",)).filter(
        parent_batch=new.parent_batch, parent_task=new.parent_task, key=wish.key
    )
    row = found.first()
    if row is None:
        row = new
        row.key, row.kind, row.on, row.then = wish.key, wish.kind, wish.on, wish.then
        row.subscriber = parent.subscriber
    row.revision = revision
    if row.remaining == [] and row.state != FollowUpState.WAITING:
        pass  # all of it has been made: this end brought nothing new
    elif wish.on == When.SUCCEEDED and not is_met:
        row.state, row.reason = FollowUpState.UNMET, "not_all_succeeded"
        row.detail = "It is made once everything has succeeded. Redrive what is dead; or redrive this to go on without."
    else:
        row.state, row.reason, row.detail, row.finished_at = FollowUpState.WAITING, "", "", None
    row.save()
    return row


def _carry_out(row: FollowUp, sources: QuerySet[Task] | None, now: datetime) -> bool:
    """Make it here where its parent is small; True where it is left for the worker."""
    if row.state != FollowUpState.WAITING:
        return False
    if sources is None or _size(sources) > SMALL_BYTES:
        return True
    for carry_out in _carriers:
        carry_out(row.pk, now)
    return FollowUp.objects.filter(pk=row.pk, state=FollowUpState.WAITING).exists()


def _size(sources: QuerySet[Task]) -> int:
    return sources.aggregate(size=Sum("result_bytes"))["size"] or 0
