"""Wake-ups: after commit, few, and never in the caller's way."""

import threading
from collections.abc import Iterator

import pytest
from django.db import transaction

from kernel import wakeups
from kernel.wakeups import Wakeups

DRAIN = "delivery.drain"
SECONDS = 10  # far longer than anything here takes


class Broker:
    """Takes messages, or fails, or keeps whoever publishes waiting while it `is_open` no longer."""

    def __init__(self) -> None:
        self.sent: list[dict] = []
        self.publishers: list[threading.Thread] = []
        self.fails = False
        self.is_open, self.was_called = threading.Event(), threading.Event()
        self.is_open.set()

    def send_task(self, name: str, **options: object) -> None:
        self.publishers.append(threading.current_thread())
        self.was_called.set()
        assert self.is_open.wait(3 * SECONDS)
        if self.fails:
            raise OSError("refused")
        self.sent.append({"name": name, **options})


@pytest.fixture
def broker(monkeypatch, settings) -> Broker:
    settings.CELERY_BROKER_URL = "memory://"
    standing = Broker()
    monkeypatch.setattr(wakeups, "current_app", standing)
    return standing


@pytest.fixture
def waker(broker) -> Iterator[Wakeups]:
    fresh = Wakeups(wakeups.publish, "wake-under-test")
    yield fresh
    broker.is_open.set()
    fresh.let_out(SECONDS)  # nothing of it goes to the next test's broker


def hold(broker: Broker, waker: Wakeups) -> None:
    """Have one wake-up on its way, and the broker not answer."""
    broker.is_open.clear()
    waker.ring(DRAIN)
    assert broker.was_called.wait(SECONDS)


def test_a_wake_up_is_a_message_that_is_good_for_two_looks_of_beat(broker, waker):
    waker.ring(DRAIN)
    waker.let_out(SECONDS)
    options = {"expires": 10, "at_most": 100, "retry": False, "ignore_result": True}
    assert broker.sent == [{"name": "delivery.drain", **options}]


def test_what_rings_while_one_is_on_its_way_is_one_message_more(broker, waker):
    hold(broker, waker)
    for _ in range(1000):
        waker.ring(DRAIN)
    broker.is_open.set()
    waker.let_out(SECONDS)
    assert len(broker.sent) == 2


def test_every_name_that_was_rung_goes_out(broker, waker):
    hold(broker, waker)
    for name in ("b", "a", "b"):
        waker.ring(name)
    broker.is_open.set()
    waker.let_out(SECONDS)
    assert [message["name"] for message in broker.sent] == [DRAIN, "a", "b"]


def test_a_broker_that_hangs_keeps_no_caller(broker, waker):
    hold(broker, waker)
    for _ in range(1000):
        waker.ring(DRAIN)
    assert broker.sent == []  # it hangs still, and we are through
    assert len(broker.publishers) == 1
    assert broker.publishers[0] is not threading.current_thread() and broker.publishers[0].daemon


def test_a_broker_that_fails_raises_nothing_and_gets_the_next_one(broker, waker, monkeypatch):
    monkeypatch.setattr(wakeups, "FAILED_PAUSE_SECONDS", 0.01)
    broker.fails = True
    waker.ring(DRAIN)
    waker.let_out(SECONDS)
    assert len(broker.publishers) == 1 and broker.sent == []
    broker.fails = False
    waker.ring(DRAIN)
    waker.let_out(SECONDS)
    assert len(broker.sent) == 1 and len(set(broker.publishers)) == 1


@pytest.mark.django_db(transaction=True)
def test_nobody_is_woken_before_the_commit_or_after_a_rollback(monkeypatch):
    woken: list[str] = []
    monkeypatch.setattr(wakeups._wakeups, "ring", woken.append)
    with transaction.atomic():
        wakeups.after_commit(DRAIN)
        assert not woken
    assert woken == [DRAIN]
    with transaction.atomic():
        wakeups.after_commit(DRAIN)
        transaction.set_rollback(True)
    assert woken == [DRAIN]


def test_what_a_short_lived_process_rang_still_goes_out(broker, waker):
    hold(broker, waker)
    threading.Timer(0.1, broker.is_open.set).start()
    waker.let_out(SECONDS)
    assert len(broker.sent) == 1


def test_nobody_waits_for_a_broker_that_hangs_at_the_end(broker, waker):
    hold(broker, waker)
    waker.let_out(0.1)
    assert broker.sent == [] and not broker.is_open.is_set()


def test_a_process_that_never_rang_waits_for_nothing(broker, waker):
    waker.let_out()
    assert broker.publishers == []
