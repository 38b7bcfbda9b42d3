"""The database's time, asked at this very moment: what the task side writes into leases. SQL: reads the time.

Beside `kernel.clock`, and for one reason. That one carries the database's last answer on and may be behind it, by half
a round trip or, after a suspend, by ten seconds; a lease written from it would end that much too early, and another
worker would take the task while it runs. The delivery side writes its leases in SQL (`clock_timestamp()`); here one
moment is needed for the row, its transition and its event together, so it is asked for: one query. Where no lease or
due time is written use `kernel.clock`. Must never read a host's clock.
"""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    """The database's time at this moment (not the transaction's start)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment
