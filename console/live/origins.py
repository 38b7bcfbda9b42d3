"""Which web pages may open a live view: our own, and those that LIVE_ALLOWED_ORIGINS names, with a token.

A browser says where a page came from in `Origin` and cannot lie about it. A console session rides on a cookie, which a
foreign page's browser would send along, so a session is good from our own pages only.
"""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host


def header(scope: dict[str, Any], name: bytes) -> str:
    """One request header of a websocket's handshake, empty if missing."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_own(scope: dict[str, Any]) -> bool:
    """Whether the page that opens the socket is ours: same host and port as it asks, and a host that is ours."""
    origin = header(scope, b"origin")
    if not origin:
        return False
    if settings.PUBLIC_BASE_URL and origin.lower() == origin_of(settings.PUBLIC_BASE_URL):
        return True
    host = header(scope, b"host").lower()
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS) and origin.lower().partition("://")[2] == host


def origin_of(url: str) -> str:
    """`https://host:port` of a URL, lower case, or an empty string."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.scheme and parts.netloc else ""


def may_bring_token(scope: dict[str, Any]) -> bool:
    """A token is good from our own pages, from the allowed other ones, and from programs, which send no Origin."""
    origin = header(scope, b"origin")
    return (
        not origin or is_own(scope) or origin.lower() in {allowed.lower() for allowed in settings.LIVE_ALLOWED_ORIGINS}
    )
