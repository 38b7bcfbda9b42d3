"""Postbacks in the engine: what cannot be rendered is its own row's refusal, and what is rendered counts."""

import hashlib

import pytest

from delivery import events, labels
from delivery.engine.claiming import large_bytes_of
from delivery.models import Attempt, Delivery, EndpointHealth, Event
from delivery.policy.postback import MAX_BODY_BYTES
from delivery.tests import factories
from delivery.tests.engine.conftest import new_drain

pytestmark = pytest.mark.django_db(transaction=True)
LARGE = 100_000


@pytest.fixture
def postback(make_endpoint, sink):
    def make(body, **values):
        values = {"request_form": "postback", "body_content_type": "text/plain", "body_template": body, **values}
        return make_endpoint(sink.url + "/pb", **values)

    return make


def test_a_body_beyond_the_bound_is_a_dead_letter_with_its_reason_and_the_others_go(
    postback, make_endpoint, sink, drain
):
    postback("{data.x}" * 800, subscriber="large")
    make_endpoint(sink.url + "/ok", subscriber="large")
    events.record_many(
        [events.NewEvent("a.b", {"x": "y" * 200_000}, "large"), events.NewEvent("a.b", {"x": "y"}, "large")]
    )
    drain()
    refused = Delivery.objects.select_related("endpoint").get(state="dead_letter")
    assert (refused.last_outcome, refused.attempt_count, refused.rescue_count) == ("blocked", 1, 0)
    assert refused.last_error.startswith("too_large: The rendered body would be larger than 65,536 bytes.")
    assert Attempt.objects.get(delivery=refused).error == refused.last_error
    assert "Shorten" in labels.next_step(refused, refused.endpoint, EndpointHealth.objects.first(), refused.created_at)
    assert sorted(len(seen.body) for seen in sink.seen if seen.path == "/pb") == [800]
    assert sum(seen.path == "/ok" for seen in sink.seen) == 2


def test_five_postbacks_that_cannot_be_rendered_hold_their_endpoint_with_that_reason(postback, drain):
    endpoint = postback("{data.x}" * 800)
    events.record_many([events.NewEvent("a.b", {"x": "y" * 1_000}, "acme") for _ in range(7)])
    drain()
    endpoint.refresh_from_db()
    assert endpoint.is_held and "postback unusable" in endpoint.hold_reason and "template" in endpoint.hold_reason
    assert Delivery.objects.filter(state="dead_letter").count() == 5


def test_a_payload_stored_before_there_was_a_depth_limit_is_one_rows_refusal(postback, make_endpoint, sink, drain):
    """Nor is the process to blame, which would stop claiming: two endpoints, two events, nothing else to pass."""
    for who in ("one", "two"):
        postback("n={data.n}", subscriber=who)
    deep = b'{"type":"a.b","timestamp":"2026-11-29T12:00:00Z","data":{"n":1,"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"
    for who in ("one", "two"):
        event = factories.event(subscriber=who)
        Event.objects.filter(pk=event.pk).update(payload=deep, payload_sha256=hashlib.sha256(deep).hexdigest())
        factories.delivery(postback("n={data.n}", subscriber=f"{who}-more"), event)
    engine, transfers = new_drain()
    try:
        engine.run()
        assert (engine._faults.building.stops, engine._large_bytes) == (0, 0)
    finally:
        transfers.close()
    seen = set(Delivery.objects.values_list("state", "last_outcome", "rescue_count"))
    assert seen == {("dead_letter", "blocked", 0)} and Delivery.objects.count() == 2
    assert all(row.last_error.startswith("too_deep: ") for row in Delivery.objects.all())
    assert sink.seen == []
    events.record("a.b", {"n": 7}, subscriber="one")
    drain()
    assert [seen.body for seen in sink.seen] == [b"n=7"]


def test_a_large_payload_is_let_go_once_its_postback_is_rendered(postback, monkeypatch):
    postback("{data.n}")
    events.record("a.b", {"n": 1, "x": "y" * LARGE}, subscriber="acme")
    engine, transfers = new_drain()
    seen = []
    add = transfers.add
    monkeypatch.setattr(transfers, "add", lambda one: seen.append((one.key.payload, engine._large_bytes)) or add(one))
    try:
        engine.run()
    finally:
        transfers.close()
    assert (seen, engine._large_bytes) == ([(b"1", 0)], 0)
    assert Delivery.objects.get().state == "delivered"


def test_no_rendered_body_is_so_large_that_it_would_need_a_budget():
    assert large_bytes_of(b"x" * MAX_BODY_BYTES) == 0
