"""SQL: locks that no row has, for what must be counted before it is added to. Held until the transaction ends."""

from django.db import connection


def one_at_a_time(what: str, whose: str) -> None:
    """Wait for others who do `what` (a word of ours) for the same `whose`. Needs a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{what}\x1f{whose}"])
