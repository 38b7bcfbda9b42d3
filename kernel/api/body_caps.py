"""A body beyond its door's cap (`settings.BODY_CAPS`) is refused before any view: 413 with the cap in words.

`kernel.web.bodies` reads no more than that from the socket and declares what it cut, so the declared length is judged,
and a body that was cut must never reach a view: half a form is a form. Inbound webhooks are refused by their own view,
which counts them.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse

from kernel.api.error_views import API
from kernel.api.problems import CONTENT_TYPE, Problem, document
from kernel.web.bodies import cap_of
from kernel.web.refusals import INBOUND


class RefuseLargeBodiesMiddleware:
    """Under `/api/` a problem; elsewhere Django's own page."""

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
        return _refusal(request) or self.get_response(request)

    async def _acall(self, request: HttpRequest) -> HttpResponse:
        return _refusal(request) or await self.get_response(request)  # type: ignore[misc]


def _refusal(request: HttpRequest) -> HttpResponse | None:
    path = request.path_info
    cap = None if path.startswith(INBOUND) else cap_of(path, settings.BODY_CAPS)
    if cap is None or _declared(request) <= cap:
        return None
    if not path.startswith(API):
        raise RequestDataTooBig(f"This page takes at most {cap} bytes.")
    problem = Problem(f"This address takes at most {words(cap)}. Send it in parts.", code="too_large", status=413)
    return JsonResponse(document(problem), status=problem.status, content_type=CONTENT_TYPE)


def _declared(request: HttpRequest) -> int:
    text = str(request.META.get("CONTENT_LENGTH") or "")
    return int(text[:20]) if text.isascii() and text.isdigit() else 0


def words(size: int) -> str:
    """e.g. "1 MiB", "320 KiB", "1,000 bytes"."""
    for unit, name in ((1024 * 1024, "MiB"), (1024, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"
