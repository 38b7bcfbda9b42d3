"""Carry follow-ups out: a batch of the next kind from the tasks that succeeded, exactly once.

Each part is one transaction: the batch it makes and how far it has come commit together, so a process that dies leaves
the follow-up where it was before. A part holds at most as many items as a batch may; there are as many as it takes.
What cannot be made is refused with a reason, and stays to be redriven; items that the next kind does not take are
counted and named, and keep no other back.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import QuerySet

from tasks import kinds
from tasks.engine import follow_ups
from tasks.errors import InvalidInput, TaskError
from tasks.kinds import chaining
from tasks.kinds.rows import with_bodies
from tasks.models import MAX_BATCH, FollowUp, Task
from tasks.states import Cause, FollowUpState, State
from tasks.submit import submit_batch

MAX_GENERATIONS = 20  # follow-ups of follow-ups; a chain by hand has far fewer steps
NAMED = 20  # refused items that are named

log = structlog.get_logger(__name__)


@dataclass
class _Part:
    """What one look through the parent's tasks came to; `stopped_at` is None where it came to the end."""

    items: list[chaining.Item] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    stopped_at: tuple[int, int] | None = None


class TooDeep(TaskError):
    code = "too_deep"


def make_due(now: datetime, budget_seconds: float = 25.0) -> int:
    """Carry out what waits, oldest first; returns how many batches were made."""
    ends = time.monotonic() + budget_seconds
    made = 0
    for pk in list(FollowUp.objects.filter(state=FollowUpState.WAITING).order_by("pk").values_list("pk", flat=True)):
        while time.monotonic() < ends:
            outcome = make_part(pk, now)
            if outcome is None:
                break
            made += outcome
    return made


def make_at_once(pk: int, now: datetime) -> None:
    """Its first part, in the transaction in which it was written down. What breaks is left to the worker."""
    try:
        make_part(pk, now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("follow_up_left_to_the_worker", follow_up=pk)


def make_part(pk: int, now: datetime) -> int | None:
    """One part in one transaction: how many batches it made; None where nothing is to be done here."""
    with transaction.atomic():
        rows = FollowUp.objects.select_for_update(no_key=True, of=("self",), skip_locked=True)
        row = rows.filter(pk=pk, state=FollowUpState.WAITING).first()
        if row is None:
            return None
        try:
            with transaction.atomic():
                made = _make(row, now)
        except TaskError as error:
            made = _refuse(row, error.code, error.detail, now)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            log.exception("follow_up_broke", follow_up=pk)
            words = f"Making it broke ({type(error).__name__}); see the log. Correct the cause, then redrive it."
            made = _refuse(row, "mapping_broke", words, now)
        row.save()
    return made


def _refuse(row: FollowUp, code: str, detail: str, now: datetime) -> int:
    row.refresh_from_db()
    row.state, row.reason, row.detail, row.finished_at = FollowUpState.REFUSED, code, detail[:2000], now
    log.warning("follow_up_refused", follow_up=row.pk, reason=code)
    return 0


def _make(row: FollowUp, now: datetime) -> int:
    if _generation(row) > MAX_GENERATIONS:
        raise TooDeep(f"It would be the {MAX_GENERATIONS + 1}st follow-up of a follow-up. Look for a circle of kinds.")
    kinds.get(row.kind)
    if (row.cursor, row.item_offset) == (0, 0):
        row.begun_revision = row.revision
    part = _whole(row) if _is_of_batch(row) else _next_part(row)
    made = _submit(row, part.items) if part.items else 0
    row.left_out += part.left_out
    if part.stopped_at is not None:
        row.cursor, row.item_offset = part.stopped_at
    else:
        _come_to_the_end(row, now)
    return made


def _come_to_the_end(row: FollowUp, now: datetime) -> None:
    row.cursor, row.item_offset = 0, 0
    if not _is_of_batch(row):  # of a whole batch one is made for each of its completions
        row.remaining, row.left_out = row.left_out, []
    if row.revision > row.begun_revision and row.remaining != []:
        return  # its parent was completed anew meanwhile: once more, for what was passed by
    row.state = FollowUpState.MADE if row.made_count else FollowUpState.EMPTY
    row.finished_at = now


def _is_of_batch(row: FollowUp) -> bool:
    return row.parent_batch_id is not None and row.kind in chaining.OF_BATCHES


def _whole(row: FollowUp) -> _Part:
    assert row.parent_batch is not None
    return _Part([{**chaining.OF_BATCHES[row.kind](row.parent_batch), "reference": f"batch {row.parent_batch_id}"}])


def _next_part(row: FollowUp) -> _Part:
    """Go on through the parent's tasks in their order, until a batch is full or they are at an end."""
    source = (row.parent_batch or row.parent_task).kind  # type: ignore[union-attr]
    chaining.require_link(source, row.kind)
    ahead = list(_sources(row).order_by("position", "pk").values_list("pk", "position", "state"))
    succeeded = [pk for pk, _, state in ahead if state == State.SUCCEEDED]
    part = _Part()
    for task in with_bodies(Task.objects.filter(pk__in=succeeded), "position"):
        given = chaining.items_of(task, source, row.kind)
        begin = row.item_offset if task.position == row.cursor else 0
        free = MAX_BATCH - len(part.items)
        part.items += given[begin : begin + free]
        if len(given) - begin > free:
            part.stopped_at = (task.position, begin + free)
            break
    end = part.stopped_at[0] if part.stopped_at else None
    part.left_out = [pk for pk, at, state in ahead if state != State.SUCCEEDED and (end is None or at < end)]
    return part


def _sources(row: FollowUp) -> QuerySet[Task]:
    if row.parent_task_id is not None:
        return Task.objects.filter(pk=row.parent_task_id)
    rows = Task.objects.filter(batch=row.parent_batch, position__gte=row.cursor)
    return rows if row.remaining is None else rows.filter(pk__in=row.remaining)


def _submit(row: FollowUp, items: list[chaining.Item]) -> int:
    """One batch of them, without those that its kind does not take."""
    try:
        with transaction.atomic():
            _submit_batch(row, items)
    except InvalidInput:
        good = _good_ones(row, items)
        if not good:
            return 0
        _submit_batch(row, good)
        items = good
    row.made_count += len(items)
    return 1


def _submit_batch(row: FollowUp, items: list[chaining.Item]) -> None:
    parent = row.parent_batch or row.parent_task
    assert parent is not None
    submit_batch(
        row.kind,
        items,
        caller=parent.caller,
        subscriber=row.subscriber,
        reference=parent.reference,
        cause=Cause.FOLLOW_UP,
        actor=f"follow-up of {row.parent_words}",
        correlation_id=parent.correlation_id,
        then=row.then,
        follow_up=row,
    )


def _good_ones(row: FollowUp, items: Iterable[chaining.Item]) -> list[chaining.Item]:
    kind = kinds.get(row.kind)
    good, words = [], []
    for item in items:
        try:
            kind.checked(item["input"])
            good.append(item)
        except InvalidInput as error:
            row.refused_count += 1
            words.append(f"{item['reference']}: {error.detail}")
    told = [line for line in [row.detail, *words[:NAMED]] if line]
    row.reason, row.detail = "items_refused", "\n".join(told)[:4000]
    return good


def _generation(row: FollowUp) -> int:
    """How many follow-ups lead to this one, itself included."""
    count, batch = 1, row.parent_batch
    while batch is not None and batch.follow_up is not None and count <= MAX_GENERATIONS:
        count, batch = count + 1, batch.follow_up.parent_batch
    return count


follow_ups.carried_out_by(make_at_once)
