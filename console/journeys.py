"""One journey, everything that carries its correlation id, in one line of time: from the API call to the last attempt.

Joins the task's transitions, the provider's jobs, its webhooks, our events, deliveries and attempts, and what operators
did. Reads only, never a payload; each source is cut at `MOST` rows, and the page says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.urls import reverse

from console.live.snapshots.changes import CAUSE_LABELS, REASON_LABELS
from delivery.models import Attempt, Delivery, Event, lean
from kernel.models import AuditEntry
from tasks.models import Batch, ExternalJob, Task, Transition
from tasks.states import State
from webhooks.models import InboundEvent

MOST = 200
LOOKED_AT = 5_000  # tasks, and deliveries, whose steps are looked for


@dataclass(frozen=True)
class Entry:
    """One thing that happened. `kind` names the source, `link` the page of the thing."""

    at: datetime
    kind: str
    what: str
    detail: str = ""
    link: str = ""
    state: str = ""


@dataclass(frozen=True)
class Journey:
    """Entries oldest first; `is_cut` where there were more than are shown."""

    entries: list[Entry]
    batches: list[int]
    is_cut: bool


def journey(correlation_id: str) -> Journey:
    """Everything with this correlation id; no entries where there is none."""
    task_ids = list(
        Task.objects.filter(correlation_id=correlation_id).order_by("pk").values_list("pk", flat=True)[:LOOKED_AT]
    )
    delivery_ids = list(
        Delivery.objects.filter(event__correlation_id=correlation_id)
        .order_by("pk")
        .values_list("pk", flat=True)[:LOOKED_AT]
    )
    sources = [
        list(_batches(correlation_id)),
        list(_transitions(task_ids)),
        list(_jobs(task_ids)),
        list(_inbound(correlation_id)),
        list(_events(correlation_id)),
        list(_attempts(delivery_ids)),
        list(_operators(task_ids, delivery_ids)),
    ]
    entries = sorted((entry for source in sources for entry in source), key=lambda entry: entry.at)
    batches = list(Batch.objects.filter(correlation_id=correlation_id).values_list("pk", flat=True)[:MOST])
    return Journey(entries, batches, any(len(source) >= MOST for source in sources))


def _batches(correlation_id: str) -> Iterator[Entry]:
    for row in Batch.objects.filter(correlation_id=correlation_id)[:MOST]:
        link = reverse("batch", args=[row.pk])
        yield Entry(
            row.created_at, "batch", f"Batch {row.pk} of {row.total} {row.kind} tasks accepted", row.caller, link
        )
        if row.completed_at:
            yield Entry(row.completed_at, "batch", f"Batch {row.pk} completed", row.outcome.replace("_", " "), link)


def _transitions(task_ids: list[int]) -> Iterator[Entry]:
    labels = dict(State.choices)
    for row in Transition.objects.filter(task_id__in=task_ids).order_by("id")[:MOST]:
        reason = REASON_LABELS.get(row.reason, row.reason.replace("_", " "))
        detail = " · ".join(part for part in (CAUSE_LABELS.get(row.cause, row.cause), reason, row.actor) if part)
        what = f"Task {row.task_id} became {labels.get(row.to_state, row.to_state)}"
        yield Entry(row.at, "task", what, detail, reverse("admin:tasks_task_change", args=[row.task_id]), row.to_state)


def _jobs(task_ids: list[int]) -> Iterator[Entry]:
    for row in ExternalJob.objects.filter(task_id__in=task_ids).order_by("id")[:MOST]:
        link = reverse("admin:tasks_task_change", args=[row.task_id])
        if row.submitted_at:
            yield Entry(
                row.submitted_at, "provider", f"{row.provider} took job {row.job_id}", f"attempt {row.attempt}", link
            )
        if row.finished_at:
            who = {"webhook": "its webhook said so", "poll": "the poll noticed"}.get(row.finished_by, "")
            yield Entry(row.finished_at, "provider", f"Job {row.job_id} ended: {row.state}", who, link, row.state)


def _inbound(correlation_id: str) -> Iterator[Entry]:
    rows = InboundEvent.objects.filter(correlation_id=correlation_id).defer("body", "headers").order_by("id")
    for row in rows[:MOST]:
        detail = " · ".join(part for part in (row.outcome or row.verdict, row.reason.replace("_", " ")) if part)
        link = reverse("admin:webhooks_inboundevent_change", args=[row.pk])
        yield Entry(row.received_at, "webhook in", f"Webhook {row.pk} from {row.source}", detail, link)


def _events(correlation_id: str) -> Iterator[Entry]:
    for row in Event.objects.filter(correlation_id=correlation_id).defer("payload").order_by("id")[:MOST]:
        detail = f"owed to {row.delivery_count} endpoints" if row.delivery_count else "no endpoint wanted it"
        yield Entry(
            row.created_at,
            "event",
            f"Event {row.type} recorded",
            detail,
            reverse("admin:delivery_event_change", args=[row.pk]),
        )


def _attempts(delivery_ids: list[int]) -> Iterator[Entry]:
    rows = Attempt.objects.filter(delivery_id__in=delivery_ids).select_related("endpoint").defer("response_head")
    rows = lean(rows, "endpoint__")
    for row in rows.order_by("started_at")[:MOST]:
        code = f" {row.status_code}" if row.status_code else ""
        took = f"{row.total_ms:.0f} ms" if row.total_ms is not None else ""
        what = f"Delivery {row.delivery_id} to {row.endpoint.host}: {row.outcome.replace('_', ' ')}{code}"
        state = "delivered" if row.outcome in {"delivered", "duplicate"} else "failed"
        link = reverse("admin:delivery_delivery_change", args=[row.delivery_id])
        yield Entry(row.started_at, "delivery", what, f"attempt {row.number} · {took}", link, state)


def _operators(task_ids: list[int], delivery_ids: list[int]) -> Iterator[Entry]:
    mine = Q(subject__in=["task", "tasks"], object_ids__overlap=task_ids)
    mine |= Q(subject__in=["delivery", "deliveries"], object_ids__overlap=delivery_ids)
    for row in AuditEntry.objects.filter(mine).order_by("id")[:MOST]:
        what = f"{row.actor}: {row.verb.replace('_', ' ')} ({row.count})"
        yield Entry(row.at, "operator", what, row.reason, reverse("admin:kernel_auditentry_change", args=[row.pk]))
