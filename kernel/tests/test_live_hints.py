"""Hints go out after commit, together, and never hurt the work that gave them."""

import asyncio
import os
import queue
import threading
import uuid
from collections.abc import Iterator

import pytest
from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import transaction

from kernel import live_hints as module
from kernel.live_hints import MAX_TOPICS, Messenger, touched

SECONDS = 10  # what is on its way arrives at once, or never


class Listener:
    """What another process hears by the real layer: one list of topics for each message."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._heard: queue.Queue[list[str]] = queue.Queue()
        self._is_ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._listening = self._loop.create_task(self._listen())
        threading.Thread(target=self._run, daemon=True).start()
        assert self._is_ready.wait(SECONDS)

    def next(self) -> list[str]:
        return self._heard.get(timeout=SECONDS)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._listening.cancel)

    def _run(self) -> None:
        with pytest.raises(asyncio.CancelledError):
            self._loop.run_until_complete(self._listening)

    async def _listen(self) -> None:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(self._group, channel)
        self._is_ready.set()
        while True:
            message = await layer.receive(channel)
            assert message["type"] == "touched"
            self._heard.put(message["topics"])


@pytest.fixture
def heard(monkeypatch) -> Iterator[Listener]:
    """In a group of its own: other tests tell their hints through the same server at the same time."""
    group = f"touched-{uuid.uuid4().hex}"
    monkeypatch.setattr(module, "GROUP", group)
    listener = Listener(group)
    yield listener
    listener.end()


@pytest.fixture
def messenger(monkeypatch) -> Messenger:
    """A process's messenger that has sent nothing yet, in the place of ours."""
    fresh = Messenger()
    monkeypatch.setattr(module, "_messenger", fresh)
    return fresh


@pytest.fixture
def told(monkeypatch) -> list[tuple[str, ...]]:
    topics: list[tuple[str, ...]] = []
    monkeypatch.setattr(module._messenger, "add", topics.append)
    return topics


@pytest.mark.django_db(transaction=True)
def test_nothing_is_told_before_commit_nor_after_rollback(told):
    with transaction.atomic():
        touched("task:1")
        assert told == []
    assert told == [("task:1",)]
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        touched("task:2")
        1 / 0  # noqa: B018
    assert told == [("task:1",)]


@pytest.mark.django_db(transaction=True)
def test_another_process_hears_what_was_committed_and_nothing_of_what_was_not(messenger, heard):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        touched("task:1")
        1 / 0  # noqa: B018
    with transaction.atomic():
        touched("task:2", "stats")
    assert heard.next() == ["stats", "task:2"]


@pytest.mark.django_db(transaction=True)
def test_a_thousand_hints_are_one_message_from_one_thread(messenger, heard, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 2.0)
    senders, real = [], module.get_channel_layer

    def noted() -> RedisPubSubChannelLayer:
        senders.append(threading.current_thread())
        return real()

    monkeypatch.setattr(module, "get_channel_layer", noted)
    touched("first")
    assert heard.next() == ["first"]  # at once; now it gathers for the interval
    for number in range(1000):
        touched(f"task:{number % 20}", "stats")
    assert heard.next() == sorted([*{f"task:{number}" for number in range(20)}, "stats"])
    assert len(senders) == 2 and len(set(senders)) == 1
    assert senders[0].daemon and senders[0] is not threading.current_thread()


def test_a_flood_keeps_the_collections_and_drops_single_objects(messenger, heard):
    messenger.add((*(f"delivery:{number}" for number in range(MAX_TOPICS)), "deliveries", "stats"))
    assert heard.next() == ["deliveries", "stats"]
    messenger.add(("delivery:1",))
    assert heard.next() == ["delivery:1"]


def test_as_many_as_are_allowed_are_all_told(messenger, heard):
    messenger.add(tuple(f"delivery:{number}" for number in range(MAX_TOPICS)))
    assert len(heard.next()) == MAX_TOPICS


def test_a_worker_that_was_forked_off_tells_too(messenger, heard):
    messenger.add(("before",))
    assert heard.next() == ["before"]
    pid = os.fork()
    if pid == 0:  # the child has the messenger, and not its thread
        messenger.add(("task:7",))
        threading.Event().wait(SECONDS)
        os._exit(0)
    try:
        assert heard.next() == ["task:7"]
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_after_a_dead_layer_the_next_hint_goes_out(messenger, heard, monkeypatch):
    is_lost, real = threading.Event(), module.get_channel_layer

    def dead() -> RedisPubSubChannelLayer:
        is_lost.set()
        return RedisPubSubChannelLayer(hosts=["redis://127.0.0.1:1/0"])

    monkeypatch.setattr(module, "get_channel_layer", dead)
    messenger.add(("task:1",))
    assert is_lost.wait(SECONDS)
    monkeypatch.setattr(module, "get_channel_layer", real)
    messenger.add(("task:2",))
    assert heard.next() == ["task:2"]


def test_a_layer_that_hangs_keeps_no_caller(messenger, heard, monkeypatch):
    is_asked, is_over, real = threading.Event(), threading.Event(), module.get_channel_layer

    def hangs():
        is_asked.set()
        is_over.wait(SECONDS)
        return real()

    monkeypatch.setattr(module, "get_channel_layer", hangs)
    messenger.add(("task:1",))
    assert is_asked.wait(SECONDS)
    messenger.add(("task:2",))  # and again, with the first still hanging
    assert not is_over.is_set()
    is_over.set()
    assert [heard.next(), heard.next()] == [["task:1"], ["task:2"]]
