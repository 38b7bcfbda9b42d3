"""The one-row summary: right, and cheap."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import stats
from delivery.models import StatsMinute
from delivery.tests import factories
from delivery.tests.factories import NOW
from kernel import counting

pytestmark = pytest.mark.django_db


def test_an_empty_system():
    summary = stats.delivery_summary(now=NOW)
    assert summary["pending"] == summary["held"] == summary["failed_last_hour"] == 0
    assert summary["oldest_pending"] is None
    assert summary["avg_delivery_ms_last_hour"] is None
    assert summary["estimated"] == summary["warnings"] == []


def test_held_is_apart_from_waiting(django_assert_num_queries):
    open_one = factories.endpoint()
    paused = factories.endpoint(paused_at=NOW)
    broken = factories.endpoint(health={"breaker_state": "open"})
    factories.delivery(open_one, next_attempt_at=NOW - timedelta(seconds=90))
    factories.delivery(open_one, state="failed", next_attempt_at=NOW + timedelta(seconds=30))
    factories.delivery(paused, next_attempt_at=NOW - timedelta(days=3))
    factories.delivery(broken, state="failed", next_attempt_at=NOW - timedelta(seconds=10))
    factories.delivery(open_one, state="dead_letter")
    factories.delivery(open_one, state="delivered")
    with django_assert_num_queries(10):
        summary = stats.delivery_summary(now=NOW)
    assert (summary["pending"], summary["awaiting_retry"], summary["held"]) == (1, 1, 2)
    assert (summary["in_flight"], summary["dead_letter"]) == (0, 1)
    assert summary["oldest_pending"] == 90
    assert summary["oldest_held"] == 3 * 86_400


def test_what_waits_because_its_receiver_asked_is_held_until_the_wait_is_over():
    now = timezone.now()
    asked = factories.endpoint(health={"throttled_until": now + timedelta(hours=2), "wait_reason": "throttled"})
    over = factories.endpoint(health={"throttled_until": now - timedelta(seconds=1), "wait_reason": "throttled"})
    never = factories.endpoint()
    factories.delivery(asked, next_attempt_at=now - timedelta(hours=1))
    factories.delivery(asked, state="failed", next_attempt_at=now - timedelta(hours=3))
    factories.delivery(over, next_attempt_at=now - timedelta(seconds=20))
    factories.delivery(never, next_attempt_at=now - timedelta(seconds=10))
    summary = stats.delivery_summary(now=now)
    assert (summary["pending"], summary["awaiting_retry"], summary["held"]) == (2, 0, 2)
    assert (summary["oldest_pending"], summary["oldest_held"]) == (20, 10_800)


def test_the_last_hour_is_by_the_time_of_the_failure():
    endpoint = factories.endpoint(subscriber="acme")
    for minutes, outcome, count, total in ((5, "delivered", 3, 90), (6, "timeout", 2, 30_000), (61, "delivered", 9, 9)):
        StatsMinute.objects.create(
            endpoint=endpoint, minute=NOW - timedelta(minutes=minutes), outcome=outcome, count=count, total_ms=total
        )
    summary = stats.delivery_summary("acme", now=NOW)
    assert (summary["delivered_last_hour"], summary["failed_last_hour"]) == (3, 2)
    assert summary["avg_delivery_ms_last_hour"] == 30
    assert stats.delivery_summary("other", now=NOW)["delivered_last_hour"] == 0


def test_a_large_count_is_an_estimate_and_says_so(monkeypatch):
    monkeypatch.setattr(counting, "LIMIT", 2)
    endpoint = factories.endpoint()
    for _ in range(3):
        factories.delivery(endpoint, state="dead_letter")
    number, is_estimate = counting.count(stats.Delivery.objects.filter(state="dead_letter"))
    assert is_estimate
    assert number >= 2


def test_slow_endpoints_need_samples():
    slow = factories.endpoint(health={"p95_ms": 2500, "sample_count": 20})
    factories.endpoint(health={"p95_ms": 2500, "sample_count": 19})
    factories.endpoint(health={"p95_ms": 1999, "sample_count": 200})
    assert [row["id"] for row in stats.slow_endpoints()] == [slow.pk]


@pytest.mark.django_db(transaction=True)
def test_a_held_snapshot_is_a_warning(monkeypatch):
    import psycopg
    from django.db import connection

    monkeypatch.setattr(stats, "HELD_SNAPSHOT_SECONDS", 0.001)
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None}) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM delivery_event")
        (warning,) = stats.warnings()
    assert "pg_stat_activity" in warning
