"""What an attempt's row says of the wire: was it sent, was the answer cut, was its wrapping flawed."""

import time

import pytest

from delivery import events
from delivery.models import Attempt, Delivery
from delivery.tests.engine.transport.test_one_request import closes, dropping, ids_of, resets
from delivery.tests.engine.transport.test_wrapping import FLAWED, HEAD
from kernel.tests import hostile
from kernel.tests.hostile import answering, response, serving

pytestmark = pytest.mark.django_db(transaction=True)
ONE_TRY = {"max_attempts": 1, "max_concurrency": 20, "breaker_threshold": 1000}
GET = {"request_form": "postback", "method": "GET"}


@pytest.mark.parametrize("drop", [closes, resets], ids=lambda drop: drop.__name__)
@pytest.mark.parametrize("form", [{}, GET], ids=["event", "postback"])
def test_a_dropped_delivery_on_a_used_connection_is_one_request_and_one_attempt(make_endpoint, drain, drop, form):
    with serving(dropping(drop)) as server:
        warm = make_endpoint(server.url("/warm"), subscriber="warm", **ONE_TRY)
        cold = make_endpoint(server.url("/drop"), subscriber="cold", **(ONE_TRY | form))
        for turn in range(50):
            for who in ("warm", "cold"):
                events.record_many([events.NewEvent("a.b", {"n": n}, who, uid=f"{who}{turn}_{n}") for n in range(2)])
        assert drain(max_in_flight=20).settled == 200
        assert ids_of(server) == {
            f"{who}{turn}_{n}": 1 for who in ("warm", "cold") for turn in range(50) for n in (0, 1)
        }
        assert server.connections < 200
    assert Attempt.objects.filter(endpoint=warm, outcome="delivered", request_sent=True).count() == 100
    assert Attempt.objects.filter(endpoint=cold, outcome="connection", request_sent=True).count() == 100
    delivery = Delivery.objects.filter(endpoint=cold).first()
    assert (delivery.state, delivery.attempt_count) == ("dead_letter", 1)
    assert "may have it" in delivery.last_error
    assert len(set(Delivery.objects.filter(endpoint=cold).values_list("fingerprint", flat=True))) <= 2


def test_who_was_never_reached_cannot_have_it(make_endpoint, drain):
    make_endpoint("http://127.0.0.1:2/", max_attempts=1)
    events.record("a.b", {}, subscriber="acme")
    drain()
    assert Attempt.objects.get().request_sent is False
    assert "may have it" not in Delivery.objects.get().last_error


def test_a_timeout_after_sending_says_that_they_may_have_it(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/slow", 200, wait=1), timeout_ms=200, max_attempts=1)
    events.record("a.b", {}, subscriber="acme")
    drain()
    assert (Attempt.objects.get().outcome, Attempt.objects.get().request_sent) == ("timeout", True)
    assert "may have it" in Delivery.objects.get().last_error


@pytest.mark.parametrize("flaw", FLAWED)
def test_a_flawed_answer_with_a_good_status_is_delivered_once_with_a_note(make_endpoint, drain, flaw):
    with serving(answering(FLAWED[flaw])) as server:
        make_endpoint(server.url())
        events.record("a.b", {}, subscriber="acme")
        drain()
        assert len(server.requests) == 1
    attempt = Attempt.objects.get()
    assert (Delivery.objects.get().state, attempt.outcome, attempt.status_code) == ("delivered", "delivered", 200)
    assert attempt.note and attempt.error == ""


@pytest.mark.parametrize(
    ("body", "state", "outcome"),
    [
        (b"2\r\nok\r\nzz", "delivered", "delivered"),
        (b"5\r\ntwice\r\nzz", "delivered", "duplicate"),
        (b"2\r\nno\r\nzz", "dead_letter", "refused"),
        (b"1\r\n?\r\nzz", "failed", "connection"),
    ],
)
def test_a_body_rule_asks_what_came_of_a_broken_body_and_takes_silence_for_no_answer(
    make_endpoint, drain, body, state, outcome
):
    with serving(answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)) as server:
        make_endpoint(server.url(), body_rule={"success": "ok", "duplicate": "twice", "refused": "no"})
        events.record("a.b", {}, subscriber="acme")
        drain()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.last_outcome) == (state, outcome)


def test_an_answer_that_was_cut_by_us_is_marked(make_endpoint, sink, drain):
    for name, size in (("long", 16 * 1024 + 1), ("whole", 16 * 1024)):
        make_endpoint(sink.answer(f"/{name}", 500, body=b"z" * size), subscriber=name)
        events.record("a.b", {}, subscriber=name)
    drain()
    found = {a.endpoint.subscriber: (len(a.response_head), a.response_truncated) for a in Attempt.objects.all()}
    assert found == {"long": (16 * 1024, True), "whole": (16 * 1024, False)}


def test_surplus_answers_are_recorded_for_nobody(make_endpoint, drain):
    """The first answer comes fifty times, each in a piece of its own; all others are 500."""

    def handle(connection):
        while (request := connection.read_request()) is not None:
            if b"/first" not in request[0]:
                connection.send(response("500 No"))
                continue
            for _ in range(50):
                connection.send(hostile.OK)
                time.sleep(0.0005)

    with serving(handle) as server:
        make_endpoint(server.url("/first"), subscriber="first")
        make_endpoint(server.url("/"), subscriber="others", **{**ONE_TRY, "max_concurrency": 1})
        events.record("a.b", {}, subscriber="first")
        drain()
        time.sleep(0.1)
        events.record_many([events.NewEvent("a.b", {"n": n}, "others") for n in range(50)])
        drain()
    assert Delivery.objects.filter(endpoint__subscriber="others", state="delivered").count() == 0
    assert Attempt.objects.filter(endpoint__subscriber="others", status_code=500).count() == 50


def test_a_drop_is_told_on_the_page_as_what_it_is(make_endpoint, drain, admin_client):
    with serving(dropping(closes)) as server:
        make_endpoint(server.url("/drop"), max_attempts=1)
        events.record("a.b", {}, subscriber="acme")
        drain()
    delivery = Delivery.objects.get()
    page = admin_client.get(f"/admin/delivery/delivery/{delivery.pk}/change/").content.decode()
    assert "the receiver may have it" in page and "no connection" not in page
