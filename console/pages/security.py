"""Security headers: a strict Content-Security-Policy everywhere, loosened only where a page cannot do without.

No inline script anywhere. unfold's Alpine evaluates expressions, so the admin's pages, and ours that wear its frame,
get `unsafe-eval`. Styles may be inline: unfold writes its colours into the page. The API and webhooks get a policy
that loads nothing.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from kernel.web.middleware import Middleware

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


class SecurityHeadersMiddleware(Middleware):
    """Adds the headers to every answer; one that is set already stays."""

    def finish(self, request: HttpRequest, response: HttpResponse) -> None:
        response.headers.setdefault("Content-Security-Policy", policy_for(request, response))
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        if not request.path.startswith(settings.STATIC_URL):
            response.headers.setdefault("Cache-Control", "no-store")
