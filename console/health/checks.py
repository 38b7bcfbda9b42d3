"""`/healthz`: this process answers. `/readyz`: all it needs answers too, each check in words. SQL: `SELECT 1`.

Open to anybody, so no check may name a host, an address or a secret, and the whole look is cached for half a second.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLong
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse

from console.health import heartbeat
from kernel import clock

PATIENCE_SECONDS = 3.0
CACHE_SECONDS = 0.5


@dataclass(frozen=True)
class Check:
    """One thing looked at: whether it is well, and what to know or do."""

    name: str
    is_ok: bool
    words: str


def database() -> Check:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, OSError):
        return Check("database", False, "PostgreSQL cannot be reached. Start it, or correct DATABASE_URL.")
    return Check("database", True, "reachable")


_migrated = threading.Event()


def migrations() -> Check:
    """Once all are applied they stay applied for this code, so a good answer is remembered."""
    if not _migrated.is_set():
        try:
            executor = MigrationExecutor(connection)
            missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        except (DatabaseError, OSError):
            return Check("migrations", False, "unknown while PostgreSQL cannot be reached.")
        if missing:
            return Check("migrations", False, f"{missing} not applied. Run `manage.py migrate`.")
        _migrated.set()
    return Check("migrations", True, "all applied")


def broker() -> Check:
    return _within_patience("broker", _ask_broker, "Celery's broker", "CELERY_BROKER_URL")


def _ask_broker() -> None:
    from celery import current_app

    with current_app.connection_for_write(connect_timeout=2) as link:
        link.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=2)


def channel_layer() -> Check:
    return _within_patience("channel_layer", _ask_layer, "the live pages' channel layer", "CHANNEL_LAYER_URL")


def _ask_layer() -> None:
    async def ask() -> None:
        layer = get_channel_layer()
        if layer is None:
            raise OSError("no channel layer")
        await layer.group_send("readyz", {"type": "readyz"})

    async_to_sync(ask)()


_asking = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readyz")


def _within_patience(name: str, ask: Callable[[], None], what: str, variable: str) -> Check:
    try:
        _asking.submit(ask).result(timeout=PATIENCE_SECONDS)
    except TooLong:
        return Check(name, False, f"{what} does not answer. Is it up, and is {variable} right?")
    except Exception:  # noqa: BLE001 - each client has its own tree of errors, and all mean the same here
        return Check(name, False, f"{what} cannot be reached. Start it, or correct {variable}.")
    return Check(name, True, "reachable")


PROCESSES = (
    (heartbeat.DELIVERY, "delivery worker", "celery -A config worker -P threads -c 1 -Q delivery"),
    (heartbeat.TASKS, "tasks worker", "celery -A config worker -P threads -c 4 -Q tasks,default"),
    (heartbeat.BEAT, "beat", "celery -A config beat -S django"),
)


def processes() -> list[Check]:
    try:
        alive = heartbeat.fresh_counts()
    except (DatabaseError, OSError):
        alive = {}
    checks = []
    for role, what, command in PROCESSES:
        count = alive.get(role, 0)
        words = f"{count} alive" if count else f"No {what} has been seen lately. Start one: {command}"
        checks.append(Check(f"{role}_process", bool(count), words))
    return checks


def clocks() -> Check:
    """Told and no reason to be out of service: work goes on by the database's clock. The alert names the host."""
    try:
        off = heartbeat.clocks_off()
    except (DatabaseError, OSError):
        return Check("clocks", True, "unknown while PostgreSQL cannot be reached")
    if not off:
        return Check("clocks", True, f"all within {clock.OFF_SECONDS:g} s of the database's")
    worst = max((seconds for _process, seconds in off), key=abs)
    who = "1 process is" if len(off) == 1 else f"{len(off)} processes are"
    return Check("clocks", True, f"The clock of {who} {ahead_words(worst)}. The alert clock_off names the host.")


def ahead_words(seconds: float) -> str:
    """Such as "15 s ahead" or "1 h behind"."""
    size = abs(seconds)
    amount = f"{size:.0f} s" if size < 120 else f"{size / 60:.0f} min" if size < 7_200 else f"{size / 3600:.1f} h"
    return f"{amount} {'ahead' if seconds > 0 else 'behind'}"


def look() -> list[Check]:
    """All checks, now."""
    return [database(), migrations(), broker(), channel_layer(), *processes(), clocks()]


_cached: tuple[float, list[Check]] = (0.0, [])
_lock = threading.Lock()


def look_at_most_twice_a_second() -> list[Check]:
    global _cached
    with _lock:
        at, checks = _cached
        if not checks or time.monotonic() - at > CACHE_SECONDS:
            checks = look()
            _cached = (time.monotonic(), checks)
        return checks


def healthz(request: HttpRequest) -> JsonResponse:
    """200 while the process answers at all."""
    return JsonResponse({"status": "alive"})


def readyz(request: HttpRequest) -> JsonResponse:
    """200 when everything that this process needs is there, 503 with the reasons otherwise."""
    checks = look_at_most_twice_a_second()
    ready = all(check.is_ok for check in checks)
    body = {
        "status": "ready" if ready else "not_ready",
        "checks": {check.name: {"ok": check.is_ok, "detail": check.words} for check in checks},
    }
    response = JsonResponse(body, status=200 if ready else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # Django would call a start that is under way an error
    return response
