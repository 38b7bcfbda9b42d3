"""What a page, a list or any other GET may cost the database: `READ_SECONDS`, and then an answer that says what to do.

Writes have no such bound: what has begun to change something is carried to its end. Nor have inbound webhooks.
"""

from contextlib import AbstractContextManager

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from kernel.database import reads
from kernel.web.middleware import Middleware

WITHOUT = ("/webhooks/", "/static/")


class ReadBudgetMiddleware(Middleware):
    """Last before the view, so that what the others read is not counted against it."""

    def around(self, request: HttpRequest) -> AbstractContextManager[object]:
        return reads.at_most(_seconds(request))

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
