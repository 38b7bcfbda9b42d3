"""An endpoint's health in the admin: the panel on its page, and the read-only list of all."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from unfold.decorators import display

from delivery import endpoint_rules, endpoint_secrets, endpoints, labels, stats
from delivery.models import EndpointHealth
from kernel import clock
from kernel.admin.bases import KeptAdmin
from kernel.secrets import unreadable_fields


def _warnings(endpoint: Any, now: datetime) -> list[str]:
    is_readable = "client_certificate" not in unreadable_fields(endpoint)
    pem = (endpoint.client_certificate or "") if is_readable else ""
    return endpoint_rules.warnings_of(pem, endpoint.ca_certificate, now)


def health_panel(endpoint: Any) -> dict[str, Any]:
    """What the page shows above the form."""
    health, now = endpoint.health, clock.now()
    good, total = stats.success_last_day([endpoint.pk], now).get(endpoint.pk, (0, 0))
    trend = None
    if health.p95_ms and health.p95_day_before_ms:
        trend = f"{(health.p95_ms / health.p95_day_before_ms - 1) * 100:+.0f} % against the day before"
    return {
        "endpoint": endpoint,
        "state": labels.endpoint_state(endpoint),
        "state_colour": labels.ENDPOINT_COLOURS[labels.endpoint_state(endpoint)],
        "breaker": health.get_breaker_state_display(),
        "breaker_colour": labels.BREAKER_COLOURS[health.get_breaker_state_display()],
        "warnings": _warnings(endpoint, now),
        "held": labels.why_held(endpoint, health, now).replace("Its endpoint", "It"),
        "waiting": stats.waiting_at(endpoint.pk).words,
        "success": f"{100 * good / total:.1f} % of {total:,} attempts" if total else "no attempts",
        "last_success": labels.moment(health.last_success_at),
        "last_failure": labels.moment(health.last_failure_at),
        "failures": f"{health.consecutive_failures} of {endpoint.breaker_threshold} that open the breaker",
        "secrets": [
            f"{row['id']} until {labels.moment(row['ends_at'])}" if row["ends_at"] else f"{row['id']} without end"
            for row in endpoint_secrets.shown(endpoint, endpoint.read_at)
        ],
        "unreadable": ", ".join(sorted(unreadable_fields(endpoint))).replace("_", " "),
        "secret_changed": labels.moment(endpoint.secret_changed_at),
        "percentiles": [
            (name, labels.milliseconds(value) if value is not None else "—")
            for name, value in (("p50", health.p50_ms), ("p95", health.p95_ms), ("p99", health.p99_ms))
        ],
        "trend": trend,
        "phases": [
            (name, labels.milliseconds(health.phases[phase]["p95"]))
            for phase, name in labels.PHASES.items()
            if health.phases.get(phase, {}).get("p95") is not None
        ],
        "pace": labels.pace(health, now),
        "gives_up": endpoints.gives_up(endpoint),
        "health": health,
        "deliveries": f"{reverse('admin:delivery_delivery_changelist')}?endpoint__id__exact={endpoint.pk}",
    }


@admin.register(EndpointHealth)
class EndpointHealthAdmin(KeptAdmin):
    list_display = (
        "endpoint_label",
        "breaker_badge",
        "consecutive_failures",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "sample_count",
    )
    list_filter = ("breaker_state", "is_slow")
    ordering = ("-p95_ms",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[EndpointHealth]:
        named = ("endpoint__id", "endpoint__name", "endpoint__host")
        own = tuple(field.name for field in EndpointHealth._meta.concrete_fields)
        return super().get_queryset(request).select_related("endpoint").only(*own, *named)

    @display(description="Endpoint", ordering="endpoint_id")
    def endpoint_label(self, obj: EndpointHealth) -> str:
        return str(obj.endpoint)

    @display(description="Breaker", label=labels.BREAKER_COLOURS)
    def breaker_badge(self, obj: EndpointHealth) -> str:
        return obj.get_breaker_state_display()
