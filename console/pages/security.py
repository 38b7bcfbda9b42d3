"""Security headers: a strict Content-Security-Policy everywhere, loosened only where a page cannot do without.

No inline script anywhere. unfold's Alpine evaluates expressions, so the admin's pages, and ours that wear its frame,
get `unsafe-eval`. Styles may be inline: unfold writes its colours into the page. The API and webhooks get a policy
that loads nothing.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PAGE = (
    "default-src 'none'; script-src 'self'{eval}; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'{sockets}; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " object-src 'none'"
)
PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"


def wears_admin_frame(response: HttpResponse) -> HttpResponse:
    """Mark a page of ours that extends unfold's base templates."""
    response.needs_eval = True  # type: ignore[attr-defined]
    return response


def policy_for(request: HttpRequest, response: HttpResponse) -> str:
    if not response.get("Content-Type", "").startswith("text/html"):
        return NOTHING
    match = request.resolver_match
    needs_eval = (match is not None and match.app_name == "admin") or getattr(response, "needs_eval", False)
    return PAGE.format(eval=" 'unsafe-eval'" if needs_eval else "", sockets=_own_sockets(request))


def _own_sockets(request: HttpRequest) -> str:
    """Older Safari does not count ws:// of the same host as 'self'."""
    host = request.META.get("HTTP_HOST", "")
    if host and all(letter.isalnum() or letter in ".-:[]" for letter in host):
        return f" {'wss' if request.is_secure() else 'ws'}://{host}"
    return ""


class SecurityHeadersMiddleware:
    """Adds the headers to every answer; one that is set already stays."""

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
        return self._stamp(request, self.get_response(request))  # type: ignore[arg-type]

    async def _acall(self, request: HttpRequest) -> HttpResponse:
        return self._stamp(request, await self.get_response(request))  # type: ignore[misc]

    @staticmethod
    def _stamp(request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response.headers.setdefault("Content-Security-Policy", policy_for(request, response))
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        if not request.path.startswith(settings.STATIC_URL):
            response.headers.setdefault("Cache-Control", "no-store")
        return response
