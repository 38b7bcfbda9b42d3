"""The figures of the whole house: tasks by state, what waits longest, who noticed ends, which processes live.

Every query is bounded: open states have partial indexes, and the last hour is read from the newest part of append-only
logs (`RECENT` rows; beyond that a figure is marked as an estimate).
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Avg, Count, F, Max, Min, Q, QuerySet

from console.health import heartbeat
from console.live.snapshots.objects import silence_words
from console.models import Alert, Heartbeat
from delivery.models import Endpoint, EndpointHealth
from delivery.states import BreakerState
from tasks.models import ExternalJob, KindPolicy, Task, Transition
from tasks.states import OPEN_STATES, State

HOUR = timedelta(hours=1)
RECENT = 100_000
WORST_SHOWN = 5
WAITING_TASKS = ["scheduled", "queued", "retrying", "fetching"]


def task_summary(now: datetime, subscriber: str | None = None) -> dict[str, Any]:
    """The specification's one row (S2.9), for tasks. As for deliveries: ages in seconds, times ISO 8601 UTC."""
    states = [*OPEN_STATES, State.DEAD_LETTER.value]
    rows = _tasks(subscriber).filter(state__in=states).order_by()
    counts = dict(rows.values_list("state").annotate(count=Count("pk")))
    hour = _last_hour(now, subscriber)
    oldest = oldest_waiting_task(now, subscriber)
    return {
        "scheduled": counts.get("scheduled", 0),
        "pending": counts.get("queued", 0),
        "awaiting_retry": counts.get("retrying", 0),
        "in_flight": counts.get("running", 0) + counts.get("fetching", 0),
        "dead_letter": counts.get("dead_letter", 0),
        "succeeded_last_hour": hour["succeeded"],
        "failed_last_hour": hour["failed"],
        "oldest_pending": round((now - oldest).total_seconds(), 1) if oldest else None,
        "oldest_pending_at": oldest.isoformat() if oldest else None,
        "avg_task_ms_last_hour": hour["avg_ms"],
        "held": held_tasks(subscriber),
        "last_hour_is_estimate": hour["is_estimate"],
    }


def _tasks(subscriber: str | None) -> QuerySet[Task]:
    return Task.objects.all() if subscriber is None else Task.objects.filter(subscriber=subscriber)


def _last_hour(now: datetime, subscriber: str | None) -> dict[str, Any]:
    newest = Transition.objects.aggregate(newest=Max("id"))["newest"] or 0
    recent = Transition.objects.filter(id__gt=newest - RECENT)
    if subscriber is not None:
        recent = recent.filter(task__subscriber=subscriber)
    rows = recent.filter(at__gte=now - HOUR).aggregate(
        succeeded=Count("pk", filter=Q(to_state=State.SUCCEEDED)),
        failed=Count("pk", filter=Q(to_state__in=[State.RETRYING, State.DEAD_LETTER])),
        avg=Avg(F("at") - F("task__started_at"), filter=Q(to_state=State.SUCCEEDED)),
        seen=Count("pk"),
    )
    average = rows["avg"].total_seconds() * 1000 if rows["avg"] is not None else None
    return {
        "succeeded": rows["succeeded"],
        "failed": rows["failed"],
        "avg_ms": round(average, 1) if average is not None else None,
        "is_estimate": rows["seen"] >= RECENT,
    }


def oldest_waiting_task(now: datetime, subscriber: str | None = None) -> datetime | None:
    """When the task that waits longest fell due; tasks of paused kinds are held and do not count."""
    paused = KindPolicy.objects.filter(is_paused=True).values("kind")
    due = _tasks(subscriber).filter(state__in=WAITING_TASKS, next_attempt_at__lte=now).exclude(kind__in=paused)
    return due.aggregate(oldest=Min("next_attempt_at"))["oldest"]


def held_tasks(subscriber: str | None = None) -> int:
    paused = KindPolicy.objects.filter(is_paused=True).values("kind")
    return _tasks(subscriber).filter(state__in=["scheduled", "queued", "retrying"], kind__in=paused).count()


