"""A door for machines: Django with the few middlewares that such a door needs, none of which leaves the event loop.

Django runs most of its own in a thread, one trip each; at a door where hundreds knock in a second the trips cost more
than the answer. Nobody logs in there, no page is shown, and no cookie is read.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.security import SecurityMiddleware

from kernel.web.middleware import Middleware, View

Message = MutableMapping[str, Any]
Application = Callable[..., Awaitable[None]]


class Door(ASGIHandler):
    """Django with `middleware` instead of MIDDLEWARE."""

    def __init__(self, middleware: Sequence[str]) -> None:
        whole = settings.MIDDLEWARE
        settings.MIDDLEWARE = list(middleware)  # read once, while the handler is made
        try:
            super().__init__()
        finally:
            settings.MIDDLEWARE = whole


class ByPath:
    """`doors`: path prefix → its application; `otherwise` takes the rest."""

    def __init__(self, doors: Mapping[str, Application], otherwise: Application) -> None:
        self._doors = doors
        self._otherwise = otherwise

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        found = next((door for prefix, door in self._doors.items() if scope["path"].startswith(prefix)), None)
        await (found or self._otherwise)(scope, receive, send)


class DjangosOwnMiddleware(Middleware):
    """What Django's own say of hosts, lengths, transport and frames. They wait for nothing, so they need no thread."""

    def __init__(self, get_response: View) -> None:
        super().__init__(get_response)
        made = (SecurityMiddleware, CommonMiddleware, XFrameOptionsMiddleware)
        self._inner: list[Any] = [one(_unreachable) for one in made]

    def refuse(self, request: HttpRequest) -> HttpResponse | None:
        for one in self._inner:
            answer: HttpResponse | None = getattr(one, "process_request", _nothing)(request)
            if answer is not None:
                return answer
        return None

    def finish(self, request: HttpRequest, response: HttpResponse) -> None:
        for one in reversed(self._inner):
            one.process_response(request, response)


def _unreachable(_request: HttpRequest) -> HttpResponse:
    raise AssertionError("only their two halves are called")


def _nothing(_request: HttpRequest) -> None:
    return None
