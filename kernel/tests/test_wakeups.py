"""Wake-ups: after commit, few, and never in the caller's way."""

import threading
import time

import pytest
from django.db import transaction

from kernel import wakeups
from kernel.wakeups import Wakeups

DRAIN = "delivery.drain"


class Broker:
    def __init__(self, seconds: float = 0.0, fails: bool = False) -> None:
        self.sent: list[dict] = []
        self.seconds, self.fails = seconds, fails

    def send_task(self, name: str, **options: object) -> None:
        time.sleep(self.seconds)
        if self.fails:
            raise OSError("refused")
        self.sent.append({"name": name, **options})


@pytest.fixture
def use(monkeypatch, settings):
    settings.CELERY_BROKER_URL = "memory://"

    def use_broker(broker: Broker) -> Wakeups:
        monkeypatch.setattr(wakeups, "current_app", broker)
        return Wakeups(wakeups.publish, "wake")

    return use_broker


def test_a_thousand_wake_ups_are_few_messages(use):
    broker = Broker()
    waker = use(broker)
    ends = time.monotonic() + 0.2
    while time.monotonic() < ends:
        waker.ring(DRAIN)
    time.sleep(0.1)
    assert 2 <= len(broker.sent) <= 7
    assert broker.sent[0]["name"] == "delivery.drain" and broker.sent[0]["expires"] <= 10


def test_a_sick_broker_slows_nobody_and_raises_nothing(use, monkeypatch):
    monkeypatch.setattr(wakeups, "FAILED_PAUSE_SECONDS", 0.01)
    waker = use(Broker(seconds=0.2, fails=True))
    started = time.monotonic()
    for _ in range(1000):
        waker.ring(DRAIN)
    assert time.monotonic() - started < 0.1
    assert any(thread.name == "wake" and thread.daemon for thread in threading.enumerate())


@pytest.mark.django_db(transaction=True)
def test_nobody_is_woken_before_the_commit_or_after_a_rollback(monkeypatch):
    woken: list[int] = []
    monkeypatch.setattr(wakeups._wakeups, "ring", lambda _name: woken.append(1))
    with transaction.atomic():
        wakeups.after_commit(DRAIN)
        assert not woken
    assert woken == [1]
    with transaction.atomic():
        wakeups.after_commit(DRAIN)
        transaction.set_rollback(True)
    assert woken == [1]


def test_what_a_short_lived_process_rang_still_goes_out(use):
    broker = Broker(seconds=0.1)
    waker = use(broker)
    waker.ring(DRAIN)
    assert broker.sent == []
    waker.let_out(5)
    assert len(broker.sent) == 1


def test_nobody_waits_long_for_a_sick_broker_at_the_end(use):
    waker = use(Broker(seconds=5))
    waker.ring(DRAIN)
    started = time.monotonic()
    waker.let_out(0.1)
    assert time.monotonic() - started < 2
