"""A bound on what a read costs: seconds for each statement and for all together; a connection apart. SQL: a setting.

`at_most` is for reads only: whatever it ends has changed nothing. PostgreSQL ends the statement itself, so an answer
that nobody waits for any more keeps no core busy. Must never be set around a write.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

QUERY_CANCELED = "57014"
KEPT_SECONDS = 60  # an own connection that is used is renewed after so long


class ReadTooSlow(OperationalError):
    """The reads of one page or topic took longer together than they may."""


@dataclass(frozen=True)
class Budget:
    """`ends_at` is of the monotonic clock."""

    seconds: float
    ends_at: float

    @property
    def milliseconds(self) -> int:
        return max(1, round(self.seconds * 1000))


_budget: ContextVar[Budget | None] = ContextVar("read_budget", default=None)
_MARK = "_roundtrip_statement_timeout"  # on the driver's connection, which outlives Django's in the pool


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Each statement within takes at most so long, and none begins after so long; 0 is no limit."""
    if seconds <= 0:
        yield
        return
    watch_connections()
    token = _budget.set(Budget(seconds, time.monotonic() + seconds))
    try:
        yield
    finally:
        _budget.reset(token)


def is_too_slow(error: BaseException) -> bool:
    """Whether a budget ended this read."""
    cause = error.__cause__ or error
    return isinstance(error, ReadTooSlow) or getattr(cause, "sqlstate", None) == QUERY_CANCELED


def watch_connections() -> None:
    """From now on every connection of this process keeps to budgets; where none was ever set, nothing is done."""
    connection_created.connect(_watch, dispatch_uid="kernel.database.reads")
    _watch(connection=connection)


def _watch(*, connection: Any, **_: Any) -> None:
    if _keep not in connection.execute_wrappers:
        connection.execute_wrappers.append(_keep)


def _keep(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    budget = _budget.get()
    if budget is not None and time.monotonic() > budget.ends_at:
        raise ReadTooSlow(f"The reads took longer than {budget.seconds:g} s together.")
    _set(context["connection"], budget.milliseconds if budget else 0)
    return execute(sql, params, many, context)


def _set(own: Any, milliseconds: int) -> None:
    """Tell PostgreSQL, unless it knows. What it is told in a transaction it may forget with that: it is told again."""
    raw = own.connection
    known, in_transaction = getattr(raw, _MARK, (0, False))
    if known == milliseconds and not (in_transaction and not own.in_atomic_block):
        return
    is_broken = raw.info.transaction_status == TransactionStatus.INERROR  # it takes a rollback and nothing else
    if is_broken or own.needs_rollback or own.closed_in_transaction:
        return
    with own.wrap_database_errors:
        raw.execute(f"SET statement_timeout = {milliseconds:d}")
    setattr(raw, _MARK, (milliseconds, own.in_atomic_block))


def use_own_connection() -> None:
    """This thread's connection is not one of the process's pool, now and later: it takes none from anybody."""
    options = connection.settings_dict["OPTIONS"]
    if "pool" in options:
        connection.close()
        apart = {name: value for name, value in options.items() if name != "pool"}
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": apart, "CONN_MAX_AGE": KEPT_SECONDS}
