"""The one clock of the task side: the database's, so that hosts with other clocks agree on what is due."""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    """The database's time at this moment (not the transaction's start)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
