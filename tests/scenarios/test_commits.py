"""Between a caller's request and the committed row: twins, a cut connection, a worker that is too early."""

import json
import threading

import pytest
from django.db import connection, connections, transaction
from rest_framework.test import APIClient

from delivery import events
from delivery.models import Delivery, Event
from kernel.auth import Scope, create_key
from kernel.models import IdempotencyRecord
from tests.scenarios.cutting import cutting_proxy

pytestmark = pytest.mark.django_db(transaction=True)
BODY = {"type": "order.paid", "subscriber": "acme", "data": {"id": 7}}


def client_of(token: str) -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def publish(client: APIClient, key: str):
    return client.post("/api/v1/events/", json.dumps(BODY), content_type="application/json", HTTP_IDEMPOTENCY_KEY=key)


@pytest.fixture
def token(db):
    return create_key("caller", list(Scope.values))[1]


def test_many_creates_with_one_idempotency_key_at_once_are_one_event_and_one_request(token, make_endpoint, sink, drain):
    make_endpoint(sink.url + "/ok")
    barrier, answers = threading.Barrier(6), []

    def call():
        barrier.wait()
        answers.append(publish(client_of(token), "one-key"))
        connections.close_all()

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {202, 409} and 202 in {a.status_code for a in answers}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 202}) == 1
    drain()
    assert Event.objects.count() == Delivery.objects.count() == len(sink.seen) == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_cut_at_commit_and_a_repeat_with_the_same_key_make_one_event(
    token, make_endpoint, sink, drain, monkeypatch, when
):
    make_endpoint(sink.url + "/ok")
    settings = connection.settings_dict
    with cutting_proxy(settings["HOST"] or "127.0.0.1", int(settings["PORT"] or 5432)) as proxy:
        connection.close()
        monkeypatch.setitem(settings, "HOST", "127.0.0.1")
        monkeypatch.setitem(settings, "PORT", str(proxy.port))
        monkeypatch.setitem(settings, "OPTIONS", {**settings["OPTIONS"], "sslmode": "disable"})
        client = client_of(token)
        client.get("/api/v1/deliveries/")  # notes the key's use, so that the next COMMIT is the event's
        proxy.arm(when)
        failed = publish(client, "the-key")
        assert failed.status_code >= 500 and proxy.cuts == 1
        connection.close()
        monkeypatch.undo()
    assert Event.objects.count() == (1 if when == "after" else 0)
    again = publish(client_of(token), "the-key")
    assert again.status_code == 202
    assert (Event.objects.count(), Delivery.objects.count(), IdempotencyRecord.objects.count()) == (1, 1, 1)
    assert again.json()["id"] == str(Event.objects.get().pk)
    drain()
    assert len(sink.seen) == 1


def test_a_worker_that_looks_before_the_commit_sees_nothing_and_misses_nothing(make_endpoint, sink, drain):
    make_endpoint(sink.url + "/ok")
    recorded, looked = threading.Event(), threading.Event()

    def caller():
        with transaction.atomic():
            events.record("a.b", {"n": 1}, subscriber="acme")
            recorded.set()
            looked.wait(20)
        connection.close()

    thread = threading.Thread(target=caller)
    thread.start()
    assert recorded.wait(20)
    early = drain()
    looked.set()
    thread.join()
    assert (early.claimed, len(sink.seen)) == (0, 0)
    assert drain().settled == 1
    assert len(sink.seen) == 1


def test_what_is_rolled_back_is_never_sent(make_endpoint, sink, drain):
    make_endpoint(sink.url + "/ok")
    with transaction.atomic():
        events.record("a.b", {"n": 1}, subscriber="acme")
        transaction.set_rollback(True)
    assert drain().claimed == 0 and not sink.seen and not Event.objects.exists()
