"""Counting rows where there may be millions: exactly up to a limit, beyond it the planner's estimate."""

import json

from django.db.models import QuerySet

LIMIT = 100_000


def count(rows: QuerySet, limit: int = LIMIT) -> tuple[int, bool]:
    """(number of rows, whether it is an estimate). Never reads more than `limit` rows."""
    exact = rows.order_by().values("pk")[: limit + 1].count()
    if exact <= limit:
        return exact, False
    plan = json.loads(rows.order_by().values("pk").explain(format="json"))
    return max(limit, int(plan[0]["Plan"]["Plan Rows"])), True
