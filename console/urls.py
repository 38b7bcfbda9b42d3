"""Addresses of the console's pages and of the checks that anybody may ask. Each with and without its slash."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path

from console.api import metrics
from console.health import checks, door
from console.pages import operations, replays, views


def both(route: str, view: Callable[..., Any], name: str) -> list[URLPattern]:
    """A page at `route` and `route/`: no redirect is needed between them."""
    return [path(f"{route}/", view, name=name), path(route, view)]


urlpatterns: list[URLPattern] = [
    path("", views.start, name="start"),
    *both("batches", views.batches, "batches"),
    *both("batches/<int:batch_id>", views.batch, "batch"),
    *both("dead-letters", views.dead_letter_groups, "dead-letters"),
    *both("journeys/<slug:correlation_id>", views.journey, "journey"),
    *both("alerts/<int:alert_id>/<slug:verb>", views.alert_verb, "alert-verb"),
    *both("endpoints/<int:endpoint_id>/replay", replays.replay, "endpoint-replay"),
    *both("operations/new", operations.new, "operation-new"),
    *both("operations/<int:operation_id>", operations.operation, "operation"),
    *both("operations/<int:operation_id>/steer", operations.steer, "operation-steer"),
    *both("metrics", metrics.metrics, "metrics"),
    *both("healthz", checks.healthz, "healthz"),
    *both("readyz", checks.readyz, "readyz"),
    *both("doctor/<slug:nonce>", door.door, "doctor-door"),
]
