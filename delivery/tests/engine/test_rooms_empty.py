"""Whatever transfers and database do, the worker's rooms are empty afterwards and no row stays in the air."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from delivery import events
from delivery.engine import claims, health_rows
from delivery.engine.claiming import Claimer
from delivery.engine.drain import Drain
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.resolver import Resolver
from delivery.engine.transport.transfer import Transfers
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.states import AWAITS_TURN
from delivery.tests.engine.conftest import LOOPBACK

pytestmark = pytest.mark.django_db(transaction=True)
MAX_BYTES = 400_000


def _fails_at_times(real: Callable[..., Any], chance: random.Random) -> Callable[..., Any]:
    """The database goes away: before the statement, or after its commit."""

    def call(*given: Any, **named: Any) -> Any:
        when = chance.random()
        if when < 0.05:
            raise OperationalError("before")
        result = real(*given, **named)
        if when > 0.95:
            raise OperationalError("after")
        return result

    return call


def _endpoints(make_endpoint: Callable[..., Endpoint], sink: Any) -> None:
    usual = {"retry_profile": "custom", "retry_delays": [0], "max_attempts": 3, "breaker_threshold": 10_000}
    many = {
        "good": {"url": sink.url + "/good"},
        "ordered": {"url": sink.url + "/ordered", "ordering_key": "data.n"},
        "slow": {"url": sink.answer("/slow", 200, wait=1.2)},
        "late": {"url": sink.answer("/late", 200, wait=3), "timeout_ms": 100},
        "broken": {"url": sink.answer("/broken", 500)},
        "throttled": {"url": sink.answer("/throttled", 429, {"retry-after": "1"})},
        "refused": {"url": "http://127.0.0.1:2/"},
        "blocked": {"url": "http://10.0.0.1/"},
        "unsendable": {"url": sink.url + "/x", "headers": {"x": "é"}},
        "postback": {"url": sink.url + "/?c={data.none}", "request_form": "postback", "method": "GET"},
    }
    for who, values in many.items():
        make_endpoint(subscriber=who, **{**usual, **values})


def test_the_rooms_are_empty_and_no_row_is_left_in_the_air_whatever_happened(make_endpoint, sink, monkeypatch):
    chance = random.Random(7)
    _endpoints(make_endpoint, sink)
    whose = list(Endpoint.objects.values_list("subscriber", flat=True))
    claimer = Claimer(max_bytes=MAX_BYTES)
    for module, name in ((claims, "find"), (claims, "settle"), (health_rows, "save_health")):
        monkeypatch.setattr(module, name, _fails_at_times(getattr(module, name), chance))
    real_claim = claimer.claim
    monkeypatch.setattr(claimer, "claim", _fails_at_times(real_claim, chance))
    monkeypatch.setattr("delivery.engine.drain.DATABASE_PAUSES", (0.01,) * 12)
    config = TransferConfig(max_in_flight=20, max_waiting=10, allowed_networks=LOOPBACK)
    transfers = Transfers(Resolver(allowed_networks=LOOPBACK), config)
    try:
        for _ in range(8):
            chance.shuffle(whose)
            events.record_many(
                [
                    events.NewEvent("a.b", {"n": n % 2, "text": "x" * chance.choice([1, 90_000])}, who)
                    for n in range(4)
                    for who in whose
                ]
            )
            ends = time.monotonic() + chance.uniform(0.1, 1.0)
            drain = Drain(
                transfers,
                claimer,
                should_stop=lambda ends=ends: time.monotonic() > ends,
                grace_seconds=chance.choice([0.0, 0.3]),
                linger_seconds=0.0,
            )
            drain.run()
            shares = claimer.shares
            assert (shares._quick.total, shares._waiting.total, shares._held) == (0, 0, {})
            assert (drain._large_bytes, len(transfers), drain._verdicts) == (0, 0, [])
            assert not Delivery.objects.filter(state="in_flight").exists()
            now = timezone.now()
            Delivery.objects.filter(next_attempt_at__gt=now, next_attempt_at__lt=AWAITS_TURN).update(
                next_attempt_at=now
            )
            EndpointHealth.objects.update(throttled_until=None, pace_probe_until=None)
            Endpoint.objects.update(attention_at=None)
    finally:
        transfers.close()
    outcomes = set(Attempt.objects.values_list("outcome", flat=True))
    assert {"delivered", "timeout", "server_error", "throttled", "connection", "blocked", "own_fault"} <= outcomes
    for pk, tries in Delivery.objects.values_list("pk", "try_count"):
        assert Attempt.objects.filter(delivery_id=pk).count() == tries
