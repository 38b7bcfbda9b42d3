"""Heartbeats: every process says each ten seconds that it is alive, in one small upsert from a thread of its own.

Web processes start theirs when the server starts (`config.asgi`), workers and beat by Celery's start signals. A row
that stops moving is how the start page, the alerts and `/readyz` know of a death. It must never raise into the process,
nor wait for the process's pool: one that is busy is not dead.
"""

import atexit
import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog
from celery.signals import beat_init, worker_ready, worker_shutdown
from django.db import close_old_connections, connection
from django.db.models import Max
from django.db.models.functions import Now

from console.health.known_keys import as_roles
from console.models import Heartbeat
from kernel import clock
from kernel.database.reads import use_own_connection

INTERVAL_SECONDS = 10.0
FRESH = timedelta(seconds=35)  # three missed beats and a little
KEPT = timedelta(days=1)
DELIVERY, TASKS, BEAT, WEB = "delivery", "tasks", "beat", "web"
SCHEDULE = "schedule"  # beat's tick arrived at a worker: beat, broker and worker all do their part
EVALUATOR = "alerts"  # the alert rules were looked at

NEED_NO_KEY = (BEAT, SCHEDULE, EVALUATOR)  # they read no secret

log = structlog.get_logger(__name__)


def beat_once(*roles: str, process: str | None = None) -> None:
    """Write that this process lives in these roles, by the database's clock, and how far its host's is off."""
    name = process or f"{socket.gethostname()}:{os.getpid()}"
    ahead = None if process else round(clock.measure().ahead_seconds * 1000)
    rows = [
        Heartbeat(role=role, process=f"{role}@{name}"[:120], seen_at=Now(), started_at=Now(), clock_ahead_ms=ahead)
        for role in roles
    ]
    Heartbeat.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["process"], update_fields=["seen_at", "clock_ahead_ms"]
    )


def forget(*roles: str) -> None:
    """A process that ends in order takes its row along, so that nobody waits for it to go stale."""
    name = f"{socket.gethostname()}:{os.getpid()}"
    Heartbeat.objects.filter(process__in=[f"{role}@{name}"[:120] for role in roles]).delete()


def fresh_counts() -> dict[str, int]:
    """How many processes of each role were seen lately."""
    counts: dict[str, int] = {}
    for role in Heartbeat.objects.filter(seen_at__gte=Now() - FRESH).order_by().values_list("role", flat=True):
        counts[role] = counts.get(role, 0) + 1
    return counts


def clocks_off() -> list[tuple[str, float]]:
    """(`role@host:pid`, seconds ahead) of living processes whose host's clock is further off than it may be."""
    most = round(clock.OFF_SECONDS * 1000)
    rows = Heartbeat.objects.filter(seen_at__gte=Now() - FRESH, clock_ahead_ms__isnull=False)
    rows = rows.exclude(clock_ahead_ms__range=(-most, most)).order_by("process")
    return [(process, (ms or 0) / 1000) for process, ms in rows.values_list("process", "clock_ahead_ms")]


def last_seen(role: str) -> Any:
    """When any process of the role was last seen; None if never."""
    return Heartbeat.objects.filter(role=role).aggregate(last=Max("seen_at"))["last"]


def sweep() -> None:
    Heartbeat.objects.filter(seen_at__lt=Now() - KEPT).delete()


class Pulse:
    """The thread. `also` is called at each beat, for the little watching that a process does beside its work."""

    def __init__(self, *roles: str, also: Callable[[], None] | None = None) -> None:
        self.roles, self.also = roles, also
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> "Pulse":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=3)

    def _run(self) -> None:
        while True:
            self._guarded(lambda: beat_once(*self.roles))
            if self.also is not None:
                self._guarded(self.also)
            if self._stop.wait(INTERVAL_SECONDS):
                break
        self._guarded(lambda: forget(*self.roles))

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            use_own_connection()
            close_old_connections()
            step()
        except Exception as error:  # noqa: BLE001 - a database that is away must not end the watching
            log.warning("heartbeat_missed", roles=list(self.roles), error=type(error).__name__)
        finally:
            connection.close()


_pulse: Pulse | None = None


def start(*roles: str, also: Callable[[], None] | None = None) -> None:
    """Begin to beat for this process; a second call does nothing."""
    global _pulse
    if _pulse is None and roles:
        _pulse = Pulse(*roles, *as_roles(), also=also).start()


def stop() -> None:
    global _pulse
    if _pulse is not None:
        _pulse.stop()
        _pulse = None


@worker_ready.connect
def _worker_is_ready(sender: Any = None, **_kwargs: Any) -> None:
    queues = set(sender.app.amqp.queues.consume_from) if sender is not None else set()
    roles = [role for role in (DELIVERY, TASKS) if role in queues]
    start(*(roles or ["worker"]))


@worker_shutdown.connect
def _worker_ends(**_kwargs: Any) -> None:
    stop()


@beat_init.connect
def _beat_begins(**_kwargs: Any) -> None:
    start(BEAT)
    atexit.register(stop)  # Celery tells of no end of beat
