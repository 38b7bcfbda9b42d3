"""The one clock of the task side: the database's, asked in SQL, so that hosts agree on what is due."""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    """The database's time at this moment (not the transaction's start)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
