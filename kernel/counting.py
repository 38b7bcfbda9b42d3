"""Counting rows where there may be millions: exactly up to a limit, then "more than" or an estimate; bytes."""

import json
from dataclasses import dataclass

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


def capped(rows: QuerySet, most: int | None = None) -> Count:
    """Counts to `most` (`LIMIT`), and reads no row more: for what an index finds, or what is bounded already."""
    most = LIMIT if most is None else most
    number = rows.order_by().values("pk")[: most + 1].count()
    return Count(min(number, most), number > most)


def among(rows: QuerySet, most: int | None = None) -> QuerySet:
    """At most so many (`LIMIT`) of these rows, to be narrowed further: no more are looked at, whatever is asked."""
    few = rows.order_by().values("pk")[: LIMIT if most is None else most]
    return rows.model._base_manager.filter(pk__in=few).order_by()


def count(rows: QuerySet) -> tuple[int, bool]:
    """(number of rows, whether it is an estimate). Never reads more than `LIMIT` rows that an index finds."""
    exact = capped(rows)
    return (max(exact.number, estimate(rows)), True) if exact.is_capped else (exact.number, False)


def estimate(rows: QuerySet) -> int:
    """What the planner expects; it reads none of them."""
    plan = json.loads(rows.order_by().values("pk").explain(format="json"))
    return int(plan[0]["Plan"]["Plan Rows"])


def size(count: float) -> str:
    """Bytes, exact, in the largest unit that they are a whole number of: "1 MiB", "320 KiB", "1,000 bytes"."""
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{int(count // unit):,} {name}"
    return f"{int(count):,} bytes"
