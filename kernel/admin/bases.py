"""What all lists here share: no delete, no filter by hidden columns, no exact count of millions, exact search."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django.contrib.admin import ShowFacets
from django.db.models import DateField, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.utils.dateparse import parse_datetime

from kernel.admin.confirm import OneRowVerbs
from kernel.admin.lists import COUNTED, CappedPaginator, WindowedChangeList

LISTED_MOST = 50
# No filter of ours asks for them, and a year that no calendar has is an error of the database.
PARTS_OF_TIMES = frozenset(
    {"year", "iso_year", "month", "day", "week", "week_day", "iso_week_day", "quarter", "hour", "minute", "second"}
)


class ListedFiltersAdmin(OneRowVerbs):
    """A list is narrowed by what its filters offer and by `linked_columns` (which our own links use), by nothing else.

    Django lets `?payload__contains=…` narrow by any column of the model: a payload could be guessed letter by letter by
    somebody who may not see it.
    """

    linked_columns: tuple[str, ...] = ()
    paginator = CappedPaginator
    show_full_result_count = False
    list_per_page = LISTED_MOST
    list_max_show_all = 0
    show_facets = ShowFacets.NEVER  # they count every choice of every filter

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[WindowedChangeList]:
        return WindowedChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        if PARTS_OF_TIMES & set(lookup.split(LOOKUP_SEP)[1:]):
            return False
        column = lookup.split(LOOKUP_SEP)[0]
        if self._is_time(column) and not _is_in_calendar(value):
            return False
        columns = {field.name for field in self.model._meta.get_fields()}
        columns |= {field.attname for field in self.model._meta.concrete_fields}
        if column in columns - self._offered(request):
            return False
        return super().lookup_allowed(lookup, value, request)

    def _is_time(self, column: str) -> bool:
        return any(one.name == column for one in self.model._meta.fields if isinstance(one, DateField))

    def _offered(self, request: HttpRequest | None) -> set[str]:
        filters = self.list_filter if request is None else self.get_list_filter(request)
        names = [item[0] if isinstance(item, tuple | list) else item for item in filters]
        listed = {name.split(LOOKUP_SEP)[0] for name in names if isinstance(name, str)}
        simple = {item.parameter_name for item in names if not isinstance(item, str)}
        return listed | simple | set(self.linked_columns)


def _is_in_calendar(value: Any) -> bool:
    """Whether a text of a query is a time that stays one in UTC; the year 10,000 is an error of the database."""
    try:
        moment = parse_datetime(str(value))
        return moment is None or moment.astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


class KeptAdmin(ListedFiltersAdmin):
    """Rows that are never added, changed or deleted by hand."""

    list_fullwidth = True
    compressed_fields = True
    search_exact: tuple[str, ...] = ()  # indexed columns of text
    search_numbers: tuple[str, ...] = ("pk",)  # and of numbers

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return self.search_exact + self.search_numbers

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Exact, and each column by itself: one OR over columns of several tables is served by no index."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted: dict[str, Any] = dict.fromkeys(self.search_exact, term)
        if term.isascii() and term.isdigit() and len(term) < 19:
            wanted |= dict.fromkeys(self.search_numbers, int(term))
        found: set[int] = set()
        for column, value in wanted.items():
            rows = self.model._default_manager.filter(**{column: value}).order_by("-pk")
            found.update(rows.values_list("pk", flat=True)[: COUNTED + 1])
        return queryset.filter(pk__in=found), False
