"""The hub with viewers that differ in appetite: nobody waits for another's topics, and a slow read slows itself only.

What is read is a stand-in; how many reads were made is counted, no clock is measured.
"""

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError

from console.live import hub, readers
from console.live.hub import Hub
from console.live.snapshots import Snapshot
from console.live.topics import parse


class Screen:
    """A socket: what it was shown, and what it was told."""

    def __init__(self, account):
        self.account = account
        self.shown, self.told = [], []
        self.news = asyncio.Event()

    def offer(self, snapshot):
        self.shown.append(snapshot.topic)
        self.news.set()

    def complain(self, topic, code, detail):
        self.told.append((topic, code, detail))
        self.news.set()


@pytest.fixture
def books(monkeypatch):
    """Which topics were read, in order; reads are held until `go` is set."""
    kept = Books()
    monkeypatch.setattr(hub, "_read_in_thread", kept.read)
    monkeypatch.setattr(hub, "get_channel_layer", lambda: None)
    monkeypatch.setattr(readers, "_read", lambda _seconds, work, args: work(*args))
    monkeypatch.setattr(readers, "_close", lambda: None)
    return kept


class Books:
    def __init__(self):
        self.reads, self.go, self.failing = [], threading.Event(), {}
        self.go.set()

    def read(self, topic):
        self.reads.append(topic.name)
        self.go.wait(10)
        if topic.name in self.failing:
            raise self.failing[topic.name]
        return Snapshot(topic.name, len(self.reads), None, "{}", str(len(self.reads)))


async def until_shown(screen, topic):
    async with asyncio.timeout(10):
        while topic not in screen.shown:
            await screen.news.wait()
            screen.news.clear()


def canceled():
    error = OperationalError("canceling statement due to statement timeout")
    error.__cause__ = type("QueryCanceled", (Exception,), {"sqlstate": "57014"})()
    return error


def test_a_viewer_with_1500_topics_costs_another_a_handful_of_reads(books):
    books.go.clear()

    async def play():
        own, greedy, other = Hub(), Screen("greedy"), Screen("other")
        for number in range(1_500):
            own.watch(parse(f"task:{number + 1}"), greedy)
        await asyncio.sleep(0.05)  # all readers that one viewer may have are busy
        own.watch(parse("batch:1"), other)
        await asyncio.sleep(0.05)
        books.go.set()
        await until_shown(other, "batch:1")
        before = books.reads.index("batch:1")
        for number in range(1_500):
            own.leave(f"task:{number + 1}", greedy)
        own.leave("batch:1", other)
        return before

    assert async_to_sync(play)() <= hub.READERS


def test_a_topic_that_takes_too_long_is_told_and_slows_no_other(books, monkeypatch):
    monkeypatch.setattr(hub, "MIN_GAP_SECONDS", 0.0)
    books.failing["deliveries"] = canceled()

    async def play():
        own, screen = Hub(), Screen("one")
        own.watch(parse("deliveries"), screen)
        own.watch(parse("batch:1"), screen)
        await until_shown(screen, "batch:1")
        for _ in range(20):
            own.hint(["deliveries", "batch:1"])
            await asyncio.sleep(0.01)
        watch = own._watches["deliveries"]
        gaps = [watch.gap]
        watch.too_slow = 20
        gaps.append(watch.gap)
        late = Screen("two")
        own.watch(parse("deliveries"), late)
        for who, name in ((screen, "deliveries"), (late, "deliveries"), (screen, "batch:1")):
            own.leave(name, who)
        return screen, late, gaps

    screen, late, gaps = async_to_sync(play)()
    assert screen.told == [("deliveries", "query_too_slow", hub.TOO_SLOW)]
    assert late.told == screen.told  # at once, not after the pause
    assert books.reads.count("deliveries") == 1
    assert books.reads.count("batch:1") > 3
    assert gaps == [hub.SLOW_AGAIN_SECONDS, hub.LONGEST_PAUSE_SECONDS]


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OperationalError("gone"), "unavailable", hub.UNREADABLE),
        (AttributeError("a fault of ours"), "internal_error", hub.OWN_FAULT),
    ],
)
def test_a_fault_of_ours_is_not_told_as_a_database_that_is_away(books, error, code, words):
    books.failing["batch:1"] = error

    async def play():
        own, screen = Hub(), Screen("one")
        own.watch(parse("batch:1"), screen)
        async with asyncio.timeout(10):
            await screen.news.wait()
        own.leave("batch:1", screen)
        return screen.told

    assert async_to_sync(play)() == [("batch:1", code, words)]
