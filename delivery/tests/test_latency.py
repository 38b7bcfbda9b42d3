"""Histograms, percentiles, and which endpoints are slow."""

import random
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from delivery import latency
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth, Event, LatencyBucket, StatsMinute
from delivery.tests import factories


def timed(ms: float, reused: bool = True):
    return SimpleNamespace(total_ms=ms, first_byte_ms=ms / 2, reused=reused, dns_ms=1.0, connect_ms=2.0, tls_ms=3.0)


@pytest.fixture
def endpoint(db) -> Endpoint:
    made = Endpoint.objects.create(subscriber="acme", url="https://x/", host="x")
    EndpointHealth.objects.create(endpoint=made)
    return made


def test_every_bucket_holds_what_it_says():
    for bucket in range(1, latency.BUCKETS - 1):
        assert latency.bucket_of(latency.middle_of(bucket)) == bucket
    assert latency.bucket_of(0) == 0 and latency.bucket_of(10**9) == latency.BUCKETS - 1
    assert [latency.bucket_of(ms) for ms in (0.49, 0.5, 0.6001)] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_a_histogram_is_off_by_ten_percent_at_most(seed):
    rng = random.Random(seed)
    samples = sorted(rng.lognormvariate(4, 1.5) + 1 for _ in range(3000))
    counts = [0] * latency.BUCKETS
    for ms in samples:
        counts[latency.bucket_of(ms)] += 1
    for share in latency.SHARES:
        exact = samples[int(share * len(samples)) - 1]
        assert latency.percentile(counts, share) == pytest.approx(exact, rel=0.1)


def test_counts_are_added_up_from_several_workers(endpoint):
    moment = timezone.now().timestamp()
    for _ in range(2):
        recorder = latency.Recorder()
        recorder.add(endpoint.pk, moment, "delivered", 3.0, timed(100))
        recorder.add(endpoint.pk, moment, "timeout", 3.0, timed(900, reused=False))
        recorder.add(endpoint.pk, moment, "own_fault", 3.0, None)
        recorder.flush()
        recorder.flush()
    assert dict(StatsMinute.objects.values_list("outcome", "count")) == {"delivered": 2, "timeout": 2, "own_fault": 2}
    assert StatsMinute.objects.get(outcome="delivered").total_ms == 200
    totals = LatencyBucket.objects.get(phase="total").counts
    assert sum(totals) == 4 and totals[latency.bucket_of(100)] == 2
    assert sum(LatencyBucket.objects.get(phase="tls").counts) == 2


def attempts(endpoint: Endpoint, values: list[float], started_at) -> None:
    event = Event.objects.create(uid=f"e{started_at.timestamp()}", type="a.b", payload=b"{}", occurred_at=started_at)
    delivery = Delivery.objects.create(event=event, endpoint=endpoint, next_attempt_at=started_at)
    Attempt.objects.bulk_create(
        Attempt(
            delivery=delivery,
            endpoint=endpoint,
            number=1,
            outcome="delivered",
            started_at=started_at,
            total_ms=ms,
            first_byte_ms=ms / 2,
        )
        for ms in values
    )
    recorder = latency.Recorder()
    for ms in values:
        recorder.add(endpoint.pk, started_at.timestamp(), "delivered", 0.0, timed(ms))
    recorder.flush()


def test_percentiles_are_exact_and_slow_endpoints_are_found(endpoint):
    now = timezone.now()
    attempts(endpoint, [float(n) for n in range(1, 101)], now - timedelta(hours=1))
    assert latency.refresh(now=now) == 1
    health = EndpointHealth.objects.get()
    assert (health.p50_ms, health.p95_ms, health.p99_ms, health.sample_count) == (50.5, 95.0, 99.0, 100)
    assert health.phases["first_byte"]["p50"] == pytest.approx(25.2, abs=0.1)
    assert not health.is_slow
    attempts(endpoint, [3000.0] * 100, now - timedelta(minutes=1))
    later = now + timedelta(minutes=1)
    latency.refresh(now=later)
    health = EndpointHealth.objects.get()
    assert health.is_slow and health.p95_ms == 3000.0


