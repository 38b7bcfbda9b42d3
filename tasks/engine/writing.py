"""Write changed rows back as a set: one guarded UPDATE for a group of rows, whatever differs among them."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import models
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
