"""The servers and the clocks: PostgreSQL and what ails it, broker, channel layer, beat. SQL: version."""

from django.conf import settings
from django.db import connection

from console.health import checks as health
from console.health import database, heartbeat
from console.health.checks import Check
from console.health.doctor.findings import named
from kernel import clock

LEAST_POSTGRESQL = 150_000


def postgresql() -> Check:
    version = connection.cursor().connection.info.server_version
    words = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    if version < LEAST_POSTGRESQL:
        return Check("postgresql_version", False, f"{words} is too old; use 15 or later.")
    return Check("postgresql_version", True, words)


def own_clock() -> Check:
    ahead = clock.measure().ahead_seconds
    if abs(ahead) > 2:
        words = f"This machine's clock is {health.ahead_words(ahead)} of the database's. Synchronise both with NTP."
        return Check("clock", False, words)
    return Check("clock", True, f"within {abs(ahead) * 1000:.0f} ms of the database's")


def process_clocks() -> Check:
    off = [f"{process} ({health.ahead_words(seconds)})" for process, seconds in heartbeat.clocks_off()]
    if off:
        words = f"Off the database's clock: {named(off)}. Synchronise these hosts with NTP."
        return Check("process_clocks", False, words)
    return Check("process_clocks", True, "every living process's is near the database's")


def snapshots() -> Check:
    held = database.oldest_snapshot()
    if held is None or held.age.total_seconds() < 300:
        return Check("held_snapshot", True, "no session holds an old snapshot")
    return Check("held_snapshot", False, f"{held.what} ({held.age.total_seconds():.0f} s). End it: {held.remedy}")


def broker() -> Check:
    if not settings.CELERY_BROKER_URL:
        return Check("broker", False, "CELERY_BROKER_URL is not set, so nobody wakes a worker. Set it on every host.")
    return health.broker()


def channel_layer() -> Check:
    if not settings.CHANNEL_LAYER_URL:
        words = "CHANNEL_LAYER_URL is not set, so the live pages only poll. Set it on every host."
        return Check("channel_layer", False, words)
    return health.channel_layer()


def schedule() -> Check:
    """Beat's last tick, by the database's clock: it came to a worker, so beat, broker and worker all did their part."""
    last = heartbeat.last_seen(heartbeat.SCHEDULE)
    age = None if last is None else max(0.0, (clock.now() - last).total_seconds())
    if age is None or age > heartbeat.FRESH.total_seconds():
        came = "none has come yet" if age is None else f"the last one came {_ago(age)}"
        words = f"Beat's ticks do not reach a worker: {came}. Is beat up, and a worker on the queue `default`?"
        return Check("schedule", False, words)
    return Check("schedule", True, f"beat's last tick reached a worker {_ago(age)}")


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7_200 else f"{seconds / 3600:.0f} h ago"
