"""The correlation id of a request: the caller's from its header, or a new one, and back on the answer."""

from contextlib import AbstractContextManager

from django.http import HttpRequest, HttpResponse

from kernel.correlation import HEADER, acceptable, bind, current
from kernel.web.middleware import Middleware


class CorrelationMiddleware(Middleware):
    """First of all, so that every log line of the request has the id."""

    def around(self, request: HttpRequest) -> AbstractContextManager[object]:
        return bind(acceptable(request.headers.get(HEADER)))

    def finish(self, request: HttpRequest, response: HttpResponse) -> None:
        response.headers[HEADER] = current()
