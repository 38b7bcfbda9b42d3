"""`/metrics` for Prometheus: counts by state, ages, processes. For staff, or an unbound key with `deliveries:read`.

Read from the database at each scrape, so every web process says the same and none keeps counters of its own.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from console import figures
from console.live import viewers
from console.models import Alert
from delivery import stats as delivery_stats
from kernel.auth import Scope
from tasks.reading import stats as task_stats
from webhooks import refusals

COUNTED = ("pending", "awaiting_retry", "in_flight", "dead_letter", "held")


def metrics(request: HttpRequest) -> HttpResponse:
    if not _may_read(request):
        return JsonResponse({"detail": "Send an API key with deliveries:read, or log in."}, status=401)
    return HttpResponse(generate_latest(collect(timezone.now())), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        viewer = viewers.of_token(token.strip(), timezone.now())
    else:
        viewer = viewers.of_user(request.user)
    return (
        viewer is not None and viewer.topics is None and viewer.subscriber is None and viewer.may(Scope.DELIVERIES_READ)
    )


def collect(now: datetime) -> CollectorRegistry:
    registry = CollectorRegistry()
    _side(registry, "tasks", task_stats.task_summary(now))
    _side(registry, "deliveries", delivery_stats.delivery_summary(now=now))
    alive = Gauge("roundtrip_processes", "Processes seen lately, by role.", ["role"], registry=registry)
    for process in figures.processes(now):
        alive.labels(process["role"]).set(process["alive"])
    alerts = Gauge("roundtrip_alerts_open", "Alerts that are not resolved.", registry=registry)
    alerts.set(Alert.objects.exclude(state=Alert.State.RESOLVED).count())
    noticed = Gauge(
        "roundtrip_jobs_noticed_last_hour", "External jobs, by who noticed their end.", ["by"], registry=registry
    )
    for name, count in task_stats.noticed_last_hour(now).items():
        if name in {"webhook", "poll", "silent"}:
            noticed.labels(name).set(count)
    _inbound(registry)
    return registry


def _inbound(registry: CollectorRegistry) -> None:
    """Refused calls of the database's day, by source: all of them, and what is stored of them."""
    names = {
        "refused": Gauge("roundtrip_inbound_refused_today", "Refused calls.", ["source"], registry=registry),
        "stored": Gauge("roundtrip_inbound_refused_stored_today", "Those stored.", ["source"], registry=registry),
        "bytes": Gauge("roundtrip_inbound_refused_bytes_today", "Their bytes.", ["source"], registry=registry),
    }
    for row in refusals.budgets():
        for name, gauge in names.items():
            gauge.labels(row["source"]).set(row[name])


def _side(registry: CollectorRegistry, side: str, row: dict[str, Any]) -> None:
    states = Gauge(f"roundtrip_{side}", f"Number of {side} by state.", ["state"], registry=registry)
    for name in COUNTED:
        states.labels(name).set(row.get(name) or 0)
    oldest = Gauge(
        f"roundtrip_{side}_oldest_pending_seconds",
        f"How long the oldest of the {side} has been due.",
        registry=registry,
    )
    oldest.set(row.get("oldest_pending") or 0)
    failed = Gauge(f"roundtrip_{side}_failed_last_hour", "Failed tries of the last hour.", registry=registry)
    failed.set(row.get("failed_last_hour") or 0)
    good = Gauge(f"roundtrip_{side}_finished_last_hour", "Succeeded or delivered in the last hour.", registry=registry)
    good.set(row.get("delivered_last_hour", row.get("succeeded_last_hour")) or 0)
