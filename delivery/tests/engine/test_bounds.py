"""Whatever figures and texts an attempt brings: what was delivered stays delivered, and each value fits its column."""

from __future__ import annotations

import math
import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from delivery import events, lifecycle
from delivery.engine import bounds, settle
from delivery.engine.claiming import Claimer
from delivery.engine.transport.messages import Request, TransferResult
from delivery.engine.verdicts import judge
from delivery.latency import Recorder
from delivery.maintenance import sweeps
from delivery.models import Attempt, Delivery, EndpointHealth, StatsMinute
from delivery.policy.outcomes import Failure

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "due",
    [
        timezone.now() - timedelta(days=25),
        timezone.now() - timedelta(days=365 * 9),
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime(3, 1, 1, tzinfo=UTC),
    ],
    ids=["25 days", "9 years", "before 1970", "two thousand years"],
)
def test_a_delivery_long_overdue_is_sent_once(make_endpoint, sink, drain, due):
    make_endpoint(sink.url + "/ok")
    events.record("a.b", {}, subscriber="acme")
    Delivery.objects.update(next_attempt_at=due)
    drain()
    Delivery.objects.filter(state="in_flight").update(leased_until=timezone.now() - timedelta(seconds=9))
    sweeps.rescue()
    drain()
    assert len(sink.seen) == 1
    row = Delivery.objects.get()
    assert (row.state, row.attempt_count, row.last_outcome) == ("delivered", 1, "delivered")
    waited = (timezone.now() - due).total_seconds() * 1000
    attempt = Attempt.objects.get()
    assert attempt.queue_wait_ms == 2**31 - 1 if waited >= 2**31 else abs(attempt.queue_wait_ms - waited) < 60_000


numbers = some.one_of(
    some.floats(), some.sampled_from([0.0, -1.0, 2.0**31, 2.0**63, 1e300, math.inf, -math.inf, math.nan])
)
anything = some.text(some.characters(), max_size=400)
wholes = some.integers(-(2**70), 2**70)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=some.data())
def test_every_outcome_is_kept_whatever_its_figures_are(data, make_endpoint):
    endpoint = make_endpoint(subscriber=uuid.uuid4().hex)
    events.record("a.b", {}, subscriber=endpoint.subscriber)
    claimed = _claim(endpoint.pk)
    claimed.waited_ms = data.draw(numbers)
    claimed.key_ids = data.draw(some.text("abc0123456789,", max_size=200))
    claimed.try_count, claimed.cycle = data.draw(some.integers(0, 2**40)), data.draw(some.integers(0, 2**40))
    status, failure = data.draw(some.sampled_from([(200, None), (500, None), (404, None), (429, None), (0, "dns")]))
    result = TransferResult(
        Request("http://x/", key=claimed),
        status,
        Failure(failure) if failure else None,
        detail=data.draw(anything),
        address=data.draw(anything),
        head=data.draw(some.binary(max_size=300)),
        reused=data.draw(some.booleans()),
        dns_ms=data.draw(numbers),
        connect_ms=data.draw(numbers),
        tls_ms=data.draw(numbers),
        first_byte_ms=data.draw(numbers),
        total_ms=data.draw(numbers),
    )
    verdict = judge(claimed, result, random.Random(1))
    verdict.error = data.draw(anything)
    verdict.delay = data.draw(numbers)
    verdict.throttle_count, verdict.rescue_count = data.draw(wholes), data.draw(wholes)
    recorder = Recorder()
    assert settle.settle([verdict], recorder, "worker" * 30) == 1
    recorder.flush()
    row = Delivery.objects.get(pk=claimed.id)
    assert row.state == verdict.state and row.lease_token is None
    assert Attempt.objects.filter(delivery=row).count() == 1
    assert StatsMinute.objects.filter(endpoint=endpoint, outcome=verdict.outcome).count() == 1


def _claim(endpoint_id: int):
    claimer = Claimer()
    taken = []
    while not taken:
        taken = [one for one in claimer.claim(50, uuid.uuid4())[0] if one.config.id == endpoint_id]
    return taken[0]


@given(numbers, numbers)
def test_a_bound_keeps_what_fits(value, most):
    assert 0 <= bounds.small(value) <= 2**15 - 1 and 0 <= bounds.whole(value) <= 2**31 - 1
    if 1 <= value <= 2**15 - 1:
        assert bounds.small(value) == int(value)


@given(anything)
def test_a_text_keeps_what_fits(value):
    cut = bounds.text(value, 300)
    assert len(cut) <= 300 and "\x00" not in cut and cut == cut.encode().decode()
    if value.isascii() and "\x00" not in value:
        assert cut == value[:300]


def test_counters_at_their_columns_end_stay_there(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/late", 500), max_attempts=32767)
    events.record("a.b", {}, subscriber="acme")
    Delivery.objects.update(attempt_count=32767, try_count=32767, redrive_count=32767, rescue_count=4, state="failed")
    drain()
    row = Delivery.objects.get()
    assert (row.state, row.attempt_count, row.try_count) == ("dead_letter", 32767, 32767)
    assert lifecycle.redrive([row.pk], actor="ada", reason="healed") == 1
    row.refresh_from_db()
    assert (row.state, row.redrive_count, row.try_count) == ("pending", 32767, 32767)


@pytest.fixture
def no_whole_attempts(db):
    """The attempts' table takes no row with a measured time: as after a column was narrowed."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE delivery_attempt ADD CONSTRAINT narrow CHECK (total_ms IS NULL) NOT VALID")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE delivery_attempt DROP CONSTRAINT narrow")


def test_a_settle_that_cannot_be_written_whole_is_written_without_its_ornaments(
    make_endpoint, sink, drain, no_whole_attempts
):
    make_endpoint(sink.url + "/ok")
    make_endpoint(sink.answer("/wrong", 500), subscriber="other")
    events.record_many([events.NewEvent("a.b", {"n": n}, who) for n in range(3) for who in ("acme", "other")])
    drain()
    assert Delivery.objects.filter(state="delivered", attempt_count=1).count() == 3
    assert Delivery.objects.filter(state="failed", attempt_count=1, last_outcome="server_error").count() == 3
    assert Attempt.objects.filter(outcome="delivered", number=1, total_ms=None).count() == 3
    assert sorted(EndpointHealth.objects.values_list("consecutive_failures", flat=True)) == [0, 3]


def test_where_no_attempt_can_be_written_at_all_the_delivered_stay_delivered(make_endpoint, sink, drain):
    make_endpoint(sink.url + "/ok")
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(3)])
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE delivery_attempt ADD CONSTRAINT shut CHECK (false) NOT VALID")
    try:
        drain()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE delivery_attempt DROP CONSTRAINT shut")
    assert len(sink.seen) == 3
    assert Delivery.objects.filter(state="delivered").count() == 3
    assert Attempt.objects.count() == 0
