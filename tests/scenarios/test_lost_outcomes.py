"""The receiver has it, and our record of that is lost or late: at most one request more, under the same id."""

import threading
from datetime import timedelta

import pytest
from django.db import DatabaseError, OperationalError, connection
from django.utils import timezone

from config import queues
from delivery import endpoint_rules, events
from delivery.engine import claims
from delivery.engine import drain as drains
from delivery.engine.requests import LEASE_FACTOR
from delivery.maintenance import sweeps
from delivery.models import Attempt, Delivery
from tests.e2e.system import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def leases_end() -> None:
    Delivery.objects.filter(state="in_flight").update(leased_until=timezone.now() - timedelta(seconds=5))


def fail_always(error):
    def fail(*_args, **_kwargs):
        raise error

    return fail


def test_an_outcome_lost_after_a_successful_request_costs_one_repetition_and_no_more(
    make_endpoint, sink, drain, monkeypatch
):
    """The database is gone from the send until the worker ends."""
    make_endpoint(sink.url + "/ok")
    uid = events.record("a.b", {}, subscriber="acme").uid
    with monkeypatch.context() as gone:
        gone.setattr(drains, "DATABASE_PAUSES", (0.01, 0.02))
        gone.setattr(drains.settle, "settle", fail_always(OperationalError("the server closed the connection")))
        drain(should_stop=lambda: len(sink.seen) == 1, grace_seconds=0.3)
    assert Delivery.objects.get().state == "in_flight"
    assert drain().claimed == 0  # nobody takes it while the lease lasts
    leases_end()
    assert sweeps.rescue() == 1
    drain()
    assert sink.ids() == [uid, uid]
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempt_count, delivery.rescue_count) == ("delivered", 1, 0)
    assert list(Attempt.objects.order_by("id").values_list("outcome", flat=True)) == ["rescued", "delivered"]
    assert drain().claimed == 0 and sweeps.rescue() == 0


def test_a_record_that_can_never_be_written_ends_as_a_dead_letter_and_not_in_a_loop(
    make_endpoint, sink, drain, monkeypatch
):
    make_endpoint(sink.url + "/ok")
    uid = events.record("a.b", {}, subscriber="acme").uid
    monkeypatch.setattr(claims, "settle", fail_always(DatabaseError("a row that no version of us can write")))
    for _ in range(8):
        drain()
        leases_end()
        sweeps.rescue()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.last_outcome, delivery.rescue_count) == ("dead_letter", "poison", 5)
    assert sink.ids() == [uid] * 5


def test_an_attempt_that_cannot_be_written_does_not_undo_the_delivery(make_endpoint, sink, drain, monkeypatch):
    make_endpoint(sink.url + "/ok")
    uid = events.record("a.b", {}, subscriber="acme").uid
    monkeypatch.setattr(claims, "copy_attempts", fail_always(DatabaseError("no partition of the attempts' table")))
    for _ in range(3):
        drain()
        leases_end()
        sweeps.rescue()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.last_outcome, delivery.attempt_count) == ("delivered", "delivered", 1)
    assert sink.ids() == [uid]


def test_a_wake_up_given_out_again_during_a_long_request_starts_no_second_one(make_endpoint, sink, drain):
    """What a broker does whose visibility timeout is shorter than a request: the same message to another worker."""
    make_endpoint(sink.answer("/slow", 200, wait=1.5), timeout_ms=120_000)
    events.record("a.b", {}, subscriber="acme")

    def first_worker():
        drain()
        connection.close()

    first = threading.Thread(target=first_worker)
    first.start()
    wait_for(lambda: sink.seen, 20, "the request", every=0.01)
    assert drain().claimed == 0 and sweeps.rescue() == 0
    first.join()
    assert len(sink.seen) == 1
    assert Delivery.objects.get().state == "delivered"


def test_leases_outlast_requests_and_the_brokers_visibility_outlasts_a_drain(make_endpoint):
    longest = endpoint_rules._LIMITS["timeout_ms"][1] / 1000
    assert LEASE_FACTOR >= 2
    redis = queues._transport_options("redis://127.0.0.1/0")["visibility_timeout"]
    assert redis > drains.BUDGET_SECONDS + longest
