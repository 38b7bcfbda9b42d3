"""What a page, a list or any other GET may cost the database: `READ_SECONDS`, and then an answer that says what to do.

Writes have no such bound: what has begun to change something is carried to its end. Nor have inbound webhooks.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from kernel.database import reads

WITHOUT = ("/webhooks/", "/static/")


class ReadBudgetMiddleware:
    """Last before the view, so that what the others read is not counted against it."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        if self.is_async:
            return self._acall(request)
        with reads.at_most(_seconds(request)):
            return self.get_response(request)

    async def _acall(self, request: HttpRequest) -> HttpResponse:
        with reads.at_most(_seconds(request)):
            return await self.get_response(request)  # type: ignore[misc]

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A page of its own; the API has told it as a problem already."""
        if not reads.is_too_slow(exception):
            return None
        context = {"seconds": settings.READ_SECONDS}
        response = render(request, "503.html", context, status=503)
        response.headers["Retry-After"] = "30"
        return response


def _seconds(request: HttpRequest) -> float:
    is_read = request.method in {"GET", "HEAD"} and not request.path_info.startswith(WITHOUT)
    return settings.READ_SECONDS if is_read else 0.0
