"""Cursor pages for every API list: steady while rows arrive, and as quick on the last page as on the first."""

from rest_framework.pagination import CursorPagination


class CursorPages(CursorPagination):
    """Newest first; `?limit=` up to 200; `next` and `previous` are whole URLs."""

    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200
    ordering = "-id"
