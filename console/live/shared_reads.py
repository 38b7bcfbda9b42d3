"""Snapshot reads shared between requests: many pages that poll one topic at once cost one read each quarter second."""

import time

from console.live import snapshots
from console.live.snapshots import Snapshot
from console.live.topics import Topic

FRESH_SECONDS = 0.25
KEPT = 500

_recent: dict[str, tuple[float, Snapshot]] = {}


def read(topic: Topic) -> Snapshot | None:
    """As `snapshots.read`, at most a quarter second old."""
    at, snapshot = _recent.get(topic.name, (0.0, None))
    if snapshot is not None and time.monotonic() - at < FRESH_SECONDS:
        return snapshot
    fresh = snapshots.read(topic)
    if len(_recent) >= KEPT:
        _recent.clear()
    if fresh is not None:
        _recent[topic.name] = (time.monotonic(), fresh)
    return fresh
