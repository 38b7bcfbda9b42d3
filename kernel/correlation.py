"""One id for one journey: from the API call through workers, the provider, its webhook and the outbound delivery.

The id lives in structlog's context variables, so every log line carries it. It must never carry meaning or secrets.
"""

import re
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse

HEADER = "x-correlation-id"
_ACCEPTABLE = re.compile(r"\A[A-Za-z0-9_\-]{8,64}\Z")


def new() -> str:
    return uuid.uuid4().hex


def current() -> str:
    """The id of the journey this code runs for; a new one where no journey has begun."""
    value = structlog.contextvars.get_contextvars().get("correlation_id")
    return value if isinstance(value, str) and value else new()


@contextmanager
def bind(correlation_id: str | None) -> Iterator[str]:
    """Run a block under `correlation_id` (a new id when none is given); log lines inside carry it."""
    value = correlation_id or new()
    with structlog.contextvars.bound_contextvars(correlation_id=value):
        yield value


def acceptable(value: str | None) -> str | None:
    """A caller's id if it is safe to log (8 to 64 letters, digits, `-`, `_`), else None."""
    return value if value and _ACCEPTABLE.match(value) else None


class CorrelationMiddleware:
    """Takes the caller's `x-correlation-id`, or makes one, and returns it on the answer."""

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
        with bind(acceptable(request.headers.get(HEADER))) as correlation_id:
            response = self.get_response(request)
        return self._stamp(response, correlation_id)  # type: ignore[arg-type]

    async def _acall(self, request: HttpRequest) -> HttpResponse:
        with bind(acceptable(request.headers.get(HEADER))) as correlation_id:
            response = await self.get_response(request)  # type: ignore[misc]
        return self._stamp(response, correlation_id)

    @staticmethod
    def _stamp(response: HttpResponse, correlation_id: str) -> HttpResponse:
        response.headers[HEADER] = correlation_id
        return response
