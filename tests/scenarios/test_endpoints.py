"""Endpoints that come, go and come back while deliveries wait for them."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from delivery import endpoints, events, lifecycle
from delivery.maintenance import sweeps
from delivery.models import Attempt, Delivery, EndpointHealth
from delivery.tests.engine.conftest import LOOPBACK
from kernel.tests.hostile import never_answer, serving
from tests.e2e.system import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def record(count: int, subscriber: str = "acme") -> list[str]:
    made = events.record_many([events.NewEvent("a.b", {"n": n}, subscriber) for n in range(count)])
    return [event.uid for event in made]


def test_an_endpoint_deleted_while_its_deliveries_are_queued_ends_them_once_and_for_all(make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.answer("/slow", 200, wait=0.4), max_concurrency=5)
    other = make_endpoint(sink.url + "/ok", subscriber="other")
    record(60)

    def delete_when_some_are_in_the_air():
        wait_for(lambda: len(sink.seen) >= 5, 20, "the first requests", every=0.01)
        endpoints.delete(endpoint.pk, actor="ada", reason="partner left")
        connection.close()

    deleting = threading.Thread(target=delete_when_some_are_in_the_air)
    deleting.start()
    drain()
    deleting.join()
    record(3, "other")
    again = drain(linger_seconds=0.5)
    sweeps.cancel_orphans()
    states = Delivery.objects.filter(endpoint=endpoint).values_list("state", flat=True)
    assert set(states) == {"delivered", "cancelled"} and len(states) == 60
    # Who was in the air has arrived; nothing was sent twice, and nothing is left to go round for ever.
    paths = [seen.path for seen in sink.seen]
    assert paths.count("/slow") == list(states).count("delivered") < 60
    assert (again.claimed, again.more) == (3, False)
    assert Delivery.objects.filter(endpoint=other, state="delivered").count() == 3
    assert drain().claimed == 0 and sweeps.rescue() == 0


def test_ten_thousand_redriven_at_a_receiver_just_back_go_at_its_rate_and_the_rest_waits(make_endpoint, sink, drain):
    rate, burst = 1200, 30
    endpoint = make_endpoint(sink.url + "/ok", rate_per_minute=rate, rate_burst=burst, max_concurrency=100)
    fresh = make_endpoint(sink.url + "/other", subscriber="other")
    record(10_000)
    Delivery.objects.update(
        state="dead_letter", last_outcome="server_error", attempt_count=5, finished_at=timezone.now()
    )
    ids = list(Delivery.objects.values_list("pk", flat=True))
    assert lifecycle.redrive(ids, actor="ada", reason="the receiver is back") == 10_000
    record(20, "other")
    began = time.monotonic()
    drain(budget_seconds=2.0)
    took = time.monotonic() - began
    arrived = [seen for seen in sink.seen if seen.path == "/ok"]
    assert burst <= len(arrived) <= burst + rate / 60 * took + 1
    assert Delivery.objects.filter(endpoint=endpoint, state="pending", attempt_count=0).count() == 10_000 - len(arrived)
    assert Delivery.objects.filter(endpoint=fresh, state="delivered").count() == 20  # nobody waits behind the crowd
    assert EndpointHealth.objects.get(endpoint=endpoint).breaker_state == "closed"
    assert Delivery.objects.filter(state="in_flight").count() == 0


def test_old_events_are_replayed_to_an_endpoint_that_did_not_exist_then(make_endpoint, sink, drain, settings):
    first = make_endpoint(sink.url + "/first")
    uids = record(25)
    unmatched = events.record("a.b", {"n": "nobody"}, subscriber="new").uid
    drain()
    settings.DELIVERY_ALLOWED_NETWORKS = LOOPBACK
    second = endpoints.create(actor="ada", url=sink.url + "/second", subscriber="acme", event_types=["a.*"])
    since = timezone.now() - timedelta(hours=1)
    replayed = endpoints.replay(second, actor="ada", reason="a new partner wants the history", since=since)
    assert (replayed.deliveries, replayed.next_after) == (25, None)
    drain()
    to_second = [seen.headers["webhook-id"] for seen in sink.seen if seen.path == "/second"]
    assert sorted(to_second) == sorted(uids) and unmatched not in to_second
    assert [seen.path for seen in sink.seen].count("/first") == 25  # the old one hears nothing twice
    assert Delivery.objects.filter(endpoint=first).count() == 25


def test_one_slow_endpoint_does_not_starve_the_others(make_endpoint, sink, drain):
    """A receiver that never answers, with far more due for it than the worker has slots."""
    quick = [make_endpoint(sink.url + f"/quick/{n}", subscriber=f"q{n}") for n in range(5)]
    with serving(never_answer) as silent:
        slow = make_endpoint(silent.url(), timeout_ms=60_000, subscriber="slow", max_concurrency=8)
        record(200, "slow")
        for n in range(5):
            record(40, f"q{n}")
        done = Delivery.objects.filter(endpoint__in=quick, state="delivered")
        drain(max_in_flight=16, should_stop=lambda: done.count() == 200, grace_seconds=0.0)
    assert done.count() == 200
    # All of it while the slow one kept its share of the slots: not one of its requests had ended by then.
    assert set(Attempt.objects.filter(endpoint=slow).values_list("outcome", flat=True)) == {"own_fault"}
    assert Delivery.objects.filter(endpoint=slow, state="pending", attempt_count=0).count() == 200
