"""The clock of the house: the database's, carried on by this process's monotonic clock. SQL: reads the time.

Hosts disagree; a time that is stored, or compared with a stored one, must not depend on who wrote it. So the database
is asked once in ten seconds (where a connection is made anyway, and at each heartbeat), and in between the answer is
carried on by the monotonic clock, which no setting of the host's clock moves. Asking costs no query and works without a
connection. What this says never runs ahead of the database: a row due "now" is due there too. It must never be used for
measuring how long something took (`time.monotonic`), nor for leases: those are written in SQL, or by the moment that
`tasks.engine.clock` asks for.

Before the database has answered for the first time the host's clock stands in: nothing can be stored then.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError, connection, models
from django.db.backends.signals import connection_created

FRESH_SECONDS = 10.0  # after that the next connection that is made brings a new reading
SAMPLES = 3  # the quickest of them counts: a thread that had to wait would read the database's clock too early
OFF_SECONDS = 5.0  # a host's clock further off than that is told of


@dataclass(frozen=True)
class Reading:
    """The database's time at a moment of our monotonic clock, and how far the host's clock was ahead of it then."""

    database: datetime
    monotonic: float
    ahead_seconds: float
    round_trip_seconds: float

    def time_at(self, monotonic: float) -> datetime:
        return self.database + timedelta(seconds=monotonic - self.monotonic)


_lock = threading.Lock()
_reading: Reading | None = None


def now() -> datetime:
    """The database's time, in UTC."""
    reading = _reading or _first()
    return datetime.now(UTC) if reading is None else reading.time_at(time.monotonic())


def measure() -> Reading:
    """Ask the database now. Raises what the connection raises."""
    connection.ensure_connection()
    return _measure(connection.connection)


def _measure(raw: Any) -> Reading:
    global _reading
    # Below Django: this is nobody's query, and it must not wait for a transaction's end nor be counted in one.
    reading = min((_sample(raw) for _ in range(SAMPLES)), key=lambda one: one.round_trip_seconds)
    with _lock:
        _reading = reading
    return reading


def _sample(raw: Any) -> Reading:
    began = time.monotonic()
    host = datetime.now(UTC)
    with raw.cursor() as cursor:
        moment: datetime = cursor.execute("SELECT clock_timestamp()").fetchone()[0].astimezone(UTC)
    ended = time.monotonic()
    half = timedelta(seconds=(ended - began) / 2)
    return Reading(moment, ended, (host + half - moment).total_seconds(), ended - began)


def _first() -> Reading | None:
    try:
        return measure()
    except Exception:  # noqa: BLE001 - no database, or none that may be asked from here: see the module's docstring
        return None


def _read_along(connection: Any, **_kwargs: Any) -> None:
    """A connection was made: take a new reading with it where the last one is no longer fresh."""
    reading = _reading
    if connection.alias != "default" or (reading and time.monotonic() - reading.monotonic < FRESH_SECONDS):
        return
    try:
        _measure(connection.connection)
    except DatabaseError:  # whoever wanted the connection will learn what ails it
        return


connection_created.connect(_read_along, dispatch_uid="kernel.clock")


class _ByTheClock(models.DateTimeField):
    """`auto_now` and `auto_now_add` by this clock instead of the host's. To migrations it is a plain DateTimeField."""

    clock: Callable[[], datetime] = staticmethod(now)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        if self.auto_now or (self.auto_now_add and add):
            setattr(model_instance, self.attname, self.clock())
            return getattr(model_instance, self.attname)
        return models.Field.pre_save(self, model_instance, add)

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


class CreatedAt(_ByTheClock):
    """When the row was made."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"auto_now_add": True, **options})


class UpdatedAt(_ByTheClock):
    """When the row was saved last."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"auto_now": True, **options})
