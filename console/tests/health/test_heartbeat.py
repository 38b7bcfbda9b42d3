"""A process that is alive beats, however busy its pool of database connections is."""

import threading

import pytest
from django.db import OperationalError, connection, connections

from console.health import heartbeat
from console.health.heartbeat import Pulse
from console.models import Heartbeat
from kernel import clock


@pytest.fixture
def full_pool(committed, monkeypatch):
    """A pool of one connection for threads that begin now, and somebody has it."""
    options = {**connection.settings_dict["OPTIONS"], "pool": {"min_size": 0, "max_size": 1, "timeout": 0.1}}
    connection.ensure_connection()
    apart = {**connection.settings_dict, "OPTIONS": options}
    monkeypatch.setitem(connections.settings, "default", apart)
    held, enough = threading.Event(), threading.Event()

    def hold():
        connection.ensure_connection()
        held.set()
        enough.wait()
        connection.close()
        connection.close_pool()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    yield
    enough.set()
    holder.join()


def in_a_thread(work):
    told = []

    def run():
        try:
            told.append(work())
        except OperationalError as error:
            told.append(type(error))
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return told[0]


def test_a_full_pool_makes_no_living_process_look_dead(full_pool):
    assert in_a_thread(Heartbeat.objects.count) is OperationalError
    seen, beaten = [], threading.Event()

    def watch():
        seen.append((connection.pool, list(Heartbeat.objects.values_list("role", flat=True))))
        beaten.set()

    pulse = Pulse("web", also=watch).start()
    assert beaten.wait(15)
    pulse.stop()
    assert seen == [(None, ["web"])]
    assert not Heartbeat.objects.exists()


@pytest.mark.django_db
def test_a_heartbeat_is_one_statement_and_keeps_its_start(django_assert_num_queries):
    with django_assert_num_queries(1):
        heartbeat.beat_once("web", "delivery")
    started = Heartbeat.objects.get(role="web").started_at
    heartbeat.beat_once("web")
    row = Heartbeat.objects.get(role="web")
    assert row.started_at == started
    assert heartbeat.fresh_counts() == {"web": 1, "delivery": 1}
    heartbeat.forget("web")
    assert heartbeat.fresh_counts() == {"delivery": 1}


def test_a_worker_beats_for_the_queues_it_serves(monkeypatch):
    began = []
    monkeypatch.setattr(heartbeat, "start", lambda *roles, **_kw: began.append(roles))

    class Sender:
        class app:
            class amqp:
                class queues:
                    consume_from = {"tasks": 1, "default": 1}

    heartbeat._worker_is_ready(sender=Sender)
    assert began == [("tasks",)]


@pytest.mark.django_db
def test_a_heartbeat_says_how_far_the_hosts_clock_is_off(monkeypatch):
    heartbeat.beat_once("web")
    assert abs(Heartbeat.objects.get().clock_ahead_ms) < 60_000
    off = clock.Reading(clock.now(), 0.0, 15.2, 0.001)
    monkeypatch.setattr(clock, "measure", lambda: off)
    heartbeat.beat_once("web")
    assert Heartbeat.objects.get().clock_ahead_ms == 15_200


def test_beat_too_takes_its_heartbeat_along_when_it_ends(monkeypatch):
    """Celery has no signal for it: an alert of a beat that had ended stayed open until its row was stale."""
    begun, at_the_end = [], []
    monkeypatch.setattr(heartbeat, "start", lambda *roles, **_: begun.append(roles))
    monkeypatch.setattr(heartbeat.atexit, "register", at_the_end.append)
    heartbeat._beat_begins()
    assert begun == [(heartbeat.BEAT,)]
    assert at_the_end == [heartbeat.stop]
