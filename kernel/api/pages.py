"""Cursor pages for the API's lists: steady while rows arrive, and the last page takes as long as the first.

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
        return super().paginate_queryset(queryset, request, view)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """For the OpenAPI document. DRF's own has a stray quote in its example, and leaves out that both are there."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": {**link, "description": "Where the next page is; null on the last."},
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
