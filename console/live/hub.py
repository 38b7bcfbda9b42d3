"""The hub of a web process: which topics its sockets watch, and one read of a topic for all of them.

It listens to the group `touched` for hints, reads a hinted topic at most four times a second, and every watched topic
each 20 s anyway; where no hint can reach it (the layer is deaf) it looks every two seconds. It only reads. It lives on
one event loop; the reads run in its own threads, so a slow database never blocks the loop. Who is read for next is the
business of `turns`; a topic whose read takes too long is read more and more seldom, and slows nobody else down.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

import structlog
from channels.layers import get_channel_layer
from django.db import InterfaceError, OperationalError

from console.live import snapshots
from console.live.readers import Reader
from console.live.snapshots import Snapshot
from console.live.topics import Topic
from console.live.turns import Turns, Wish
from kernel.database import reads
from kernel.live_hints import GROUP

MIN_GAP_SECONDS = 0.25  # at most four reads a second
MAX_GAP_SECONDS = 5.0
REST_FACTOR = 4  # a read that takes long is followed by four times that rest: never more than a fifth of a thread
LOOK_SECONDS = 20.0
DEAF_LOOK_SECONDS = 2.0
PROBE_SECONDS, DEAF_AFTER_SECONDS = 5.0, 12.0
FAILED_AGAIN_SECONDS = 2.0
READ_SECONDS = 2.0  # a topic's read that takes longer is ended
SLOW_SECONDS = 0.5  # and one that takes so long waits for the others that do
SLOW_AGAIN_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 60.0  # after a read was ended; doubled while it goes on
READERS = 3  # reads at once, each in a thread with a connection of its own
FOLLOWS = {"tasks": ("tasks", "stats"), "deliveries": ("deliveries", "stats")}  # a hint on one, a look at these

log = structlog.get_logger(__name__)


TOO_SLOW = (
    f"This takes longer than {READ_SECONDS:g} s to read, so it is shown late, or not at all. Filter by state, "
    "endpoint, kind or batch to see less of it sooner."
)
UNREADABLE = "The database cannot be read now; this view is stale."
OWN_FAULT = "This cannot be shown because of a fault of ours; the log of the web process has it as live_read_failed."


class Watcher(Protocol):
    """A socket: on whose account it reads, and what the hub tells it. Neither call may block or raise."""

    @property
    def account(self) -> str: ...

    def offer(self, snapshot: Snapshot) -> None: ...

    def complain(self, topic: str, code: str, detail: str) -> None: ...


@dataclass
class Watch:
    """One watched topic of this process."""

    topic: Topic
    watchers: dict[Watcher, str] = field(default_factory=dict)  # and their accounts
    unshown: set[Watcher] = field(default_factory=set)
    last: Snapshot | None = None
    due: float = 0.0
    began: float = 0.0
    took: float = 0.0
    too_slow: int = 0  # reads in a row that were ended
    is_reading: bool = False
    has_failed: bool = False

    @property
    def gap(self) -> float:
        if self.too_slow:
            return min(LONGEST_PAUSE_SECONDS, SLOW_AGAIN_SECONDS * 2.0 ** min(10, self.too_slow - 1))
        return min(MAX_GAP_SECONDS, max(MIN_GAP_SECONDS, REST_FACTOR * self.took))

    def wish(self) -> Wish:
        is_slow = bool(self.too_slow) or self.took > SLOW_SECONDS
        return Wish(set(self.watchers.values()), bool(self.unshown), is_slow, self.due)


class Hub:
    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: set[asyncio.Task[None]] = set()  # an event loop keeps only weak references
        self._heard = time.monotonic()
        self._turns = Turns(READERS)
        self._readers = [Reader(f"live-{number}") for number in range(READERS)]
        self._accounts: Counter[str] = Counter()
        self.reads = 0

    # What sockets call

    def watch(self, topic: Topic, watcher: Watcher) -> None:
        """Tell the watcher the topic's state now, and again whenever it changes."""
        watch = self._watches.setdefault(topic.name, Watch(topic))
        if watcher not in watch.watchers:
            watch.watchers[watcher] = watcher.account
            self._accounts[watcher.account] += 1
            self._turns.enter(watcher.account)
        if watch.last is not None:
            watcher.offer(watch.last)
        else:
            watch.unshown.add(watcher)
        if watch.too_slow:
            watcher.complain(topic.name, "query_too_slow", TOO_SLOW)
        self._expedite(watch)
        if not self._tasks:
            self._heard = time.monotonic()
            self._tasks = [asyncio.create_task(self._schedule()), asyncio.create_task(self._listen())]

    def leave(self, topic_name: str, watcher: Watcher) -> None:
        watch = self._watches.get(topic_name)
        if watch is None or watcher not in watch.watchers:
            return
        account = watch.watchers.pop(watcher)
        watch.unshown.discard(watcher)
        self._accounts[account] -= 1
        if not self._accounts[account]:
            del self._accounts[account]
            self._turns.forget(account)
        if not watch.watchers:
            del self._watches[topic_name]
        if not self._watches:
            self._rest()

    def _rest(self) -> None:
        """Nobody watches: no query, no connection, no subscription."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        for reader in self._readers:
            reader.rest()

    @property
    def is_deaf(self) -> bool:
        return time.monotonic() - self._heard > DEAF_AFTER_SECONDS

    # Hints

    def hint(self, topics: list[str]) -> None:
        """Look again, soon, at what these topics name."""
        names = set(topics)
        kinds = {kind for topic in topics for kind in FOLLOWS.get(topic, (topic,))}
        for watch in self._watches.values():
            if watch.topic.name in names or (watch.topic.object_id is None and watch.topic.kind in kinds):
                self._expedite(watch)

    def _expedite(self, watch: Watch) -> None:
        watch.due = min(watch.due, max(time.monotonic(), watch.began + watch.gap))
        self._wake.set()

    async def _listen(self) -> None:
        """Receive hints, for ever; a layer that fails is asked again, and `is_deaf` says so meanwhile."""
        while True:
            layer = get_channel_layer()
            if layer is None:
                return
            channel = None
            try:
                channel = await layer.new_channel("hub")
                await layer.group_add(GROUP, channel)
                await self._hear(layer, channel)
            except asyncio.CancelledError:
                if channel is not None:
                    with contextlib.suppress(Exception):
                        await asyncio.wait_for(layer.group_discard(GROUP, channel), 1)
                raise
            except Exception as error:  # noqa: BLE001 - the layer's client has its own errors; all mean: try again
                log.warning("live_layer_lost", error=type(error).__name__)
                await asyncio.sleep(2)

    async def _hear(self, layer: object, channel: str) -> None:
        """Silence is probed by a hint to ourselves: a layer that does not bring it back is deaf."""
        receiving: asyncio.Task[dict] | None = None
        try:
            while True:
                # A cancelled receive would give up the channel, so one that outlasts the probe's interval is kept.
                receiving = receiving or asyncio.create_task(layer.receive(channel))  # type: ignore[attr-defined]
                await asyncio.wait({receiving}, timeout=PROBE_SECONDS)
                if receiving.done():
                    message, receiving = receiving.result(), None
                    self._heard = time.monotonic()
                    self.hint(list(message.get("topics", ())))
                else:
                    probe = layer.group_send(GROUP, {"type": "touched", "topics": []})  # type: ignore[attr-defined]
                    await asyncio.wait_for(probe, PROBE_SECONDS)
        finally:
            if receiving is not None:
                receiving.cancel()

    # Reads

    async def _schedule(self) -> None:
        while True:
            now = time.monotonic()
            if self.is_deaf:
                for watch in self._watches.values():
                    watch.due = min(watch.due, watch.began + max(DEAF_LOOK_SECONDS, watch.gap))
            self._begin_reads(now)
            self._wake.clear()
            waiting = [watch.due for watch in self._watches.values() if not watch.is_reading and watch.due > now]
            soonest = min(waiting, default=now + 1)  # what is due already waits for a reader, whose end wakes us
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.01, min(1.0, soonest - time.monotonic())))

    def _begin_reads(self, now: float) -> None:
        while len(self._reading) < READERS:
            due = {id(wish): (wish, watch) for wish, watch in self._due(now)}
            chosen = self._turns.next(wish for wish, _ in due.values())
            if chosen is None:
                return
            wish, watch = due[id(chosen)]
            watch.is_reading, watch.began, watch.due = True, now, now + LOOK_SECONDS
            task = asyncio.create_task(self._read(watch, wish, self._turns.begin(wish)))
            self._reading.add(task)
            task.add_done_callback(self._read_ended)

    def _due(self, now: float) -> Iterator[tuple[Wish, Watch]]:
        return ((watch.wish(), watch) for watch in self._watches.values() if watch.due <= now and not watch.is_reading)

    def _read_ended(self, task: asyncio.Task[None]) -> None:
        self._reading.discard(task)
        self._wake.set()

    async def _read(self, watch: Watch, wish: Wish, account: str) -> None:
        began = time.monotonic()
        reader = self._readers.pop()
        try:
            self.reads += 1
            snapshot = await reader.run(READ_SECONDS, _read_in_thread, watch.topic)
        except Exception as error:  # noqa: BLE001 - the page must learn that what it shows is stale, whatever the cause
            self._failed(watch, error)
            return
        finally:
            self._readers.append(reader)
            if not self._watches:
                reader.rest()
            self._turns.end(wish, account)
            watch.took, watch.is_reading = time.monotonic() - began, False
        watch.unshown.clear()
        watch.too_slow = 0
        if snapshot is None:
            for watcher in list(watch.watchers):
                watcher.complain(watch.topic.name, "not_found", "There is nothing here that you may see.")
            return
        if watch.last is not None and snapshot.version <= watch.last.version:
            return
        watch.last, watch.has_failed = snapshot, False
        for watcher in list(watch.watchers):
            watcher.offer(snapshot)

    def _failed(self, watch: Watch, error: Exception) -> None:
        """Said to whoever watches, each time: a page that came meanwhile does not know it yet."""
        code, words = _told(error)
        watch.too_slow = watch.too_slow + 1 if code == "query_too_slow" else 0
        watch.due = time.monotonic() + (watch.gap if watch.too_slow else FAILED_AGAIN_SECONDS)
        watch.unshown.clear()
        if not watch.has_failed:
            fault = error if code == "internal_error" else None
            log.warning(
                "live_read_failed", topic=watch.topic.kind, code=code, error=type(error).__name__, exc_info=fault
            )
        watch.has_failed = True
        for watcher in list(watch.watchers):
            watcher.complain(watch.topic.name, code, words)


def _told(error: Exception) -> tuple[str, str]:
    """The reason word and the words for whoever watches."""
    if reads.is_too_slow(error):
        return "query_too_slow", TOO_SLOW
    if isinstance(error, OperationalError | InterfaceError):
        return "unavailable", UNREADABLE
    return "internal_error", OWN_FAULT


def _read_in_thread(topic: Topic) -> Snapshot | None:
    return snapshots.read(topic)


_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = WeakKeyDictionary()


def of_this_loop() -> Hub:
    """The hub of the running event loop; a web process has one of each."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
