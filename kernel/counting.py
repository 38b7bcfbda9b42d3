"""Counting rows where there may be millions: exactly up to a limit, beyond it "more than", or an estimate; and bytes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models import Func, IntegerField, QuerySet

LIMIT = 100_000


class OctetLength(Func):
    """Bytes of a binary column; known without reading it."""

    function = "octet_length"
    output_field = IntegerField()


@dataclass(frozen=True)
class Count:
    """How many there are; with `is_capped` at least so many."""

    number: int
    is_capped: bool = False

    @property
    def words(self) -> str:
        """For people: 812, or 10,000+."""
        return f"{self.number:,}{'+' if self.is_capped else ''}"


def capped(rows: QuerySet, most: int = LIMIT) -> Count:
    """Counts to `most`, and reads no row more: for what an index finds, or what is bounded already."""
    number = rows.order_by().values("pk")[: most + 1].count()
    return Count(min(number, most), number > most)


def by_value(rows: QuerySet, column: str, most: int = LIMIT) -> tuple[Mapping[Any, int], bool]:
    """How many of these have each value of a column, and whether the first `most` rows are all that was looked at.

    `rows` are what an index finds. Whoever narrows them by more than that narrows `among(rows)`.
    """
    found = among(rows, most).values_list(column).annotate(count=models.Count("pk"))
    counts = dict(found)
    return counts, sum(counts.values()) >= most and capped(rows, most).is_capped


def among(rows: QuerySet, most: int = LIMIT) -> QuerySet:
    """At most so many of these rows, to be narrowed further: whatever is asked of them then, no more are looked at."""
    return rows.model._base_manager.filter(pk__in=rows.order_by().values("pk")[:most]).order_by()


def count(rows: QuerySet, limit: int = LIMIT) -> tuple[int, bool]:
    """(number of rows, whether it is an estimate). Never reads more than `limit` rows that an index finds."""
    exact = rows.order_by().values("pk")[: limit + 1].count()
    if exact <= limit:
        return exact, False
    plan = json.loads(rows.order_by().values("pk").explain(format="json"))
    return max(limit, int(plan[0]["Plan"]["Plan Rows"])), True
