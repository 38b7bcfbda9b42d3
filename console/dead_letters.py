"""Dead letters of both sides, as one list and as groups of one cause. Reads only; redrive is the lifecycles'.

A delivery's cause is its fingerprint; a task's is its kind and error code, written `kind/code`.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from delivery import dead_letters as delivery_side
from delivery.models import Delivery
from delivery.policy import telling
from kernel.database import windows
from tasks.models import Task
from tasks.reading import dead_letters as task_side

DELIVERY, TASK = "delivery", "task"
TEXT_SHOWN = 200


def group_rows(
    deliveries: QuerySet[Delivery] | None, tasks: QuerySet[Task] | None, *, for_keys: bool
) -> tuple[list[dict[str, Any]], int | None]:
    """Both sides' groups as JSON-ready rows; ids as strings. `for_keys`: API keys are told nothing of our networks.

    And among how many of the newest dead letters of a side they were counted; None where that were all.
    """
    rows: list[dict[str, Any]] = []
    cut = []
    if deliveries is not None:
        window = windows.of(deliveries, is_by_id=False)
        cut.append(window.among_newest)
        for group in delivery_side.groups(window.rows):
            row = {"side": DELIVERY, **asdict(group)}
            row["error"] = telling.error_for_keys(group.outcome, group.error) if for_keys else group.error
            rows.append({**row, "endpoint": str(group.endpoint), "sample": str(group.sample)})
    if tasks is not None:
        window = windows.of(tasks, is_by_id=False)
        cut.append(window.among_newest)
        rows += [{"side": TASK, **asdict(one), "sample": str(one.sample)} for one in task_side.groups(window.rows)]
    return rows, max((most for most in cut if most), default=None)


def page(
    deliveries: QuerySet[Delivery] | None,
    tasks: QuerySet[Task] | None,
    after: tuple[int, int],
    limit: int,
    *,
    for_keys: bool,
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """The newest `limit` of both sides below the ids in `after`, merged by the time of death; and where to go on.

    Each side goes down its own index `(state, -id)`, so the last page costs what the first does. Where that index finds
    more than a page may look through, the page may be short, and the next goes on there.
    """
    sides: list[list[Any]] = []
    edges: list[int | None] = []
    for rows, below in ((deliveries, after[0]), (tasks, after[1])):
        found, edge = ([], None) if rows is None else _newest(rows, below, limit + 1)
        sides.append(found)
        edges.append(edge)
    taken: list[dict[str, Any]] = []
    last = list(after)
    while (sides[0] or sides[1]) and len(taken) < limit:
        side = 0 if not sides[1] or (sides[0] and _died(sides[0][0]) >= _died(sides[1][0])) else 1
        row = sides[side].pop(0)
        last[side] = row.pk
        taken.append(_delivery(row, for_keys=for_keys) if side == 0 else _task(row))
    for side, edge in enumerate(edges):
        if edge is not None and not sides[side]:
            last[side] = edge
    has_more = any(sides) or any(edge is not None for edge in edges)
    return taken, (last[0], last[1]) if has_more else None


def _newest(rows: QuerySet, below: int, most: int) -> tuple[list[Any], int | None]:
    """The newest of these below an id, and where to go on if so many were not found before the window's end."""
    window = windows.of(rows, beyond=below or None)
    found = list((window.rows.filter(pk__lt=below) if below else window.rows).order_by("-pk")[:most])
    return found, window.edge if len(found) < most else None


def _died(row: Any) -> datetime:
    return row.finished_at or row.created_at


def _delivery(row: Delivery, *, for_keys: bool) -> dict[str, Any]:
    error = telling.error_for_keys(row.last_outcome, row.last_error) if for_keys else row.last_error
    return {
        "side": DELIVERY,
        "id": str(row.pk),
        "fingerprint": row.fingerprint,
        "endpoint": str(row.endpoint_id),
        "host": row.endpoint.host,
        "is_kept": row.endpoint.deleted_at is not None,
        "subscriber": row.endpoint.subscriber,
        "type": row.event.type,
        "outcome": row.last_outcome,
        "status_code": row.last_status_code,
        "error": error[:TEXT_SHOWN],
        "attempt_count": row.attempt_count,
        "finished_at": row.finished_at,
    }


def _task(row: Task) -> dict[str, Any]:
    return {
        "side": TASK,
        "id": str(row.pk),
        "fingerprint": f"{row.kind}/{row.error_code}",
        "kind": row.kind,
        "batch": str(row.batch_id) if row.batch_id else None,
        "subscriber": row.subscriber,
        "error_code": row.error_code,
        "error": row.error_text[:TEXT_SHOWN],
        "attempt_count": row.attempt_count,
        "finished_at": row.finished_at,
    }
