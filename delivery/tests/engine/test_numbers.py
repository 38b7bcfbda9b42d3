"""Attempts of a delivery are numbered over its whole life; `cycle` counts the redrives before each."""

import random
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import endpoints, events, lifecycle
from delivery.engine import settle
from delivery.engine.claiming import Claimer
from delivery.engine.transport.messages import Request, TransferResult
from delivery.engine.verdicts import judge
from delivery.latency import Recorder
from delivery.maintenance import sweeps
from delivery.models import Attempt, Delivery, EndpointHealth

pytestmark = pytest.mark.django_db(transaction=True)


def _try(status: int, headers: list[bytes] | None = None) -> None:
    """One attempt, at once, with this answer."""
    Delivery.objects.update(next_attempt_at=timezone.now() - timedelta(seconds=1))
    EndpointHealth.objects.update(**endpoints.NO_THROTTLE)
    (claimed,) = Claimer().claim(1, uuid.uuid4())[0]
    result = TransferResult(Request("http://x/", key=claimed), status, total_ms=1.0, raw_headers=headers or [])
    settle.settle([judge(claimed, result, random.Random(1))], Recorder(), "test")


def _lose() -> None:
    Delivery.objects.update(next_attempt_at=timezone.now() - timedelta(seconds=1))
    EndpointHealth.objects.update(**endpoints.NO_THROTTLE)
    assert Claimer().claim(1, uuid.uuid4())[0]
    Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=5))
    assert sweeps.rescue() == 1


def test_one_rising_number_through_throttles_rescues_probes_and_redrives(make_endpoint):
    make_endpoint(max_attempts=2, breaker_threshold=2)
    events.record("a.b", {}, subscriber="acme")
    _try(500)
    _try(429, [b"retry-after: 1\r\n"])
    _lose()
    _try(500)  # the second that counts
    row = Delivery.objects.get()
    assert row.state == "dead_letter"
    lifecycle.redrive([row.pk], actor="ada", reason="healed")
    EndpointHealth.objects.update(breaker_state="open", probe_at=timezone.now(), opened_at=timezone.now())
    _try(500)  # a probe
    EndpointHealth.objects.update(breaker_state="closed", consecutive_failures=0)
    _try(200)
    rows = Attempt.objects.order_by("id").values_list("number", "cycle", "outcome", "is_probe")
    assert list(rows) == [
        (1, 0, "server_error", False),
        (2, 0, "throttled", False),
        (3, 0, "rescued", False),
        (4, 0, "server_error", False),
        (5, 1, "server_error", True),
        (6, 1, "delivered", False),
    ]
    row.refresh_from_db()
    assert (row.try_count, row.redrive_count, row.attempt_count) == (6, 1, 1)