@pytest.mark.parametrize(("quick", "is_slow"), [(19, True), (30, False)])
def test_an_endpoint_that_has_been_quick_for_an_hour_is_slow_no_longer(endpoint, quick, is_slow):
    now = timezone.now()
    attempts(endpoint, [3000.0] * 100, now - timedelta(hours=3))
    latency.refresh(now=now)
    assert EndpointHealth.objects.get().is_slow
    later = now + timedelta(minutes=30)
    attempts(endpoint, [50.0] * quick, later - timedelta(minutes=10))
    latency.refresh(now=later)
    health = EndpointHealth.objects.get()
    assert (health.is_slow, health.p95_ms > 2_000) == (is_slow, True)


def test_the_day_before_and_what_left_the_window(endpoint):
    now = timezone.now()
    attempts(endpoint, [100.0] * 50, now - timedelta(hours=30))
    attempts(endpoint, [400.0] * 50, now - timedelta(hours=2))
    latency.refresh(now=now)
    health = EndpointHealth.objects.get()
    assert health.p95_ms == 400.0 and health.sample_count == 50
    assert health.p95_day_before_ms == pytest.approx(100, rel=0.1)


def test_beyond_the_limit_the_histogram_answers(endpoint, monkeypatch):
    now = timezone.now()
    attempts(endpoint, [float(n) for n in range(1, 201)], now - timedelta(hours=1))
    monkeypatch.setattr(latency, "EXACT_MOST", 100)
    measured = latency.measure(endpoint.pk, now - latency.WINDOW, now)
    assert not measured.is_exact and measured.sample_count == 200
    assert measured.of("p50") == pytest.approx(100, rel=0.1)
    assert measured.of("p95") == pytest.approx(190, rel=0.1)


def test_an_endpoint_that_never_had_attempts_is_left_alone(endpoint):
    assert latency.refresh(now=timezone.now()) == 0
    health = EndpointHealth.objects.get()
    assert (health.measured_at, health.sample_count, health.p95_ms) == (None, 0, None)


def test_an_endpoint_without_new_attempts_is_measured_again_after_ten_minutes(endpoint):
    now = timezone.now()
    attempts(endpoint, [100.0] * 20, now - timedelta(minutes=30))
    latency.refresh(now=now)
    latency.refresh(now=now + latency.SELDOM - timedelta(seconds=1))
    assert EndpointHealth.objects.get().measured_at == now
    later = now + latency.SELDOM
    latency.refresh(now=later)
    assert EndpointHealth.objects.get().measured_at == later


def test_figures_leave_with_the_window(endpoint):
    now = timezone.now()
    attempts(endpoint, [100.0] * 20, now - timedelta(minutes=30))
    latency.refresh(now=now)
    assert EndpointHealth.objects.get().sample_count == 20
    latency.refresh(now=now + latency.WINDOW)
    health = EndpointHealth.objects.get()
    assert (health.sample_count, health.p50_ms, health.p95_ms, health.p99_ms) == (0, None, None, None)


def test_a_round_reads_a_bounded_number_of_endpoints_and_the_longest_unmeasured_go_first(db, monkeypatch):
    monkeypatch.setattr(latency, "AT_ONCE", 2)
    now = timezone.now()
    rows = [factories.endpoint() for _ in range(4)]
    for minutes, row in enumerate(rows[:3], 30):
        attempts(row, [100.0], now - timedelta(minutes=minutes))
    EndpointHealth.objects.filter(pk=rows[0].pk).update(measured_at=now - timedelta(hours=1))
    measured = []
    for _ in range(2):
        latency.refresh(now=now)
        measured.append(set(EndpointHealth.objects.filter(measured_at=now).values_list("pk", flat=True)))
    assert measured == [{rows[1].pk, rows[2].pk}, {rows[0].pk, rows[1].pk, rows[2].pk}]
