"""`touched(topics)`: tell the live pages, after commit, that something they may show has changed.

A hint only: the pages read the truth from PostgreSQL, and look again every 20 s anyway. Topics are collected in the
process and sent four times a second by one thread, so a burst of changes costs one message, and a sick channel layer
can neither slow nor fail the work that called. It must never raise and never send from inside a transaction.
"""

import asyncio
import os
import threading

import structlog
from channels.layers import get_channel_layer
from django.db import transaction

GROUP = "touched"
INTERVAL_SECONDS = 0.25
SEND_TIMEOUT_SECONDS = 5.0
MAX_TOPICS = 2_000  # beyond it single objects wait for the 20 s look; the collections are always told

log = structlog.get_logger(__name__)


class Messenger:
    """Collects topics and sends the set from a thread with an event loop of its own."""

    def __init__(self) -> None:
        self._topics: set[str] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._pid = 0

    def add(self, topics: tuple[str, ...]) -> None:
        with self._lock:
            self._topics.update(topics)
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._run, name="touched", daemon=True).start()
        self._wake.set()

    def take(self) -> list[str]:
        with self._lock:
            topics, self._topics = self._topics, set()
        if len(topics) <= MAX_TOPICS:
            return sorted(topics)
        return sorted(topic for topic in topics if ":" not in topic)

    def _run(self) -> None:
        loop = asyncio.new_event_loop()
        while True:
            self._wake.wait()
            self._wake.clear()
            topics = self.take()
            if topics:
                loop.run_until_complete(self._send(topics))
            loop.run_until_complete(asyncio.sleep(INTERVAL_SECONDS))

    async def _send(self, topics: list[str]) -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        try:
            async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
                await layer.group_send(GROUP, {"type": "touched", "topics": topics})
        except Exception as error:  # noqa: BLE001 - whatever ails the layer, the work goes on and the pages poll
            log.warning("live_hint_lost", topics=len(topics), error=type(error).__name__)


_messenger = Messenger()


def touched(*topics: str) -> None:
    """After the current transaction commits (now, if there is none), hint that these topics changed."""
    transaction.on_commit(lambda: _messenger.add(topics), robust=True)
