"""What an answer that refuses says beside its words: its status, and a line in the log.

One line for each 401 and 403: the caller's address and who they are, or say they are. Never a URL or a secret.

Inbound webhooks count their refusals by source and reason themselves; a line for each would fill the disk.
"""

import re
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django.utils.functional import LazyObject, empty

from kernel.auth import name_of, split_token
from kernel.network.peers import client_address
from kernel.web.middleware import Middleware

INBOUND = "/webhooks/"
_KEY_ID = re.compile(r"\A[A-Za-z0-9]{1,32}\Z")
log = structlog.get_logger(__name__)


class LogRefusalsMiddleware(Middleware):
    """After `CorrelationMiddleware`, so that the line carries the id of the answer."""

    def finish(self, request: HttpRequest, response: HttpResponse) -> None:
        _throttled(request, response)
        _tell(request, response)


def _throttled(request: HttpRequest, response: HttpResponse) -> None:
    """The log-in page with its words, as what it is: a form has no say in the status of its page."""
    minutes = getattr(request, "throttled_minutes", 0)
    if minutes:
        response.status_code = 429
        response.headers["Retry-After"] = str(minutes * 60)


def _tell(request: HttpRequest, response: HttpResponse) -> None:
    if response.status_code not in {401, 403} or request.path_info.startswith(INBOUND):
        return
    data = getattr(response, "data", None)
    code = data.get("code", "") if isinstance(data, dict) else ""
    match = request.resolver_match
    log.warning(
        "request_refused",
        status=response.status_code,
        code=code,
        address=client_address(request),
        view=match.view_name if match else "",
        method=request.method,
        **_who(request),
    )


def _who(request: HttpRequest) -> dict[str, Any]:
    """`caller` where they are known; `claimed_key` where a key was named but did not open. Asks no database."""
    user = getattr(request, "_cached_user", None) or request.__dict__.get("user")
    username = getattr(user, "username", "") if _is_looked_up(user) else ""
    if username.startswith("key:"):
        return {"caller": username}
    if username:
        return {"caller": name_of(user)}
    token = request.headers.get("authorization", "").partition(" ")[2].strip()
    try:
        key_id = split_token(token)[0]
    except ValueError:
        return {"caller": ""}
    return {"caller": "", "claimed_key": key_id if _KEY_ID.match(key_id) else ""}


def _is_looked_up(user: Any) -> bool:
    """Django's lazy user, not asked for yet, would open a session now."""
    return user is not None and not (isinstance(user, LazyObject) and user.__dict__.get("_wrapped") is empty)
