"""ASGI: what only a proxy may say (`X-Forwarded-Proto`, `-For`, `-Host`, …) is taken off unless a trusted one says it.

Stands before everything else, for websockets too: whatever reads such a header further in reads a proxy's word.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kernel.network.peers import is_trusted_proxy

PREFIX = b"x-forwarded-"
OTHERS = frozenset({b"forwarded", b"x-real-ip"})


class ForwardedByProxies:
    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        headers = scope.get("headers")
        if headers and any(map(_is_a_proxys, headers)) and not _comes_through_proxy(scope):
            scope = {**scope, "headers": [header for header in headers if not _is_a_proxys(header)]}
        await self._app(scope, receive, send)


def _is_a_proxys(header: tuple[bytes, bytes]) -> bool:
    name = header[0].lower().replace(b"_", b"-")
    return name.startswith(PREFIX) or name in OTHERS


def _comes_through_proxy(scope: MutableMapping[str, Any]) -> bool:
    client = scope.get("client")
    return client is not None and is_trusted_proxy(str(client[0]))
