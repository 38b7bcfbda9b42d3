"""The hub of a web process: which topics its sockets watch, and one read of a topic for all of them.

It listens to the group `touched` for hints, reads a hinted topic at most four times a second, and every watched topic
each 20 s anyway; where no hint can reach it (the layer is deaf) it looks every two seconds. It only reads. It lives on
one event loop; the reads run in its own threads, so a slow database never blocks the loop.
"""

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

import structlog
from channels.layers import get_channel_layer
from django.db import close_old_connections, connection

from console.live import snapshots
from console.live.snapshots import Snapshot
from console.live.topics import Topic
from kernel.live_hints import GROUP

MIN_GAP_SECONDS = 0.25  # at most four reads a second
MAX_GAP_SECONDS = 5.0
REST_FACTOR = 4  # a read that takes long is followed by four times that rest: never more than a fifth of a thread
LOOK_SECONDS = 20.0
DEAF_LOOK_SECONDS = 2.0
PROBE_SECONDS, DEAF_AFTER_SECONDS = 5.0, 12.0
FAILED_AGAIN_SECONDS = 2.0
READERS = 2
FOLLOWS = {"tasks": ("tasks", "stats"), "deliveries": ("deliveries", "stats")}  # a hint on one, a look at these

log = structlog.get_logger(__name__)


class Watcher(Protocol):
    """What the hub tells a socket. Neither call may block or raise."""

    def offer(self, snapshot: Snapshot) -> None: ...

    def complain(self, topic: str, code: str, detail: str) -> None: ...


@dataclass
class Watch:
    """One watched topic of this process."""

    topic: Topic
    watchers: set[Watcher] = field(default_factory=set)
    last: Snapshot | None = None
    due: float = 0.0
    began: float = 0.0
    took: float = 0.0
    is_reading: bool = False
    has_failed: bool = False

    @property
    def gap(self) -> float:
        return min(MAX_GAP_SECONDS, max(MIN_GAP_SECONDS, REST_FACTOR * self.took))


class Hub:
    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: set[asyncio.Task[None]] = set()  # an event loop keeps only weak references
        self._heard = time.monotonic()
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="live")
        self.reads = 0

    # What sockets call

    def watch(self, topic: Topic, watcher: Watcher) -> None:
        """Tell the watcher the topic's state now, and again whenever it changes."""
        watch = self._watches.setdefault(topic.name, Watch(topic))
        watch.watchers.add(watcher)
        if watch.last is not None:
            watcher.offer(watch.last)
        self._expedite(watch)
        if not self._tasks:
            self._heard = time.monotonic()
            self._tasks = [asyncio.create_task(self._schedule()), asyncio.create_task(self._listen())]

    def leave(self, topic_name: str, watcher: Watcher) -> None:
        watch = self._watches.get(topic_name)
        if watch is None:
            return
        watch.watchers.discard(watcher)
        if not watch.watchers:
            del self._watches[topic_name]
        if not self._watches:
            self._rest()

    def _rest(self) -> None:
        """Nobody watches: no thread, no query, no subscription."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []

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
            for watch in list(self._watches.values()):
                if watch.due <= now and not watch.is_reading:
                    watch.is_reading, watch.began, watch.due = True, now, now + LOOK_SECONDS
                    task = asyncio.create_task(self._read(watch))
                    self._reading.add(task)
                    task.add_done_callback(self._reading.discard)
            self._wake.clear()
            soonest = min((watch.due for watch in self._watches.values() if not watch.is_reading), default=now + 1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.01, min(1.0, soonest - time.monotonic())))

    async def _read(self, watch: Watch) -> None:
        began = time.monotonic()
        try:
            self.reads += 1
            snapshot = await asyncio.get_running_loop().run_in_executor(self._threads, _read_in_thread, watch.topic)
        except Exception as error:  # noqa: BLE001 - the page must learn that what it shows is stale, whatever the cause
            self._failed(watch, error)
            return
        finally:
            watch.took, watch.is_reading = time.monotonic() - began, False
            self._wake.set()
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
        watch.due = time.monotonic() + FAILED_AGAIN_SECONDS
        if not watch.has_failed:
            log.warning("live_read_failed", topic=watch.topic.kind, error=type(error).__name__)
        watch.has_failed = True
        for watcher in list(watch.watchers):
            watcher.complain(watch.topic.name, "unavailable", "The database cannot be read now; this view is stale.")


def _read_in_thread(topic: Topic) -> Snapshot | None:
    close_old_connections()
    try:
        return snapshots.read(topic)
    finally:
        connection.close()


_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = WeakKeyDictionary()


def of_this_loop() -> Hub:
    """The hub of the running event loop; a web process has one of each."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
