"""One id from the caller through every log line; unsafe ids are replaced, never logged."""

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from kernel import correlation
from kernel.web.correlation_header import CorrelationMiddleware


def answer_for(header):
    seen = []

    def view(request):
        seen.append(correlation.current())
        return HttpResponse()

    headers = {"HTTP_X_CORRELATION_ID": header} if header is not None else {}
    response = CorrelationMiddleware(view)(RequestFactory().get("/", **headers))
    return seen[0], response.headers["x-correlation-id"]


def test_the_callers_id_is_kept_and_returned():
    assert answer_for("order-2026-1129") == ("order-2026-1129", "order-2026-1129")


@pytest.mark.parametrize("header", [None, "", "short", "x" * 65, "a b c d e f", "line\nbreak-0000", "ключ-ключ-ключ"])
def test_an_unsafe_id_is_replaced(header):
    seen, returned = answer_for(header)
    assert seen == returned != header
    assert len(returned) == 32


async def _async_view(request):
    return HttpResponse(correlation.current())


async def test_the_middleware_serves_async_views_too():
    middleware = CorrelationMiddleware(_async_view)
    response = await middleware(RequestFactory().get("/", HTTP_X_CORRELATION_ID="async-0001"))
    assert response.content == b"async-0001"
