"""Endpoints and events for a bench, made by the product's own verbs, and the wait until all of it is delivered.

Import only after `servers.set_up_django()`. SQL stands here only where a bench needs millions of rows as scenery.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.utils import timezone

from bench.harness.receiving import Receiver
from delivery import endpoints, events
from delivery.engine.wake import wake
from delivery.models import Endpoint

BODY_BYTES = 700
EVENT_TYPE = "bench.happened"
CHUNK = 1_000
# One message wakes one worker, and they are published at most every 50 ms: enough for all, as a stream of events is.
WAKES, WAKE_GAP_SECONDS, BEAT_SECONDS = 4, 0.06, 5.0
TABLES = (
    "delivery_attempt, delivery_delivery, delivery_event, delivery_endpointhealth, delivery_latencybucket, "
    "delivery_statsminute, delivery_endpoint"
)


@dataclass(slots=True)
class Target:
    """An endpoint of the bench: its subscriber has no other."""

    pk: int
    subscriber: str
    path: str
    secret: str


def make_endpoints(receiver: Receiver, count: int, path: str = "/ok", **values: object) -> list[Target]:
    """So many endpoints, each with a subscriber of its own, as an operator would make them."""
    targets = []
    for number in range(count):
        where = f"{path}/{number}"
        subscriber = f"bench{path.replace('/', '-')}-{number}"
        made = endpoints.create(
            actor="bench", reason="a benchmark", url=f"{receiver.url}{where}", subscriber=subscriber, **values
        )
        targets.append(Target(made.pk, subscriber, where, made.secret))
    return targets


def secrets_of(targets: Iterable[Target]) -> dict[str, str]:
    return {target.path: target.secret for target in targets}


def new_event(subscriber: str, number: int, uid: str | None = None) -> events.NewEvent:
    """An event whose payload is as long as BODY_BYTES says."""
    return events.NewEvent(EVENT_TYPE, {"n": number, "note": _PADDING[len(str(number)) :]}, subscriber, uid, _AT)


_AT = datetime.fromisoformat("2026-01-01T00:00:00.000001+00:00")
_BARE = len(events.payload_bytes(EVENT_TYPE, _AT, {"n": 0, "note": ""}))
_PADDING = "x" * (BODY_BYTES - _BARE + 1)


def record(targets: list[Target], count: int) -> float:
    """Record so many events in turn for these endpoints; returns the seconds it took."""
    began = time.perf_counter()
    for start in range(0, count, CHUNK):
        numbers = range(start, min(count, start + CHUNK))
        events.record_many([new_event(targets[n % len(targets)].subscriber, n) for n in numbers])
    return time.perf_counter() - began


def hold() -> None:
    """Pause every endpoint, so that what is recorded waits for `release`."""
    Endpoint.objects.update(paused_at=timezone.now())


def release() -> datetime:
    """Let everything go and wake the workers; returns the database's moment just before."""
    began = database_now()
    Endpoint.objects.update(paused_at=None)
    for _ in range(WAKES):
        wake()
        time.sleep(WAKE_GAP_SECONDS)
    return began


def database_now() -> datetime:
    return _one("SELECT clock_timestamp()")


def wait_delivered(receiver: Receiver, count: int, seconds: float) -> None:
    """Until so many requests came and nothing is left to do. RuntimeError with what is left when it takes too long.

    Meanwhile the workers are woken every five seconds, which is beat's part.
    """
    deadline = time.monotonic() + seconds
    until(lambda: receiver.count() >= count, deadline, 0.1)
    until(lambda: not unfinished(), deadline, 0.02)


def until(is_so: Callable[[], bool], deadline: float, every: float) -> None:
    beat_at = time.monotonic() + BEAT_SECONDS
    while not is_so():
        now = time.monotonic()
        if now > deadline:
            raise RuntimeError(f"it took too long; the deliveries stand so: {states()}")
        if now > beat_at:
            wake()
            beat_at = now + BEAT_SECONDS
        time.sleep(every)


def unfinished() -> bool:
    """Whether something is due, waits or is in the air. Asked by index, so that asking costs nothing."""
    return _one(
        "SELECT EXISTS (SELECT 1 FROM delivery_delivery WHERE state = 'in_flight') "
        "OR EXISTS (SELECT 1 FROM delivery_delivery WHERE state IN ('pending', 'failed'))"
    )


def states() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT state, count(*) FROM delivery_delivery GROUP BY state")
        return dict(cursor.fetchall())


def last_delivered_at() -> datetime:
    return _one("SELECT max(delivered_at) FROM delivery_delivery")


def attempts() -> int:
    return _one("SELECT count(*) FROM delivery_attempt")


def forget_all() -> None:
    """An empty delivery side."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")


def settle_down(*tables: str) -> None:
    """Statistics and a checkpoint, so that no contestant pays for what was there before it."""
    with connection.cursor() as cursor:
        for table in tables or ("delivery_event", "delivery_delivery", "delivery_endpoint", "delivery_endpointhealth"):
            cursor.execute(f"VACUUM ANALYZE {table}")
        cursor.execute("CHECKPOINT")


def _one(sql: str, parameters: list[object] | None = None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or [])
        return cursor.fetchone()[0]


def is_durable() -> dict[str, str]:
    """The settings without which a figure would be none."""
    return {
        name: _one(f"SHOW {name}") for name in ("synchronous_commit", "fsync", "full_page_writes", "server_version")
    }
