"""Somebody's forgotten transaction holds a snapshot: it is told in both places, and the work goes on beside it."""

from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from console.alerts import evaluate, rules
from console.models import Alert
from delivery import events, stats
from delivery.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)
TEN_MINUTES = timedelta(minutes=10)


def test_it_would_be_told_within_ten_minutes():
    assert timedelta(seconds=stats.HELD_SNAPSHOT_SECONDS) <= TEN_MINUTES
    assert rules.SNAPSHOT_TOO_OLD <= TEN_MINUTES


def test_a_held_snapshot_is_in_the_stats_and_an_alert_and_deliveries_flow(api, make_endpoint, sink, drain, monkeypatch):
    monkeypatch.setattr(stats, "HELD_SNAPSHOT_SECONDS", 0.001)  # instead of waiting so long
    monkeypatch.setattr(rules, "SNAPSHOT_TOO_OLD", timedelta(0))
    make_endpoint(sink.url + "/ok", max_concurrency=50)
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM delivery_delivery")
        for round_ in range(3):
            events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(200)])
            drain()
            assert Delivery.objects.filter(state="delivered").count() == 200 * (round_ + 1)
        warnings = api.get("/api/v1/stats/").json()["warnings"]
        evaluate.evaluate(timezone.now())
        told = Alert.objects.exclude(state="resolved").filter(rule="held_snapshot")
        assert any("snapshot" in warning for warning in warnings)
        assert told.count() == 1
    monkeypatch.undo()
    evaluate.evaluate(timezone.now() + timedelta(minutes=1))
    assert told.count() == 0
