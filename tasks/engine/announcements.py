"""The events that tell subscribers how their work ended. Pure: rows in, new events out; the unit records them.

They say what happened and where to look, not the result itself: that is read from the API, with the reader's rights.
Their uids are derived, so that the database itself refuses a second announcement of the same end; they begin with a
prefix that no caller may use (`delivery.events.OUR_UIDS`), so that nobody can take one in advance.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from delivery.events import NewEvent
from delivery.policy import catalogue
from tasks.models import Batch, Task
from tasks.states import State

TASK_EVENTS = {
    State.SUCCEEDED.value: catalogue.TASK_SUCCEEDED,
    State.DEAD_LETTER.value: catalogue.TASK_DEAD_LETTERED,
    State.CANCELLED.value: catalogue.TASK_CANCELLED,
}


def announced(tasks: Iterable[Task]) -> list[Task]:
    """Those of the tasks whose state is an end that is told of."""
    return [task for task in tasks if task.state in TASK_EVENTS]


def of(rows: Iterable[Task | Batch]) -> list[NewEvent]:
    """One event for each task that has just become final, and for each batch that is complete."""
    return [_of_task(row, TASK_EVENTS[row.state]) if isinstance(row, Task) else _of_batch(row) for row in rows]


def uids_of(task: Task) -> list[str]:
    """The uids of every event this task can have been announced by so far, for whoever looks them up."""
    return [_uid(task, type, turn) for type in TASK_EVENTS.values() for turn in range(task.redrive_count + 1)]


def _of_task(task: Task, type: str) -> NewEvent:
    data: dict[str, Any] = {
        "task_id": str(task.pk),
        "kind": task.kind,
        "state": task.state,
        "reference": task.reference,
        "batch_id": str(task.batch_id) if task.batch_id else None,
        "attempt_count": task.attempt_count,
        "finished_at": task.finished_at.isoformat() if task.finished_at else None,
        "url": f"{settings.PUBLIC_BASE_URL}/api/v1/tasks/{task.pk}/",
    }
    if task.state != State.SUCCEEDED:
        data["error"] = {"code": task.error_code, "detail": task.error_text} if task.error_code else None
    return NewEvent(
        type,
        data,
        subscriber=task.subscriber,
        uid=_uid(task, type, task.redrive_count),
        occurred_at=task.finished_at,
        correlation_id=task.correlation_id,
        caller=task.caller,
    )


def _of_batch(batch: Batch) -> NewEvent:
    data: dict[str, Any] = {
        "batch_id": str(batch.pk),
        "kind": batch.kind,
        "reference": batch.reference,
        "revision": batch.revision,
        "outcome": batch.outcome,
        "total": batch.total,
        "counts": batch.counts,
        "completed_at": batch.completed_at.isoformat() if batch.completed_at else None,
        "url": f"{settings.PUBLIC_BASE_URL}/api/v1/batches/{batch.pk}/",
    }
    return NewEvent(
        catalogue.BATCH_COMPLETED,
        data,
        subscriber=batch.subscriber,
        uid=_uid(batch, catalogue.BATCH_COMPLETED, batch.revision),
        occurred_at=batch.completed_at,
        correlation_id=batch.correlation_id,
        caller=batch.caller,
    )


def _uid(row: Task | Batch, type: str, turn: int) -> str:
    """The creation time is in it, so that ids of another or a reset installation never make the same uid."""
    words = f"{type}|{row.pk}|{row.created_at.isoformat()}|{turn}"
    return f"rt_{hashlib.sha256(words.encode()).hexdigest()[:40]}"
