"""What the start page and the metrics show beside the figures of deliveries and of tasks: troubled endpoints, the
processes that live, open alerts. Each answer is a few rows, however many there are; endpoints' health is read whole
for it, one small row each.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Q

from console.health import heartbeat
from console.models import Alert, Heartbeat
from delivery.models import Endpoint, EndpointHealth, lean
from delivery.states import BreakerState
from kernel import clock

WORST_SHOWN = 5
ALERTS_SHOWN = 50


def worst_endpoints() -> list[dict[str, Any]]:
    """The endpoints with the highest p95, and the newest that are held, wait, or whose breaker is not closed: a few."""
    now = clock.now()
    rows = lean(EndpointHealth.objects.select_related("endpoint").filter(endpoint__deleted_at=None), "endpoint__")
    is_troubled = ~Q(breaker_state=BreakerState.CLOSED) | Q(endpoint__is_held=True) | Q(throttled_until__gt=now)
    troubled = list(rows.filter(is_troubled).order_by("-pk")[:10])
    slow = list(rows.filter(p95_ms__isnull=False).order_by("-p95_ms")[:WORST_SHOWN])
    seen = {row.pk: row for row in [*troubled, *slow]}
    return [_endpoint_figures(row, now) for row in seen.values()]


def _endpoint_figures(row: EndpointHealth, now: datetime) -> dict[str, Any]:
    endpoint: Endpoint = row.endpoint
    is_waiting = row.throttled_until is not None and row.throttled_until > now
    waits = f", {row.get_wait_reason_display()}" if is_waiting and row.wait_reason else ""
    return {
        "id": str(endpoint.pk),
        "name": endpoint.name or endpoint.host,
        "host": endpoint.host,
        "state": endpoint.state,
        "state_label": endpoint.state.replace("_", " ") + waits,
        "breaker": row.breaker_state,
        "breaker_label": row.get_breaker_state_display(),
        "p50_ms": round(row.p50_ms) if row.p50_ms is not None else None,
        "p95_ms": round(row.p95_ms) if row.p95_ms is not None else None,
        "p99_ms": round(row.p99_ms) if row.p99_ms is not None else None,
        "sample_count": row.sample_count,
        "is_slow": row.is_slow,
        "is_troubled": row.is_slow or endpoint.is_held or is_waiting or row.breaker_state != BreakerState.CLOSED,
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
    return list(Alert.objects.exclude(state=Alert.State.RESOLVED).order_by("-opened_at")[:ALERTS_SHOWN])
