"""Record the events that announce ends, within the unit's transaction. One that cannot be written keeps no other back.

The task or batch moves on all the same: its row is the truth, and the event only tells of it. Why nobody was told is
on its timeline, in the audit trail and in the log.
"""

from collections.abc import Iterable, Sequence

import structlog
from django.db import DataError, transaction

from delivery import events
from delivery.errors import DeliveryError
from kernel import audit
from tasks.engine import announcements
from tasks.models import Batch, Task, Transition
from tasks.states import Cause

NOT_TOLD = "event_not_recorded"

log = structlog.get_logger(__name__)


def tell(tasks: Iterable[Task], batches: Iterable[Batch], *, cause: Cause) -> None:
    """Announce tasks that have become final and batches that are complete. Raises nothing for what cannot be told."""
    rows: list[Task | Batch] = [*announcements.announced(tasks), *batches]
    pairs = list(zip(rows, announcements.of(rows), strict=True))
    if not pairs or _recorded([new for _, new in pairs]) is None:
        return
    for row, new in pairs:  # one of them stands in the way: each for itself
        refused = _recorded([new])
        if refused is not None:
            _set_aside(row, new, refused, cause)


def _recorded(new: Sequence[events.NewEvent]) -> Exception | None:
    """None where all are recorded, else why none is; the transaction lives on."""
    try:
        with transaction.atomic():
            events.record_many(new)
    except (DeliveryError, DataError) as error:
        return error
    return None


def _set_aside(row: Task | Batch, new: events.NewEvent, refused: Exception, cause: Cause) -> None:
    code = getattr(refused, "code", "value_out_of_range")
    words = getattr(refused, "detail", "The database cannot store one of its values.")
    detail = f"Nobody is told by {new.type}: {words}"
    subject = "task" if isinstance(row, Task) else "batch"
    log.error(NOT_TOLD, **{subject: row.pk}, type=new.type, error=code)
    audit.record("roundtrip", NOT_TOLD, subject, [row.pk], code, detail={"type": new.type})
    if isinstance(row, Task):
        step = Transition.of(
            row,
            from_state=row.state,
            to_state=row.state,
            cause=cause,
            reason=NOT_TOLD,
            detail=detail,
            attempt=row.attempt_count,
        )
        step.save(force_insert=True)
