"""What really goes to PostgreSQL: counted on the wire, since our cursors pass Django's query log by."""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg.pq
from django.db import connection

STATEMENT = re.compile(r'F\t\d+\t(?:Execute|Query)\t(?: "(?!BEGIN|COMMIT|SAVEPOINT|RELEASE|SET |DEALLOCATE)| "" \d)')


@dataclass
class Sent:
    """`statements` is known when the block has ended."""

    statements: int = 0


@contextlib.contextmanager
def counted() -> Iterator[Sent]:
    """Count the statements of Django's connection, whoever sends them, by libpq's own trace (`PQtrace`).

    Not counted are the brackets of a transaction and what a session does once for itself (SET, DEALLOCATE).
    """
    connection.ensure_connection()
    sent = Sent()
    with tempfile.TemporaryFile("w+") as log:
        pgconn = connection.connection.pgconn
        pgconn.trace(log.fileno())
        pgconn.set_trace_flags(psycopg.pq.Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield sent
        finally:
            pgconn.untrace()
        log.seek(0)
        sent.statements = sum(bool(STATEMENT.match(line)) for line in log)
