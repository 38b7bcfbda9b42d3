"""The drain against a real receiver and the real database."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone
from standardwebhooks import Webhook

from delivery import events, lifecycle
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from kernel.tests.off_hosts import host_off_by

pytestmark = pytest.mark.django_db(transaction=True)


def only() -> Delivery:
    return Delivery.objects.get()


def test_an_event_is_delivered_signed_and_recorded(make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.url + "/ok")
    event = events.record("order.paid", {"id": 7, "name": "Łódź"}, subscriber="acme", correlation_id="journey-12345")
    report = drain()
    assert (report.claimed, report.settled, report.more) == (1, 1, False)
    delivery = only()
    assert (delivery.state, delivery.attempt_count, delivery.last_outcome, delivery.last_status_code) == (
        "delivered",
        1,
        "delivered",
        200,
    )
    assert delivery.lease_token is None and delivery.delivered_at == delivery.finished_at
    seen = sink.seen[0]
    assert seen.body == bytes(event.payload)
    assert Webhook(endpoint.secret).verify(seen.body, seen.headers)["data"] == {"id": 7, "name": "Łódź"}
    assert seen.headers["user-agent"].startswith("Roundtrip/")
    assert seen.headers["x-correlation-id"] == "journey-12345"
    assert seen.headers["content-type"] == "application/json"
    attempt = Attempt.objects.get()
    assert (attempt.number, attempt.outcome, attempt.status_code, attempt.address) == (1, "delivered", 200, "127.0.0.1")
    assert attempt.signed_at == int(seen.headers["webhook-timestamp"])
    assert attempt.total_ms > 0 and attempt.first_byte_ms > 0 and attempt.response_head is None
    assert abs((attempt.started_at - timezone.now()).total_seconds()) < 5


@pytest.mark.parametrize("hours", [1, -1])
def test_a_worker_an_hour_off_signs_so_that_a_receiver_whose_clock_is_right_accepts(make_endpoint, sink, drain, hours):
    endpoint = make_endpoint(sink.url + "/ok")
    with host_off_by(timedelta(hours=hours)):
        events.record("order.paid", {"id": 7}, subscriber="acme")
        assert drain().settled == 1
    seen = sink.seen[0]
    assert Webhook(endpoint.secret).verify(seen.body, seen.headers)["data"] == {"id": 7}
    attempt = Attempt.objects.get()
    assert attempt.signed_at == int(seen.headers["webhook-timestamp"])
    assert abs(attempt.started_at - timezone.now()) < timedelta(minutes=1)
    assert abs(only().delivered_at - timezone.now()) < timedelta(minutes=1)


def test_a_server_error_waits_for_its_next_attempt(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/500", 500, body=b"kaputt \xff\x00"))
    events.record("a.b", {}, subscriber="acme")
    drain()
    delivery = only()
    assert (delivery.state, delivery.attempt_count, delivery.last_error) == ("failed", 1, "HTTP 500")
    assert delivery.next_attempt_at <= timezone.now() + timedelta(seconds=31)
    attempt = Attempt.objects.get()
    assert bytes(attempt.response_head) == b"kaputt \xff\x00"
    assert attempt.retry_at is not None
    assert EndpointHealth.objects.get().consecutive_failures == 1


def test_used_up_attempts_make_a_dead_letter_and_the_schedule_is_kept(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/500", 500), max_attempts=3, retry_profile="custom", retry_delays=[0])
    events.record("a.b", {}, subscriber="acme")
    drain(linger_seconds=1.0)
    delivery = only()
    assert (delivery.state, delivery.attempt_count) == ("dead_letter", 3)
    assert delivery.fingerprint and delivery.finished_at
    assert list(Attempt.objects.order_by("id").values_list("number", flat=True)) == [1, 2, 3]
    assert len(set(sink.ids())) == 1


def test_throttling_pauses_the_whole_endpoint_and_costs_no_attempt(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/429", 429, {"Retry-After": "7"}), max_concurrency=1)
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(5)])
    drain()
    assert len(sink.seen) == 1
    throttled = Delivery.objects.get(state="failed")
    assert (throttled.attempt_count, throttled.throttle_count, throttled.last_outcome) == (0, 1, "throttled")
    health = EndpointHealth.objects.get()
    wait = (health.throttled_until - timezone.now()).total_seconds()
    assert 5 < wait <= 7 and health.consecutive_failures == 0
    assert Delivery.objects.filter(state="pending").count() == 4


def test_gone_disables_the_endpoint_and_holds_its_deliveries(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/410", 410), max_concurrency=1)
    operators = make_endpoint(sink.url + "/operators", subscriber="")
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(3)])
    drain()
    endpoint = Endpoint.objects.exclude(pk=operators.pk).get()
    assert endpoint.state == "disabled" and "410" in endpoint.hold_reason
    assert Delivery.objects.filter(endpoint=endpoint, state="failed", attempt_count=0).count() == 1
    assert Delivery.objects.filter(endpoint=endpoint, state="pending").count() == 2
    told = [json.loads(seen.body) for seen in sink.seen if seen.path == "/operators"]
    assert [(t["type"], t["data"]["endpoint"]) for t in told] == [("endpoint.disabled", str(endpoint.pk))]


def test_refusals_in_a_row_hold_the_endpoint_and_burn_five(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/401", 401), max_concurrency=2)
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme") for n in range(40)])
    drain()
    endpoint = Endpoint.objects.get()
    assert endpoint.state == "needs_attention" and "rejected 401" in endpoint.hold_reason
    dead = Delivery.objects.filter(state="dead_letter").count()
    assert dead == 5
    assert Delivery.objects.filter(state__in=["pending", "failed"]).count() == 35
    assert Delivery.objects.filter(state="in_flight").count() == 0


def test_a_timeout_holds_its_own_slot_and_nothing_else(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/hang", 200, wait=2.5), timeout_ms=1500)
    good = make_endpoint(sink.url + "/ok", subscriber="other")
    events.record("a.b", {}, subscriber="acme")
    events.record_many([events.NewEvent("a.b", {"n": n}, "other") for n in range(30)])
    drain(max_in_flight=20)
    bad = Delivery.objects.exclude(endpoint=good).get()
    assert (bad.state, bad.last_outcome) == ("failed", "timeout")
    last_good = max(seen.at for seen in sink.seen if seen.path == "/ok")
    assert Delivery.objects.filter(endpoint=good, state="delivered").count() == 30
    assert last_good < bad.attempts.get().started_at.timestamp() + 1.5


def test_a_stop_finishes_or_gives_back_what_is_in_the_air(make_endpoint, sink, drain):
    make_endpoint(sink.answer("/slow", 200, wait=1.5))
    quick = make_endpoint(sink.answer("/quick", 200, wait=0.2), subscriber="quick")
    for who in ("acme", "quick"):
        events.record_many([events.NewEvent("a.b", {"n": n}, who) for n in range(3)])
    drain(should_stop=lambda: len(sink.seen) >= 6, grace_seconds=0.5)
    assert Delivery.objects.filter(state="in_flight").count() == 0
    assert Delivery.objects.filter(endpoint=quick, state="delivered").count() == 3
    given_back = Delivery.objects.exclude(endpoint=quick)
    assert {(d.state, d.attempt_count, d.lease_token) for d in given_back} == {("pending", 0, None)}
    assert {(a.number, a.outcome) for a in Attempt.objects.exclude(endpoint=quick)} == {(1, "own_fault")}


def test_held_endpoints_are_passed_over(make_endpoint, sink, drain):
    make_endpoint(sink.url + "/ok", paused_at=timezone.now())
    events.record("a.b", {}, subscriber="acme")
    assert drain().claimed == 0
    assert only().state == "pending"


def test_a_body_rule_decides_what_a_2xx_means(make_endpoint, sink, drain):
    rule = {"success": "accepted", "duplicate": "duplicate", "refused": "invalid click"}
    for name, body in (("yes", b"Accepted"), ("twice", b"DUPLICATE conversion"), ("no", b"invalid click id")):
        make_endpoint(sink.answer(f"/{name}", 200, body=body), subscriber=name, body_rule=rule)
        events.record("a.b", {}, subscriber=name)
    drain()
    found = {d.endpoint.subscriber: (d.state, d.last_outcome) for d in Delivery.objects.select_related("endpoint")}
    assert found == {
        "yes": ("delivered", "delivered"),
        "twice": ("delivered", "duplicate"),
        "no": ("dead_letter", "refused"),
    }
    assert bytes(Attempt.objects.get(outcome="refused").response_head) == b"invalid click id"


def test_a_postback_is_rendered_and_a_missing_field_is_a_dead_letter_of_its_own(make_endpoint, sink, drain):
    make_endpoint(sink.url + "/pb?click={data.click}&n={data.name}", request_form="postback", method="GET")
    events.record("a.b", {"click": "c-1", "name": "Łódź & Co"}, subscriber="acme")
    events.record("a.b", {"name": "no click"}, subscriber="acme")
    drain()
    assert [seen.path for seen in sink.seen] == ["/pb?click=c-1&n=%C5%81%C3%B3d%C5%BA%20%26%20Co"]
    dead = Delivery.objects.get(state="dead_letter")
    assert "data.click" in dead.last_error and dead.attempt_count == 1
    assert Delivery.objects.get(state="delivered")


def test_a_row_that_cannot_be_built_takes_no_other_along(make_endpoint, sink, drain, monkeypatch):
    from delivery.engine import drain as module

    make_endpoint(sink.url + "/ok")
    events.record_many([events.NewEvent("a.b", {"n": n}, "acme", uid=f"e{n}") for n in range(5)])
    real = module.build

    def build(claimed):
        if claimed.uid == "e2":
            raise KeyError("bug")
        return real(claimed)

    monkeypatch.setattr(module, "build", build)
    Delivery.objects.filter(event__uid="e2").update(rescue_count=4)
    drain()
    assert Delivery.objects.filter(state="delivered").count() == 4
    assert Delivery.objects.get(event__uid="e2").last_outcome == "poison"


def test_an_address_we_must_not_call_is_a_dead_letter_with_the_rule(make_endpoint, drain):
    make_endpoint("http://169.254.169.254/latest/")
    events.record("a.b", {}, subscriber="acme")
    drain()
    delivery = only()
    assert (delivery.state, delivery.last_outcome) == ("dead_letter", "blocked")
    assert "metadata" in delivery.last_error
    assert Attempt.objects.get().address == "169.254.169.254"


def test_a_delivery_sent_now_does_not_wait_for_its_back_off(make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.url + "/ok")
    events.record("a.b", {}, subscriber="acme")
    row = Delivery.objects.get()
    Delivery.objects.update(next_attempt_at=timezone.now() + timedelta(days=1), state="failed", attempt_count=1)
    drain()
    assert sink.seen == []
    lifecycle.send_now(row.pk, actor="ada")
    drain()
    row.refresh_from_db()
    assert row.state == "delivered" and len(sink.seen) == 1 and row.endpoint_id == endpoint.pk
