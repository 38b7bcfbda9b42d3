"""Rows for tests, made through the ORM and without the engine: what stands, not how it came to be."""

import hashlib
import itertools
import json
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event
from delivery.states import State

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
_numbers = itertools.count(1)


def endpoint(**values: Any) -> Endpoint:
    health = values.pop("health", {})
    values.setdefault("url", "https://hooks.example.com/in?token=s3cret")
    values.setdefault("host", "hooks.example.com")
    values.setdefault("secret", "whsec_" + "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh")
    row = Endpoint.objects.create(**values)
    EndpointHealth.objects.create(endpoint=row, **health)
    return Endpoint.objects.get(pk=row.pk)


def event(created_at: datetime | None = None, data: dict[str, Any] | None = None, **values: Any) -> Event:
    values.setdefault("type", "order.paid")
    payload = json.dumps(
        {"type": values["type"], "timestamp": "2026-11-29T12:00:00Z", "data": data or {"n": 1}}
    ).encode()
    values.setdefault("uid", f"evt_{next(_numbers)}")
    values.setdefault("correlation_id", "c0ffee00c0ffee00")
    values.setdefault("occurred_at", NOW)
    row = Event.objects.create(payload=payload, payload_sha256=hashlib.sha256(payload).hexdigest(), **values)
    if created_at:
        Event.objects.filter(pk=row.pk).update(created_at=created_at)
        row.created_at = created_at
    return row


def delivery(to: Endpoint, of: Event | None = None, state: str = "pending", **values: Any) -> Delivery:
    """One delivery in a state; the event owes it, unless it is a replay."""
    of = of or event(subscriber=to.subscriber, created_at=values.pop("recorded_at", None))
    if not values.get("is_replay"):
        of.delivery_count += 1
        of.save(update_fields=["delivery_count"])
    values.setdefault("next_attempt_at", timezone.now())
    if state in (State.DELIVERED, State.DEAD_LETTER, State.CANCELLED):
        values.setdefault("finished_at", timezone.now())
    return Delivery.objects.create(event=of, endpoint=to, state=state, **values)


def attempt(of: Delivery, number: int = 1, **values: Any) -> Attempt:
    values.setdefault("started_at", timezone.now())
    values.setdefault("outcome", "server_error")
    return Attempt.objects.create(delivery=of, endpoint=of.endpoint, number=number, **values)
