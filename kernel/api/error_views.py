"""Answers that no view gives: an address with a NUL, one that does not exist, and a fault of ours.

Under `/api/` each is a problem like every other refusal (RFC 9457); elsewhere Django's own page. None repeats the URL.
"""

from typing import Any

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from kernel import correlation
from kernel.api.problems import CONTENT_TYPE, BadInput, NotFound, Problem, document
from kernel.web.middleware import Middleware

API = "/api/"
MACHINES = (API, "/webhooks/")  # who asks there reads no page


class RefuseNulMiddleware(Middleware):
    """No address means anything with a NUL in it, and PostgreSQL takes none in a text: refused before any view."""

    def refuse(self, request: HttpRequest) -> HttpResponse | None:
        return _nul() if _has_nul(request) else None


def _has_nul(request: HttpRequest) -> bool:
    query = request.META.get("QUERY_STRING", "")
    return "\x00" in request.path_info or "%00" in query or "\x00" in query


def _nul() -> HttpResponse:
    return _answer(BadInput("The address holds a NUL character, which nothing here contains.", code="nul_in_address"))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler400`: a Host header that this site does not answer to, or an address that is no address."""
    if not request.path_info.startswith(MACHINES):
        return defaults.bad_request(request, exception)
    if isinstance(exception, DisallowedHost):
        return _answer(BadInput("This site has no such host name; ALLOWED_HOSTS lists its own.", code="unknown_host"))
    return _answer(BadInput("The request is malformed.", code="malformed_request"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's `handler404`."""
    if not request.path_info.startswith(API):
        return defaults.page_not_found(request, exception)
    return _answer(NotFound("There is no such address; /api/v1/docs/ lists them."))


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's `handler500`. The correlation id leads from the answer to the log."""
    if not request.path_info.startswith(API):
        return defaults.server_error(request)
    words = f"A fault of ours; the log has it under {correlation.current()}."
    return _answer(Problem(words, code="internal_error", status=500))


def _answer(problem: Problem) -> JsonResponse:
    body: dict[str, Any] = document(problem)
    return JsonResponse(body, status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers)
