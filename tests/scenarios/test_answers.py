"""What receivers and name servers do to one delivery, from the claim to the row that an operator reads."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import events
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.transfer import Transfers
from delivery.models import Attempt, Delivery, EndpointHealth
from delivery.tests.engine.conftest import LOOPBACK, new_drain
from delivery.tests.engine.flights import names_of
from kernel.network.lookup import LookupFailed, NameNotFound
from kernel.tests.hostile import serving
from sandbox.receiver.behaviours import bomb

pytestmark = pytest.mark.django_db(transaction=True)
HEAD_BYTES = 16 * 1024


def endless(connection):
    connection.read_request()
    connection.send(b"HTTP/1.1 500 Broken\r\nContent-Type: text/html\r\n\r\n")
    while True:
        connection.send(b"<p>sorry</p>" * 5000)


def bombing(connection):
    connection.read_request()
    packed = bomb()
    head = b"HTTP/1.1 500 Broken\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    connection.send(head + packed)


@pytest.mark.parametrize("handler", [endless, bombing])
def test_a_huge_answer_is_one_attempt_with_its_head_and_the_retry_is_planned_as_usual(make_endpoint, drain, handler):
    with serving(handler) as receiver:
        make_endpoint(receiver.url())
        events.record("a.b", {}, subscriber="acme")
        drain()
        attempt = Attempt.objects.get()
        assert (attempt.outcome, attempt.status_code) == ("server_error", 500)
        assert 0 < len(attempt.response_head) <= HEAD_BYTES
        delivery = Delivery.objects.get()
        assert (delivery.state, delivery.attempt_count) == ("failed", 1)
        assert drain().claimed == 0  # not again at once, and not every few seconds for ever
        assert receiver.connections == 1


def drip(connection):
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
    connection.drip(b"." * 4000)


def test_a_dripped_body_ends_at_the_deadline_and_counts_as_a_timeout(make_endpoint, sink, drain):
    with serving(drip) as receiver:
        make_endpoint(receiver.url(), timeout_ms=500)
        good = make_endpoint(sink.url + "/ok", subscriber="other")
        events.record("a.b", {}, subscriber="acme")
        events.record("a.b", {}, subscriber="other")
        drain()
    slow = Delivery.objects.exclude(endpoint=good).get()
    assert (slow.state, slow.last_outcome) == ("failed", "timeout")
    assert Delivery.objects.get(endpoint=good).state == "delivered"


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1]:9/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::ffff:a9fe:a9fe]/latest/",
        "http://[64:ff9b::a9fe:a9fe]/latest/",
        "http://[2002:a9fe:a9fe::]/latest/",
        "http://0xa9fea9fe/latest/",
        "http://0251.0376.0251.0376/latest/",
    ],
)
def test_no_spelling_of_a_forbidden_address_is_called(make_endpoint, drain, url):
    """The endpoint is written past the check at saving, as an old row or a changed rule would be."""
    make_endpoint(url)
    events.record("a.b", {}, subscriber="acme")
    drain()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.last_outcome, delivery.attempt_count) == ("dead_letter", "blocked", 1)
    assert delivery.last_error


def fly_with(names) -> None:
    engine, transfers = new_drain()
    transfers.close()
    engine._transfers = Transfers(names, TransferConfig(allowed_networks=LOOPBACK))
    try:
        engine.run()
    finally:
        engine._transfers.close()


def test_a_name_that_leads_to_metadata_at_its_second_lookup_is_blocked_then(make_endpoint, sink):
    port = sink.url.rpartition(":")[2]
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    names = names_of(lambda host: answers.pop(0), fresh_seconds=0.0)
    make_endpoint(f"http://rebind.example:{port}/ok")
    events.record("a.b", {"n": 1}, subscriber="acme")
    fly_with(names)
    names._entries["rebind.example"].until = 0.0
    events.record("a.b", {"n": 2}, subscriber="acme")
    fly_with(names)
    first, second = Delivery.objects.order_by("id")
    assert first.state == "delivered"
    assert (second.state, second.last_outcome) == ("dead_letter", "blocked")
    assert Attempt.objects.get(delivery=second).address == "169.254.169.254"
    assert len(sink.seen) == 1


@pytest.mark.parametrize("fault", ["no such name", "silence"])
def test_a_name_that_fails_for_a_minute_is_retried_and_arrives(make_endpoint, sink, fault):
    port, down = sink.url.rpartition(":")[2], [True]

    def look_up(host):
        if down and host == "flaky.example":
            raise NameNotFound("no such name") if fault == "no such name" else LookupFailed("no answer")
        return ["127.0.0.1"]

    def names():
        return names_of(look_up, canary="canary.example")

    make_endpoint(f"http://flaky.example:{port}/ok")
    event = events.record("a.b", {}, subscriber="acme")
    fly_with(names())
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.last_outcome, delivery.attempt_count) == ("failed", "dns", 1)
    assert delivery.next_attempt_at <= timezone.now() + timedelta(seconds=31)
    down.clear()
    Delivery.objects.update(next_attempt_at=timezone.now())
    fly_with(names())
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempt_count) == ("delivered", 2)
    assert sink.ids() == [event.uid]
    assert EndpointHealth.objects.get().consecutive_failures == 0
