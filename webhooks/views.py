"""The public doors for providers: raw body in, reason word out.

No session, no CSRF, no redirect, and never a 500 for what a stranger sends: 200, 400, 401, 404, 405, 413, or 503 while
our database is away.
"""

from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from webhooks import inbox, refusals, sources
from webhooks.bodies import BodyRefused, read_raw
from webhooks.models import Refusal
from webhooks.peers import client_address
from webhooks.refusals import Reply

RETRY_AFTER_SECONDS = 10
UNSOURCED = "(none)"  # strangers' URLs are counted together, or they could fill the table with names
log = structlog.get_logger(__name__)


@csrf_exempt
def receive(request: HttpRequest, first: str, second: str = "") -> HttpResponse:
    """One inbound call. HEAD answers 200 where there is a source, so that a provider may test the address."""
    try:
        answer = _take(request, first, second) if request.method == "POST" else _look(request, first, second)
    except (InterfaceError, OperationalError) as error:
        log.error("inbound_database_unreachable", error=type(error).__name__)
        answer = Reply(503, _unavailable(), {"Retry-After": str(RETRY_AFTER_SECONDS)})
    response = JsonResponse(answer.body, status=answer.status_code, headers=answer.headers)
    response._has_been_logged = True  # type: ignore[attr-defined]  # refusals are counted; Django would write a line each
    return response


def _look(request: HttpRequest, first: str, second: str) -> Reply:
    """Any other method: 404 where nobody would take a POST either; nothing is stored."""
    if sources.resolve(first, second) is None:
        return refusals.refusal(404, Refusal.UNKNOWN_SOURCE)
    if request.method == "HEAD":
        return Reply(200, {"status": "ready"})
    detail = "Providers POST their events here."
    body = {"status": "refused", "reason": "method_not_allowed", "detail": detail}
    return Reply(405, body, {"Allow": "POST, HEAD"})


def _take(request: HttpRequest, first: str, second: str) -> Reply:
    """Body first, before anything can fail; then who it is for."""
    try:
        raw = read_raw(request, settings.INBOUND_MAX_BYTES)
    except BodyRefused as refused:
        source = sources.resolve(first, second)
        refusals.count(source.name if source else UNSOURCED, refused.reason)
        return refusals.refusal(413 if refused.reason == Refusal.TOO_LARGE else 400, refused.reason)
    source = sources.resolve(first, second)
    if source is None:
        refusals.count(UNSOURCED, Refusal.UNKNOWN_SOURCE)
        return refusals.refusal(404, Refusal.UNKNOWN_SOURCE)
    headers = {name.lower(): value for name, value in request.headers.items()}
    token = request.GET.get("token", "")
    return inbox.receive(source, raw, headers, client_address(request), token=token)


def _unavailable() -> dict[str, Any]:
    return {
        "status": "refused",
        "reason": "database_unavailable",
        "detail": "Nothing was taken; please send it again.",
    }
