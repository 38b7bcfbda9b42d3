"""How the engine runs its SQL: on Django's connection, prepared. The statements are in the modules that call this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from django.db import connection

PREPARE_AFTER = 3


def cursor() -> psycopg.Cursor[Any]:
    """A plain psycopg cursor on Django's connection: binds on the server and prepares, unlike Django's own.

    Planning these statements takes as long as running them, and their shape leaves the planner no choice: so they are
    prepared after a few runs, and planned once. Behind PgBouncer in transaction mode that needs its
    `max_prepared_statements` (1.21 or later).
    """
    connection.ensure_connection()
    standing = connection.connection
    if standing.prepare_threshold is None:
        standing.prepare_threshold = PREPARE_AFTER
        standing.execute("SET plan_cache_mode = force_generic_plan")
    return psycopg.Cursor(standing)


def execute(sql: str, parameters: Any = None) -> psycopg.Cursor[Any]:
    """Run one statement; errors come as Django's, as from any other query."""
    with connection.wrap_database_errors:
        return cursor().execute(sql, parameters, binary=True)


def literal(values: Iterable[Any]) -> str:
    """An array of numbers, uuids or plain words as PostgreSQL writes it; much cheaper than adapting a list."""
    return "{" + ",".join(map(str, values)) + "}"
