"""Cursor pages for the API's lists: steady while rows arrive, and the last page takes as long as the first.

A page looks through a bounded number of rows (`kernel.database.windows`). Where it comes to that end before it is full,
`next` goes on from there: a page may be short, or empty, and not be the last.

Kinds, a task's timeline and the groups of dead letters have one page; dead letters have a cursor of their own.
"""

from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Field
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from kernel.api.problems import BadInput
from kernel.api.queries import whole_number
from kernel.database import windows


class CursorPages(CursorPagination):
    """Newest first; `?limit=` up to 200; `next` and `previous` are whole URLs."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200
    ordering = "-id"

    def get_page_size(self, request: Request) -> int:
        """DRF takes what is no number for no wish at all."""
        text = request.query_params.get(self.page_size_query_param)
        return self.page_size if text is None else whole_number("limit", text, 1, self.max_page_size)

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        column = self.get_ordering(request, queryset, view)[0].lstrip("-")
        self._column: Field = queryset.model._meta.get_field(column)
        self._edge: Cursor | None = None
        if self._column.primary_key:
            return self._page_of_window(queryset, request, view)
        return super().paginate_queryset(queryset, request, view)

    def _page_of_window(self, rows: Any, request: Request, view: Any) -> list[Any] | None:
        cursor = self.decode_cursor(request)
        beyond = int(cursor.position) if cursor is not None and cursor.position is not None else None
        is_backwards = cursor is not None and cursor.reverse
        window = windows.of(rows, beyond=beyond, upwards=is_backwards)
        page = super().paginate_queryset(window.rows, request, view)
        is_more = self.has_previous if is_backwards else self.has_next
        if window.is_cut and not is_more:
            self._edge = Cursor(offset=0, reverse=is_backwards, position=window.edge)
        return page

    def get_next_link(self) -> str | None:
        return super().get_next_link() if self._edge is None or self._edge.reverse else self.encode_cursor(self._edge)

    def get_previous_link(self) -> str | None:
        return self.encode_cursor(self._edge) if self._edge and self._edge.reverse else super().get_previous_link()

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """For the OpenAPI document. DRF's own has a stray quote in its example, and leaves out that both are there."""
        link = {"type": ["string", "null"], "format": "uri"}
        going_on = (
            "Where the next page is; null on the last. A page that no index leads to looks through "
            f"{windows.MOST:,} rows: it may be short, or empty, and go on."
        )
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {**link, "description": going_on},
                "previous": {**link, "description": "Where the page before is; null on the first."},
                "results": schema,
            },
        }

    def decode_cursor(self, request: Request) -> Cursor | None:
        """A cursor is base64 that anybody can write: what is in it is judged before the database sees it."""
        try:
            cursor = super().decode_cursor(request)
            if cursor is not None and cursor.position is not None:
                place = self._column.to_python(cursor.position)
                if isinstance(place, datetime):
                    place.astimezone(UTC)  # the year 10,000 is none
        except (NotFound, ValidationError, ValueError, OverflowError):
            raise BadInput(
                "cursor is what an earlier answer's `next` or `previous` said; start again without it.",
                code="bad_cursor",
            ) from None
        return cursor
