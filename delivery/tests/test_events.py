"""Recording events: exact bytes, uids, fan-out; all of it in the caller's transaction."""

import json
import threading
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from delivery import events
from delivery.errors import InvalidEvent, UidTaken
from delivery.models import Delivery, Endpoint, EndpointHealth, Event
from delivery.tests import wire

pytestmark = pytest.mark.django_db


def endpoint(subscriber: str = "acme", **values) -> Endpoint:
    made = Endpoint.objects.create(subscriber=subscriber, url="https://example.com/", host="example.com", **values)
    EndpointHealth.objects.create(endpoint=made)
    return made


def test_the_payload_is_the_exact_bytes():
    moment = datetime(2026, 3, 1, 12, 0, 0, 5000, tzinfo=UTC)
    event = events.record("order.paid", {"ż": 2**70, "n": [1.5, None]}, occurred_at=moment)
    head = '{"type":"order.paid","timestamp":"2026-03-01T12:00:00.005000Z",'
    text = head + '"data":{"ż":1180591620717411303424,"n":[1.5,null]}}'
    assert bytes(Event.objects.get().payload) == text.encode()
    assert event.uid.startswith("evt_") and event.state == "unmatched"


def test_fan_out_by_subscriber_and_type():
    everything = endpoint()
    tasks = endpoint(event_types=["task.*"])
    one = endpoint(event_types=["order.paid", "task.failed"])
    paused = endpoint(event_types=["*"], paused_at=datetime(2026, 1, 1, tzinfo=UTC))
    endpoint("other")
    endpoint(deleted_at=datetime(2026, 1, 1, tzinfo=UTC))

    def reached(event: Event) -> set[int]:
        return set(Delivery.objects.filter(event=event).values_list("endpoint_id", flat=True))

    assert reached(events.record("order.paid", {}, subscriber="acme")) == {everything.pk, one.pk, paused.pk}
    assert reached(events.record("task.done", {}, subscriber="acme")) == {everything.pk, tasks.pk, paused.pk}
    assert reached(events.record("tasks", {}, subscriber="acme")) == {everything.pk, paused.pk}
    kept = events.record("task.done", {}, subscriber="nobody")
    assert (kept.delivery_count, Event.objects.get(pk=kept.pk).state) == (0, "unmatched")


def test_the_same_uid_and_body_is_the_same_event_and_another_body_is_refused():
    endpoint()
    first = events.record("a.b", {"x": 1}, subscriber="acme", uid="order-1")
    again = events.record("a.b", {"x": 1}, subscriber="acme", uid="order-1")
    assert again.pk == first.pk and Delivery.objects.count() == 1
    with pytest.raises(UidTaken):
        events.record("a.b", {"x": 2}, subscriber="acme", uid="order-1")
    assert events.record("a.b", {"x": 2}, subscriber="else", uid="order-1").pk != first.pk


def test_twins_in_one_call_are_one_event():
    endpoint()
    made = events.record_many([events.NewEvent("a.b", {"x": 1}, "acme", uid=uid) for uid in ("u1", "u2", "u1")])
    assert made[0].pk == made[2].pk != made[1].pk
    assert Delivery.objects.count() == 2
    with pytest.raises(UidTaken):
        events.record_many([events.NewEvent("a.b", {"x": n}, "acme", uid="u3") for n in range(2)])


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"type": "a b"}, "invalid_type"),
        ({"type": "a."}, "invalid_type"),
        ({"type": "x" * 101}, "invalid_type"),
        ({"uid": "a.b"}, "invalid_uid"),
        ({"uid": ""}, "invalid_uid"),
        ({"subscriber": "x" * 101}, "invalid_subscriber"),
        ({"data": [1]}, "invalid_data"),
        ({"data": {"n": float("nan")}}, "invalid_data"),
        ({"data": {"n": "\ud800"}}, "invalid_data"),
        ({"data": {"n": object()}}, "invalid_data"),
        ({"data": json.loads('{"n":' * 100 + "1" + "}" * 100)}, "invalid_data"),
        ({"data": json.loads('{"n":' * 900 + "1" + "}" * 900)}, "invalid_data"),
    ],
)
def test_what_is_refused_and_why(values, code):
    with pytest.raises(InvalidEvent) as refusal:
        events.record(**{"type": "a.b", "data": {}, **values})
    assert refusal.value.code == code
    assert Event.objects.count() == 0


def test_hostile_but_valid_text_passes():
    event = events.record("a.b", {"zero": "\x00", "big": 1e308, "deep": [[[[]]]]}, subscriber="a,\"{}\\'x")
    assert json.loads(bytes(Event.objects.get(pk=event.pk).payload))["data"]["zero"] == "\x00"


