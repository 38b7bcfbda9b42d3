"""Counting: rows where there may be millions, exactly up to a limit and then as the planner thinks; bytes, in words."""

import json

from django.db.models import Func, IntegerField, QuerySet

LIMIT = 100_000


class OctetLength(Func):
    """Bytes of a binary column; known without reading it."""

    function = "octet_length"
    output_field = IntegerField()


def count(rows: QuerySet, limit: int = LIMIT) -> tuple[int, bool]:
    """(number of rows, whether it is an estimate). Never reads more than `limit` rows."""
    exact = rows.order_by().values("pk")[: limit + 1].count()
    if exact <= limit:
        return exact, False
    plan = json.loads(rows.order_by().values("pk").explain(format="json"))
    return max(limit, int(plan[0]["Plan"]["Plan Rows"])), True


def size(count: float) -> str:
    """Bytes, exact, in the largest unit that they are a whole number of: "1 MiB", "320 KiB", "1,000 bytes"."""
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{int(count // unit):,} {name}"
    return f"{int(count):,} bytes"
