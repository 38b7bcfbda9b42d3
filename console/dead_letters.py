"""Dead letters of both sides, as one list and as groups of one cause. Reads only; redrive is the lifecycles'.

A delivery's cause is its fingerprint; a task's is its kind and error code, written `kind/code`.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, QuerySet

from delivery import dead_letters as delivery_side
from delivery.models import Delivery
from tasks.models import Task
from tasks.states import State

DELIVERY, TASK = "delivery", "task"
TEXT_SHOWN = 200


@dataclass(frozen=True)
class TaskGroup:
    """Dead tasks of one kind with one error code."""

    fingerprint: str
    kind: str
    error_code: str
    error: str
    count: int
    first_at: datetime | None
    last_at: datetime | None
    sample: int
    what_to_do: str


def dead_tasks(
    subscriber: str | None = None,
    kind: str | None = None,
    error_code: str | None = None,
    batch: int | None = None,
    fingerprint: str | None = None,
) -> QuerySet[Task]:
    """The dead tasks a filter names. None narrows nothing; an empty text means exactly that.

    All of it must hold, a fingerprint too, which is `kind/code`; what is written otherwise is no task's.
    """
    conditions: dict[str, Any] = {"subscriber": subscriber, "kind": kind, "error_code": error_code, "batch_id": batch}
    given = {name: value for name, value in conditions.items() if value is not None}
    rows = Task.objects.filter(state=State.DEAD_LETTER, **given).defer("input", "result")
    if fingerprint is None:
        return rows
    of_kind, slash, code = fingerprint.partition("/")
    return rows.filter(kind=of_kind, error_code=code) if slash else rows.none()


def task_groups(rows: QuerySet[Task], limit: int = 100) -> list[TaskGroup]:
    """Biggest first."""
    found = list(
        rows.order_by()
        .values("kind", "error_code")
        .annotate(count=Count("pk"), first=Min("finished_at"), last=Max("finished_at"), sample=Max("pk"))
        .order_by("-count", "kind")[:limit]
    )
    texts = dict(Task.objects.filter(pk__in=[row["sample"] for row in found]).values_list("pk", "error_text"))
    return [
        TaskGroup(
            fingerprint=f"{row['kind']}/{row['error_code']}",
            kind=row["kind"],
            error_code=row["error_code"],
            error=texts.get(row["sample"], "")[:TEXT_SHOWN],
            count=row["count"],
            first_at=row["first"],
            last_at=row["last"],
            sample=row["sample"],
            what_to_do=advice(row["error_code"]),
        )
        for row in found
    ]


def advice(error_code: str) -> str:
    """What to do about a task's error, by its code's words."""
    words = error_code.lower()
    for mark, text in (
        (
            "timeout",
            "The provider did not finish in time. See whether it is up, or raise the kind's timeout; then redrive.",
        ),
        ("lost", "The provider knows nothing of the job any more. Redrive: it starts a new one."),
        ("rate", "The provider's rate limit was hit. Lower the kind's rate under Kind policies; then redrive."),
        ("auth", "The provider refused our key. Set a valid one in the environment; then redrive."),
        ("result", "The result was refused by the kind's own rules. Look at a sample; redrive, or discard."),
        ("input", "The provider refuses this input. Correct it where it comes from; a redrive alone will not help."),
    ):
        if mark in words:
            return text
    return "Read the error of a sample, correct the cause; then redrive."


def group_rows(deliveries: QuerySet[Delivery] | None, tasks: QuerySet[Task] | None) -> list[dict[str, Any]]:
    """Both sides' groups as JSON-ready rows; ids as strings."""
    rows: list[dict[str, Any]] = []
    if deliveries is not None:
        for group in delivery_side.groups(deliveries):
            row = {"side": DELIVERY, **asdict(group)}
            rows.append({**row, "endpoint": str(group.endpoint), "sample": str(group.sample)})
    if tasks is not None:
        rows += [{"side": TASK, **asdict(one), "sample": str(one.sample)} for one in task_groups(tasks)]
    return rows


def page(
    deliveries: QuerySet[Delivery] | None, tasks: QuerySet[Task] | None, after: tuple[int, int], limit: int
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """The newest `limit` of both sides below the ids in `after`, merged by the time of death; and where to go on.

    Each side goes down its own index `(state, -id)`, so the last page costs what the first does.
    """
    sides: list[list[Any]] = []
    for rows, below in ((deliveries, after[0]), (tasks, after[1])):
        found = (
            [] if rows is None else list((rows.filter(pk__lt=below) if below else rows).order_by("-pk")[: limit + 1])
        )
        sides.append(found)
    taken: list[dict[str, Any]] = []
    last = list(after)
    while (sides[0] or sides[1]) and len(taken) < limit:
        side = 0 if not sides[1] or (sides[0] and _died(sides[0][0]) >= _died(sides[1][0])) else 1
        row = sides[side].pop(0)
        last[side] = row.pk
        taken.append(_delivery(row) if side == 0 else _task(row))
    return taken, (last[0], last[1]) if sides[0] or sides[1] else None


def _died(row: Any) -> datetime:
    return row.finished_at or row.created_at


def _delivery(row: Delivery) -> dict[str, Any]:
    return {
        "side": DELIVERY,
        "id": str(row.pk),
        "fingerprint": row.fingerprint,
        "endpoint": str(row.endpoint_id),
        "host": row.endpoint.host,
        "subscriber": row.endpoint.subscriber,
        "type": row.event.type,
        "outcome": row.last_outcome,
        "status_code": row.last_status_code,
        "error": row.last_error[:TEXT_SHOWN],
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
