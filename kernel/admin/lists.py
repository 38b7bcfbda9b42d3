"""How the admin's lists read: so many rows are counted, so many looked through, and the page says where it stopped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import AllValuesFieldListFilter
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from unfold.views import ChangeList

from kernel import counting
from kernel.database import windows

COUNTED = 10_000


class CappedPaginator(Paginator):
    """Counts to 10,000, and has no pages beyond: an OFFSET reads every row that it leaves out."""

    @cached_property
    def counted(self) -> counting.Count:
        rows = self.object_list
        return counting.capped(rows, COUNTED) if isinstance(rows, QuerySet) else counting.Count(len(rows))

    @cached_property
    def count(self) -> int:
        return self.counted.number


class WindowedChangeList(ChangeList):
    """What no index leads to is looked for in the newest rows only, and the page says so."""

    window: windows.Window
    paginator: CappedPaginator

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet:
        rows = super().get_queryset(request, exclude_parameters)
        self.window = windows.of(rows, is_by_id=_is_by_id(rows.query.order_by))
        return self.window.rows

    @property
    def shown_count(self) -> str:
        return self.paginator.counted.words

    @property
    def among_newest(self) -> int | None:
        return self.window.among_newest


def _is_by_id(ordering: Iterable[Any]) -> bool:
    first = next(iter(ordering), "-pk")
    return isinstance(first, str) and first.lstrip("-") in {"pk", "id"}


class RecentValuesFilter(AllValuesFieldListFilter):
    """The values that the newest rows have; Django's own reads every row for its choices."""

    def __init__(
        self, field: Any, request: HttpRequest, params: Any, model: Any, model_admin: Any, field_path: str
    ) -> None:
        super().__init__(field, request, params, model, model_admin, field_path)
        recent = model._default_manager.order_by("-pk").values_list(field.name, flat=True)[:COUNTED]
        self.lookup_choices: Any = sorted({value for value in recent if value is not None})
