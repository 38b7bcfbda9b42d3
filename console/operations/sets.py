"""SQL by hand: the frozen set of an operation and the outcomes of its items, written a set at a time.

A million ids are a thousand rows of parts: written by one statement when the operation begins, handed out in id order,
and deleted as they are done. Everything here belongs into the transaction of whoever calls.
"""

from bisect import bisect_right
from collections.abc import Mapping

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

from console.models import OperationPart

PART = 1_000  # ids; 8 KB a row, so one part is one TOASTed read

_FREEZE = """
INSERT INTO console_operationpart (operation_id, last_id, ids)
SELECT %s, max(id), array_agg(id ORDER BY id)
FROM (SELECT id, (row_number() OVER (ORDER BY id) - 1) / %s AS part FROM ({rows}) AS wanted (id)) AS numbered
GROUP BY part
RETURNING last_id, cardinality(ids)
"""
_ITEMS = """
INSERT INTO console_operationitem (operation_id, object_id, outcome, detail, at)
SELECT %s, item.object_id, item.outcome, item.detail, statement_timestamp()
FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS item (object_id, outcome, detail)
"""


def freeze(operation_id: int, rows: QuerySet) -> tuple[int, int]:
    """Write down which rows are meant, as they are now. Returns how many there are, and the highest id."""
    try:
        wanted, parameters = rows.order_by().values("pk").query.sql_with_params()
    except EmptyResultSet:  # the filter can match nothing, and Django knows
        return 0, 0
    with connection.cursor() as cursor:
        cursor.execute(_FREEZE.format(rows=wanted), [operation_id, PART, *parameters])
        parts = cursor.fetchall()
    return sum(count for _, count in parts), max((last for last, _ in parts), default=0)


def next_ids(operation_id: int, after: int, most: int) -> list[int]:
    """The next ids of the set above `after`, in order; empty when all are done."""
    parts = OperationPart.objects.filter(operation_id=operation_id, last_id__gt=after)
    ids = parts.order_by("last_id").values_list("ids", flat=True).first() or []
    start = bisect_right(ids, after)
    return ids[start : start + most]


def forget(operation_id: int, up_to: int | None = None) -> None:
    """Parts that are done, or all that is left of them."""
    parts = OperationPart.objects.filter(operation_id=operation_id)
    (parts if up_to is None else parts.filter(last_id__lte=up_to)).delete()


def write_items(operation_id: int, outcomes: Mapping[int, tuple[str, str]]) -> None:
    """What became of each row: id → (outcome, detail)."""
    ids = list(outcomes)
    words, details = [outcomes[pk][0] for pk in ids], [outcomes[pk][1][:200] for pk in ids]
    with connection.cursor() as cursor:
        cursor.execute(_ITEMS, [operation_id, ids, words, details])