def noticed_last_hour(now: datetime) -> dict[str, Any]:
    """Who noticed the ends of external jobs: webhook or poll; and the words where webhooks stayed away."""
    newest = ExternalJob.objects.aggregate(newest=Max("id"))["newest"] or 0
    ended = ExternalJob.objects.filter(id__gt=newest - RECENT, finished_at__gte=now - HOUR)
    silent = Q(finished_by="poll", last_webhook_at=None)
    noticed = ended.aggregate(
        webhook=Count("pk", filter=Q(finished_by="webhook")),
        poll=Count("pk", filter=Q(finished_by="poll")),
        silent=Count("pk", filter=silent),
    )
    total = noticed["webhook"] + noticed["poll"]
    shares = {name: round(100 * noticed[name] / total) if total else 0 for name in ("webhook", "poll", "silent")}
    return {**noticed, "total": total, "shares": shares, "words": silence_words(noticed)}


def worst_endpoints() -> list[dict[str, Any]]:
    """The endpoints with the highest p95, and every one whose breaker is not closed or that is held."""
    rows = EndpointHealth.objects.select_related("endpoint").filter(endpoint__deleted_at=None)
    troubled = list(rows.filter(~Q(breaker_state=BreakerState.CLOSED) | Q(endpoint__is_held=True)).order_by("-pk")[:10])
    slow = list(rows.filter(p95_ms__isnull=False).order_by("-p95_ms")[:WORST_SHOWN])
    seen = {row.pk: row for row in [*troubled, *slow]}
    return [_endpoint_figures(row) for row in seen.values()]


def _endpoint_figures(row: EndpointHealth) -> dict[str, Any]:
    endpoint: Endpoint = row.endpoint
    return {
        "id": str(endpoint.pk),
        "name": endpoint.name or endpoint.host,
        "host": endpoint.host,
        "state": endpoint.state,
        "state_label": endpoint.state.replace("_", " "),
        "breaker": row.breaker_state,
        "breaker_label": row.get_breaker_state_display(),
        "p50_ms": round(row.p50_ms) if row.p50_ms is not None else None,
        "p95_ms": round(row.p95_ms) if row.p95_ms is not None else None,
        "p99_ms": round(row.p99_ms) if row.p99_ms is not None else None,
        "sample_count": row.sample_count,
        "is_slow": row.is_slow,
        "is_troubled": row.is_slow or endpoint.is_held or row.breaker_state != BreakerState.CLOSED,
    }


ROLE_LABELS = {
    heartbeat.WEB: "web",
    heartbeat.DELIVERY: "delivery worker",
    heartbeat.TASKS: "tasks worker",
    heartbeat.BEAT: "beat",
    heartbeat.SCHEDULE: "schedule reaches workers",
    heartbeat.EVALUATOR: "alert rules",
}


def processes(now: datetime) -> list[dict[str, Any]]:
    """Each role: how many live, when last seen, and whether that is recent enough."""
    rows = (
        Heartbeat.objects.order_by()
        .values("role")
        .annotate(alive=Count("pk", filter=Q(seen_at__gte=now - heartbeat.FRESH)), last=Max("seen_at"))
    )
    found: dict[str, dict[str, Any]] = {row["role"]: dict(row) for row in rows}
    listed = []
    for role, label in ROLE_LABELS.items():
        row = found.get(role, {"alive": 0, "last": None})
        patience = timedelta(seconds=90) if role == heartbeat.EVALUATOR else heartbeat.FRESH
        is_alive = row["last"] is not None and now - row["last"] <= patience
        listed.append(
            {
                "role": role,
                "label": label,
                "alive": row["alive"],
                "is_alive": is_alive,
                "seen_at": None if is_alive else row["last"],
            }
        )
    return listed


def open_alerts() -> list[Alert]:
    return list(Alert.objects.exclude(state=Alert.State.RESOLVED).order_by("-opened_at")[:50])
