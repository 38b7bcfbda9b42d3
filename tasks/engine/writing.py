"""Write rows as a set, whatever differs among them: one guarded UPDATE, one INSERT. SQL: the INSERT of rows alike."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, models
from django.db.models import Case, Expression, Value, When
from django.db.models.functions import Cast


def update_rows(queryset: models.QuerySet[Any], rows: Sequence[models.Model], names: Iterable[str]) -> int:
    """Store the named fields of `rows` where `queryset`'s conditions still hold; returns how many rows were written.

    A value that all rows share becomes one constant; only what differs costs a CASE.
    """
    assigned = {name: _assignment(queryset.model, rows, name) for name in names}
    return queryset.filter(pk__in=[row.pk for row in rows]).update(**assigned)


def _assignment(model: type[models.Model], rows: Sequence[models.Model], name: str) -> Any:
    field = model._meta.get_field(name)
    values = [getattr(row, field.attname) for row in rows]  # type: ignore[union-attr]
    if all(value is None for value in values):
        return None
    if all(value == values[0] and type(value) is type(values[0]) for value in values[1:]):
        return values[0]
    whens = [When(pk=row.pk, then=_value(value, field)) for row, value in zip(rows, values, strict=True)]
    return Cast(Case(*whens, output_field=field), output_field=field)  # type: ignore[arg-type]


def _value(value: Any, field: Any) -> Expression:
    # A None under a JSONField would be stored as JSON's null; SQL's NULL is meant.
    return Value(None) if value is None else Value(value, output_field=field)


def insert_alike(sample: models.Model, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Store a row for each of `rows`, which say what differs from `sample`, all of them of the same columns.

    Returns their ids, rising in the order given. What differs goes over as one JSON document: ten thousand rows cost
    one statement and no adaptation of a value, where an object each would cost more than the database itself.
    """
    columns, values, parameters = [], [], []
    for field in type(sample)._meta.local_concrete_fields:
        if field.primary_key or field.generated:
            continue
        columns.append(connection.ops.quote_name(str(field.column)))  # a name may be a word of SQL's
        kind = re.sub(r"\(.*\)", "", str(field.db_type(connection)))  # with its length a cast would cut in silence
        if field.attname in rows[0]:
            arrow = "->" if isinstance(field, models.JSONField) else "->>"
            values.append(f"(one.said {arrow} '{field.attname}')::{kind}")
        else:
            values.append(f"%s::{kind}")
            parameters.append(field.get_db_prep_save(field.pre_save(sample, add=True), connection))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {sample._meta.db_table} ({', '.join(columns)}) SELECT {', '.join(values)}"  # noqa: S608
            " FROM jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS one(said, place) ORDER BY one.place RETURNING id",
            [*parameters, json.dumps(rows, ensure_ascii=False, separators=(",", ":"))],
        )
        return sorted(row[0] for row in cursor.fetchall())
