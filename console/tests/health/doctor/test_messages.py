"""Round trips over the real broker and the real channel layer, by queues that only these tests use."""

import secrets
import threading

import pytest
from celery import current_app
from django.conf import settings as configured
from kombu import Connection

from console import workers
from console.health.doctor import messages
from console.health.doctor.findings import NotTried
from console.wake import ANSWER_DOCTOR

pytestmark = pytest.mark.django_db


@pytest.fixture
def queue(monkeypatch):
    name = f"doctor-{secrets.token_hex(4)}"
    monkeypatch.setattr(messages, "_queues", lambda: [name])
    monkeypatch.setattr(messages, "QUEUE_SECONDS", 5.0)
    monkeypatch.setattr(messages, "READERS_SECONDS", 0.3)
    yield name
    with Connection(configured.CELERY_BROKER_URL) as broker:
        broker.default_channel.queue_delete(name)


def take_one(queue):
    """What a worker does: takes the message and runs what it names."""
    with Connection(configured.CELERY_BROKER_URL) as broker, broker.SimpleQueue(queue) as waiting:
        message = waiting.get(timeout=5)
        message.ack()
        assert message.headers["task"] == ANSWER_DOCTOR
        workers.answer_doctor(*message.payload[0])


def test_a_message_of_our_own_comes_back_through_the_channel_layer():
    assert messages.channel_layer_trip().is_ok


def test_a_queue_is_well_when_a_worker_took_the_message_and_answered(queue):
    worker = threading.Thread(target=take_one, args=[queue])
    worker.start()
    (found,) = messages.queues()
    worker.join()
    assert (found.name, found.is_ok) == (f"queue_{queue}", True)


def test_without_a_worker_the_words_say_what_to_start(queue, monkeypatch):
    monkeypatch.setattr(messages, "QUEUE_SECONDS", 0.3)
    (found,) = messages.queues()
    assert not found.is_ok and "celery -A config worker" in found.words


def test_a_worker_that_is_at_work_is_no_fault_and_no_proof(queue, monkeypatch):
    monkeypatch.setattr(messages, "QUEUE_SECONDS", 0.3)
    monkeypatch.setattr(messages, "_readers", lambda: {queue: "worker@h"})
    (found,) = messages.queues()
    assert isinstance(found, NotTried) and "worker@h read it, and are at work" in found.words


def test_an_answer_for_another_run_does_not_count(queue, monkeypatch):
    monkeypatch.setattr(messages, "QUEUE_SECONDS", 0.5)
    messages.answer("doctor_another", queue)
    (found,) = messages.queues()
    assert not found.is_ok


def test_every_queue_that_our_routes_name_is_asked():
    routed = {route["queue"] for route in current_app.conf.task_routes.values()}
    assert set(messages._queues()) == routed | {"default"} == {"default", "delivery", "tasks"}
