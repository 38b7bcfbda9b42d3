"""What every middleware of ours stands on: one frame for sync and async, so that each says only its own subject."""

import contextlib
from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse

View = Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]


class Middleware:
    """Say `around`, `refuse` or `finish`, whichever are meant. None may wait for anything: all run in the loop."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        if self.is_async:
            return self._acall(request)
        with self.around(request):
            response = self.refuse(request) or self.get_response(request)
            self.finish(request, response)  # type: ignore[arg-type]
        return response

    async def _acall(self, request: HttpRequest) -> HttpResponse:
        with self.around(request):
            response = self.refuse(request) or await self.get_response(request)  # type: ignore[misc]
            self.finish(request, response)
        return response

    def around(self, request: HttpRequest) -> contextlib.AbstractContextManager[object]:
        """What holds while the request is answered."""
        return contextlib.nullcontext()

    def refuse(self, request: HttpRequest) -> HttpResponse | None:
        """An answer instead of the view's, or None."""
        return None

    def finish(self, request: HttpRequest, response: HttpResponse) -> None:
        """What is done to every answer."""