def test_a_payload_is_read_once_however_many_endpoints_order_by_it(monkeypatch):
    for path in ("data.k", "data.k", "type", ""):
        endpoint(ordering_key=path)
    read = []
    monkeypatch.setattr(events, "shown_loads", lambda raw: read.append(raw) or json.loads(raw))
    events.record("a.b", {"k": "one"}, subscriber="acme")
    assert len(read) == 1
    assert list(Delivery.objects.order_by("id").values_list("ordering_key", flat=True)) == ["one", "one", "a.b", ""]
    events.record("a.b", {"k": "one"}, subscriber="nobody")
    assert len(read) == 1


def test_the_ordering_key_is_taken_from_the_event():
    endpoint(ordering_key="data.click.id")
    for data in ({"click": {"id": "c1"}}, {"click": {"id": 7}}, {"click": "no"}, {}, {"click": {"id": "x" * 300}}):
        events.record("a.b", data, subscriber="acme")
    keys = list(Delivery.objects.order_by("id").values_list("ordering_key", flat=True))
    assert keys[:4] == ["c1", "7", "", ""] and len(keys[4]) == 64


def test_ten_thousand_take_six_statements():
    for number in range(3):
        endpoint(f"s{number}")
    with wire.counted() as sent:
        made = events.record_many([events.NewEvent("a.b", {"n": n}, f"s{n % 3}") for n in range(10_000)])
    assert sent.statements == 1 + 1 + 2 + 2  # endpoints, ids, and two chunks each of events and deliveries
    assert len({event.pk for event in made}) == 10_000 == Delivery.objects.count()
    assert [json.loads(bytes(e.payload))["data"]["n"] for e in made] == list(range(10_000))


@pytest.mark.parametrize(("count", "uid", "statements"), [(1, 0, 3), (2, 0, 4), (100, 0, 4), (100, 1, 5)])
def test_a_hundred_take_as_many_statements_as_two(count, uid, statements):
    endpoint()
    new = [events.NewEvent("a.b", {"n": n}, "acme", uid=f"u{n}" if uid else None) for n in range(count)]
    with wire.counted() as sent:
        events.record_many(new)
    assert sent.statements == statements  # endpoints, ids, events, deliveries; given uids are looked up first


def test_an_event_that_nobody_wants_costs_no_deliveries():
    with wire.counted() as sent:
        events.record("a.b", {}, subscriber="nobody")
    assert sent.statements == 2


@pytest.mark.django_db(transaction=True)
def test_nothing_is_recorded_and_nobody_woken_where_the_caller_rolls_back(monkeypatch):
    from kernel import wakeups

    woken = []
    monkeypatch.setattr(wakeups._wakeups, "ring", lambda _name: woken.append(1))
    endpoint()
    with pytest.raises(RuntimeError), transaction.atomic():
        events.record("a.b", {}, subscriber="acme")
        raise RuntimeError
    assert Event.objects.count() == Delivery.objects.count() == 0 and not woken
    events.record("a.b", {}, subscriber="acme")
    assert woken == [1]


@pytest.mark.django_db(transaction=True)
def test_one_uid_recorded_by_many_at_once_is_one_event():
    endpoint()
    found, barrier = [], threading.Barrier(6)

    def record() -> None:
        barrier.wait()
        found.append(events.record("a.b", {"x": 1}, subscriber="acme", uid="same").pk)
        connection.close()

    threads = [threading.Thread(target=record) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert Event.objects.count() == Delivery.objects.count() == 1


@pytest.mark.parametrize("type", ["task.succeeded", "batch.completed", "alert.opened", "endpoint.disabled"])
def test_callers_cannot_publish_what_we_say_ourselves(type):
    with pytest.raises(InvalidEvent) as refusal:
        events.publish([events.NewEvent("a.b", {}), events.NewEvent(type, {})])
    assert refusal.value.code == "reserved_type" and "Choose another" in refusal.value.detail
    assert not Event.objects.exists()


@pytest.mark.parametrize("uid", ["rt_0123456789abcdef", "alert_7"])
def test_callers_cannot_take_our_uids(uid):
    with pytest.raises(InvalidEvent) as refusal:
        events.publish([events.NewEvent("a.b", {}, uid=uid)])
    assert refusal.value.code == "reserved_uid"
    assert events.publish([events.NewEvent("tasks.done", {}, uid="evt_1Stripe")])[0].pk
