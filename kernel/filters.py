"""The query of every API list: each name is known, each value means exactly what it says.

A filter that is misspelt, or left empty by a variable that was not set, must not answer with more rows than were asked
for. So an unknown name is a 400 with the known ones. An empty value means the rows where that text is empty (the
operators' own, for `subscriber`); of a filter that is no plain text it is a 400.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import django_filters
from django import forms
from django.db.models import CharField, QuerySet, TextField
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.request import Request

from kernel.api.problems import BadInput
from kernel.api.queries import LARGEST_ID, bad_field

PAGING = frozenset({"cursor", "limit", "format"})


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


def refuse_doubled(asked: Any, names: Iterable[str]) -> None:
    """BadInput for those of `names` that were given more than once: the last would win without a word."""
    doubled = sorted(name for name in {*names, *PAGING} if len(asked.getlist(name)) > 1)
    if doubled:
        words = "is given more than once; say it once."
        errors = [bad_field(name, f"It {words}", "doubled_filter") for name in doubled]
        raise BadInput(f"{doubled[0]} {words}", code="doubled_filter", errors=errors)


class _WholeNumberField(forms.CharField):
    def clean(self, value: Any) -> int | None:
        text = super().clean(value)
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= LARGEST_ID):
            raise forms.ValidationError(f"Use a whole number from 0 to {LARGEST_ID}.", code="not_a_number")
        return int(text)


class WholeNumberFilter(django_filters.NumberFilter):
    """A number in digits; django-filter's own cuts 1.7 to 1."""

    field_class = _WholeNumberField

    def get_max_validator(self) -> None:
        """The field's own bound is enough."""


class _TrueFalseField(forms.CharField):
    def clean(self, value: Any) -> bool | None:
        text = super().clean(value).lower()
        if text not in _TRUE_FALSE:
            raise forms.ValidationError("Use true or false.", code="not_a_choice")
        return _TRUE_FALSE[text]


_TRUE_FALSE = {"": None, "true": True, "1": True, "false": False, "0": False}


class TrueFalseFilter(django_filters.BooleanFilter):
    """`true` or `false`; django-filter's own takes every other word for no filter at all, which is more rows."""

    field_class = _TrueFalseField


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
        refuse_doubled(request.query_params, [name for name, one in known.items() if not _takes_several(one)])
        blank = [name for name, values in given.items() if any(not value.strip() for value in values)]
        exact = {name for name in blank if given[name] == [""] and _is_plain_text(known[name], queryset)}
        refuse_empty(blank, {name: "" for name in blank if name not in exact})
        rows = super().filter_queryset(request, queryset, view)
        return rows.filter(**{str(known[name].field_name): "" for name in exact})

    def _filters(self, request: Request, queryset: QuerySet, view: Any) -> dict[str, django_filters.Filter]:
        filterset = self.get_filterset(request, queryset, view)
        return {} if filterset is None else dict(filterset.filters)


def _takes_several(one: django_filters.Filter) -> bool:
    return isinstance(one, django_filters.MultipleChoiceFilter)


def _is_plain_text(one: django_filters.Filter, queryset: QuerySet) -> bool:
    """A column of text, compared as a whole: it may be empty in some rows, and those can be asked for."""
    if type(one) is not django_filters.CharFilter or one.method is not None or one.lookup_expr != "exact":
        return False
    model, column = queryset.model, None
    for name in str(one.field_name).split("__"):
        column = model._meta.get_field(name)
        model = column.related_model or model
    return isinstance(column, CharField | TextField)
