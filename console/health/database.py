"""What PostgreSQL says of itself, in its own SQL: who holds an old snapshot, so that dead rows stay. Reads only."""

from dataclasses import dataclass
from datetime import timedelta

from django.db import connection

# backend_xmin is what keeps VACUUM back, whatever the session does; slots and prepared transactions do it without one.
OLDEST = """
SELECT kind, name, age FROM (
    SELECT 'session' AS kind, pid::text AS name, clock_timestamp() - xact_start AS age
      FROM pg_stat_activity
     WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
       AND datname = current_database() AND backend_type = 'client backend'
    UNION ALL
    SELECT 'prepared transaction', gid, clock_timestamp() - prepared FROM pg_prepared_xacts
     WHERE database = current_database()
) AS held ORDER BY age DESC LIMIT 1
"""


@dataclass(frozen=True)
class HeldSnapshot:
    """The oldest one: how old, what it is in words, and the statement that ends it."""

    age: timedelta
    what: str
    remedy: str


def oldest_snapshot() -> HeldSnapshot | None:
    with connection.cursor() as cursor:
        cursor.execute(OLDEST)
        row = cursor.fetchone()
    if row is None:
        return None
    kind, name, age = row
    if kind == "session":
        return HeldSnapshot(age, f"Session {name} has had a transaction open all that time", _end_session(name))
    return HeldSnapshot(age, f"The prepared transaction {name} was never finished", "ROLLBACK PREPARED with that name.")


def _end_session(pid: str) -> str:
    return f"SELECT pg_terminate_backend({int(pid)});"
