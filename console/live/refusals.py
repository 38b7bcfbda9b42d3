"""Websockets that are turned away: one line in the log for each, and a plain 404 where there is no such address."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from kernel.network.peers import address_behind

UNKNOWN_ADDRESS = 4404
DENIAL = "websocket.http.response"

log = structlog.get_logger(__name__)


def tell(scope: dict[str, Any], status: int, code: str, caller: str = "") -> None:
    """As the line of a refused request. `status`: of HTTP, or the close code. Never the address or token that came."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    peer = (scope.get("client") or ("", 0))[0]
    address = address_behind(peer, headers.get("x-forwarded-for", ""))
    log.warning("request_refused", status=status, code=code, address=address, view="websocket", caller=caller)


async def unknown_address(
    scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Callable[[dict[str, Any]], Any]
) -> None:
    """The answer to a websocket for which there is no view."""
    await receive()
    tell(scope, 404, "unknown_address")
    if DENIAL in scope.get("extensions", {}):
        words = b"There is no live view at this address; it is /ws/live/."
        length = (b"content-length", str(len(words)).encode())
        headers = [(b"content-type", b"text/plain; charset=utf-8"), length]
        await send({"type": f"{DENIAL}.start", "status": 404, "headers": headers})
        await send({"type": f"{DENIAL}.body", "body": words})
    else:
        await send({"type": "websocket.close", "code": UNKNOWN_ADDRESS})
