"""Partitions of the attempts' table, in SQL: one for each UTC day, made ahead of time and dropped when old.

A day without a partition loses nothing: its rows go to the default partition and are moved when the day's is made.
It must never wait long for a lock: attempts are being written while it works.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import structlog
from django.db import OperationalError, connection, transaction

DAYS_AHEAD = 14
TABLE = "delivery_attempt"
LOCK_TIMEOUT = "2s"
_ADVISORY_KEY = 0x52545031  # one maker at a time
_NAME = re.compile(rf"{TABLE}_(\d{{8}})")

log = structlog.get_logger(__name__)


def ensure(*, now: datetime, days_ahead: int = DAYS_AHEAD) -> list[str]:
    """Make the partitions of today and the days ahead that are missing; returns their names.

    A lock that cannot be had in two seconds leaves a day for the next call.
    """
    today = now.astimezone(UTC).date()
    wanted = [today + timedelta(days=ahead) for ahead in range(-1, days_ahead + 1)]
    missing = [day for day in wanted if day not in standing()]
    made = [_name(day) for day in missing if _make(day)]
    if made:
        log.info("attempt_partitions_made", count=len(made), last=made[-1])
    return made


def standing() -> set[date]:
    """Days that have a partition."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = 'delivery_attempt'::regclass"
        )
        names = [row[0] for row in cursor.fetchall()]
    return {_day(match[1]) for name in names if (match := _NAME.fullmatch(name))}


def drop_before(day: date) -> list[str]:
    """Drop the partitions of days before `day`, and older rows of the default partition; returns their names."""
    dropped = [_name(old) for old in sorted(standing()) if old < day and _drop(old)]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM delivery_attempt_default WHERE started_at < %s", [_start(day)])
    if dropped:
        log.info("attempt_partitions_dropped", count=len(dropped), last=dropped[-1])
    return dropped


def _make(day: date) -> bool:
    """Made apart and attached, so that readers and writers are shut out for a moment only."""
    name = _name(day)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            _lock(cursor)
            if day in standing():
                return False
            cursor.execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
            _move_from_default(cursor, name, day)
            cursor.execute(
                f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM (%s) TO (%s)",
                [_start(day), _start(day + timedelta(days=1))],
            )
    except OperationalError as error:
        log.warning("attempt_partition_postponed", partition=name, error=type(error).__name__)
        return False
    return True


def _move_from_default(cursor: object, name: str, day: date) -> None:
    cursor.execute(  # type: ignore[attr-defined]
        f"WITH moved AS (DELETE FROM {TABLE}_default WHERE started_at >= %s AND started_at < %s RETURNING *) "  # noqa: S608
        f"INSERT INTO {name} SELECT * FROM moved",
        [_start(day), _start(day + timedelta(days=1))],
    )


def _drop(day: date) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            _lock(cursor)
            cursor.execute(f"DROP TABLE IF EXISTS {_name(day)}")
    except OperationalError as error:
        log.warning("attempt_partition_kept", partition=_name(day), error=type(error).__name__)
        return False
    return True


def _lock(cursor: object) -> None:
    cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")  # type: ignore[attr-defined]
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ADVISORY_KEY])  # type: ignore[attr-defined]


def _name(day: date) -> str:
    return f"{TABLE}_{day:%Y%m%d}"


def _day(digits: str) -> date:
    return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))


def _start(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
