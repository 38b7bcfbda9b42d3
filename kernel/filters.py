"""The query of every API list: each name is known, each value means exactly what it says.

A filter that is misspelt, or left empty by a variable that was not set, must not answer with more rows than were asked
for. So an unknown name is a 400 with the known ones. An empty value means the rows where that text is empty (the
operators' own, for `subscriber`); of a filter that is no plain text it is a 400.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import django_filters
from django.db.models import CharField, QuerySet, TextField
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request

from kernel.api.problems import BadInput

PAGING = frozenset({"cursor", "limit", "format"})


def bad_field(name: str, detail: str, code: str = "invalid") -> dict[str, str]:
    return {"field": name, "code": code, "detail": detail}


def refuse_unknown(asked: Iterable[str], known: Collection[str]) -> None:
    """BadInput for the names that nothing here is called."""
    unknown = sorted(set(asked) - set(known))
    if unknown:
        words = f"There is no such filter; use {', '.join(sorted(known))}."
        errors = [bad_field(name, words, "unknown_filter") for name in unknown]
        raise BadInput(f"{unknown[0]}: {words}", code="unknown_filter", errors=errors)


def refuse_empty(names: Iterable[str], asked: Mapping[str, str]) -> None:
    """BadInput for those of `names` that were given without a value."""
    empty = sorted(name for name in names if name in asked and not asked[name].strip())
    if empty:
        words = "is empty; leave it out, or say which."
        errors = [bad_field(name, f"It {words}", "empty_filter") for name in empty]
        raise BadInput(f"{empty[0]} {words}", code="empty_filter", errors=errors)


class ExactFilters(DjangoFilterBackend):
    """Lists only: one object is found by its id, whatever the query says. A view's `query_words` are known too."""

    def filter_queryset(self, request: Request, queryset: QuerySet, view: Any) -> QuerySet:
        if getattr(view, "detail", False):
            if request.method == "GET" and getattr(view, "action", "") != "retrieve":
                refuse_unknown(request.query_params, PAGING)  # a list that hangs on one object
            return queryset
        known = self._filters(request, queryset, view)
        refuse_unknown(request.query_params, known.keys() | PAGING | getattr(view, "query_words", frozenset()))
        given = {name: request.query_params.getlist(name) for name in known}
        blank = [name for name, values in given.items() if any(not value.strip() for value in values)]
        exact = {name for name in blank if given[name] == [""] and _is_plain_text(known[name], queryset)}
        refuse_empty(blank, {name: "" for name in blank if name not in exact})
        rows = super().filter_queryset(request, queryset, view)
        return rows.filter(**{str(known[name].field_name): "" for name in exact})

    def _filters(self, request: Request, queryset: QuerySet, view: Any) -> dict[str, django_filters.Filter]:
        filterset = self.get_filterset(request, queryset, view)
        return {} if filterset is None else dict(filterset.filters)


def _is_plain_text(one: django_filters.Filter, queryset: QuerySet) -> bool:
    """A column of text, compared as a whole: it may be empty in some rows, and those can be asked for."""
    if type(one) is not django_filters.CharFilter or one.method is not None or one.lookup_expr != "exact":
        return False
    model, column = queryset.model, None
    for name in str(one.field_name).split("__"):
        column = model._meta.get_field(name)
        model = column.related_model or model
    return isinstance(column, CharField | TextField)
