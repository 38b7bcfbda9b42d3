"""Snapshots of a filtered list: its first 50 rows and how many there are in each state, counted up to a cap.

Counting stops at the cap, so that ten million finished rows cost what ten thousand cost.
"""

from typing import Any

from django.db.models import QuerySet

from console.live.snapshots.objects import delivery_row, task_row
from console.live.topics import Topic
from delivery.models import Delivery, lean
from delivery.states import State as DeliveryState
from tasks.models import Task
from tasks.states import State as TaskState

SHOWN, COUNT_CAP = 50, 10_000
TASK_FIELDS = {
    "state": "state",
    "kind": "kind",
    "batch": "batch_id",
    "subscriber": "subscriber",
    "reference": "reference",
}
DELIVERY_FIELDS = {
    "state": "state",
    "endpoint": "endpoint_id",
    "subscriber": "event__subscriber",
    "type": "event__type",
    "last_outcome": "last_outcome",
    "fingerprint": "fingerprint",
    "event": "event_id",
}


def tasks(topic: Topic) -> tuple[str | None, dict[str, Any]]:
    asked = dict(topic.filter)
    rows = Task.objects.defer("input", "result").filter(**{TASK_FIELDS[name]: value for name, value in asked.items()})
    return asked.get("subscriber"), {
        "rows": [task_row(row) for row in rows.order_by("-id")[:SHOWN]],
        **_counts(Task.objects.all(), asked, TASK_FIELDS, list(TaskState.values)),
    }


def deliveries(topic: Topic) -> tuple[str | None, dict[str, Any]]:
    asked = dict(topic.filter)
    rows = lean(Delivery.objects.select_related("event", "endpoint").defer("event__payload"), "endpoint__")
    rows = rows.filter(**{DELIVERY_FIELDS[name]: value for name, value in asked.items()})
    return asked.get("subscriber"), {
        "rows": [delivery_row(row) for row in rows.order_by("-id")[:SHOWN]],
        **_counts(Delivery.objects.all(), asked, DELIVERY_FIELDS, list(DeliveryState.values)),
    }


def _counts(rows: QuerySet, asked: dict[str, str], fields: dict[str, str], states: list[str]) -> dict[str, Any]:
    """By state, over the filter without its own state."""
    others = {fields[name]: value for name, value in asked.items() if name != "state"}
    wanted = [asked["state"]] if "state" in asked else states
    counts = {}
    for state in wanted:  # counted to the cap; a filter without an index may read many rows for that
        counts[state] = rows.filter(**others, state=state).order_by().values("pk")[:COUNT_CAP].count()
    return {"counts": counts, "counts_capped_at": COUNT_CAP}
