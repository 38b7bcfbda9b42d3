"""Snapshots of a filtered list: its first 50 rows and how many there are in each state, counted up to a cap.

Counting stops at the cap, so that ten million finished rows cost what ten thousand cost. What no index leads to is
looked for in the newest rows only; `among_newest` says in how many, and is null where nothing was left out.
"""

from typing import Any

from django.db.models import Count, QuerySet

from console.live.snapshots.objects import COUNT_CAP, delivery_row, task_row
from console.live.topics import Topic
from delivery.models import Delivery, lean
from delivery.states import State as DeliveryState
from kernel import counting
from kernel.database import windows
from tasks.models import Task
from tasks.states import State as TaskState

SHOWN = 50
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
    window = windows.of(rows)
    counts = _counts(Task.objects.all(), asked, TASK_FIELDS, list(TaskState.values))
    return asked.get("subscriber"), {
        "rows": [task_row(row) for row in window.rows.order_by("-id")[:SHOWN]],
        **_told(counts, window),
    }


def deliveries(topic: Topic) -> tuple[str | None, dict[str, Any]]:
    asked = dict(topic.filter)
    rows = lean(Delivery.objects.select_related("event", "endpoint").defer("event__payload"), "endpoint__")
    window = windows.of(rows.filter(**{DELIVERY_FIELDS[name]: value for name, value in asked.items()}))
    counts = _counts(Delivery.objects.all(), asked, DELIVERY_FIELDS, list(DeliveryState.values))
    return asked.get("subscriber"), {
        "rows": [delivery_row(row) for row in window.rows.order_by("-id")[:SHOWN]],
        **_told(counts, window),
    }


def _counts(
    rows: QuerySet, asked: dict[str, str], fields: dict[str, str], states: list[str]
) -> tuple[dict[str, int], bool]:
    """By state, over the filter without its own state; and whether older rows were left out."""
    others = {fields[name]: value for name, value in asked.items() if name != "state"}
    if others and "state" not in asked:  # one look for all states
        window = windows.of(rows.filter(**others), is_by_id=False)
        found = dict(window.rows.order_by().values_list("state").annotate(count=Count("pk")))
        return {state: min(COUNT_CAP, found.get(state, 0)) for state in states}, window.is_cut
    counts, is_cut = {}, False
    for state in [asked["state"]] if "state" in asked else states:
        window = windows.of(rows.filter(**others, state=state))
        counts[state] = counting.capped(window.rows, COUNT_CAP).number
        is_cut |= window.is_cut and counts[state] < COUNT_CAP
    return counts, is_cut


def _told(counts: tuple[dict[str, int], bool], window: windows.Window) -> dict[str, Any]:
    is_cut = counts[1] or window.is_cut
    return {"counts": counts[0], "counts_capped_at": COUNT_CAP, "among_newest": windows.MOST if is_cut else None}
