"""ASGI: a request body is never taken in past its cap.

Django's ASGI handler writes the whole body to a temporary file before any view or middleware runs, so a cap in a view
comes too late for the disk. Here reading ends one byte past the cap, and the length that Django then sees is past the
cap too, so that the view's own answer (413, with its words and its count) is given. Must not answer by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[..., Awaitable[None]]


def cap_of(path: str, caps: Mapping[str, int]) -> int | None:
    """The most bytes that the door at `path` takes."""
    return next((most for prefix, most in caps.items() if path.startswith(prefix)), None)


class CappedBodies:
    """`caps`: path prefix → most bytes; the first that fits counts, and the last should be `/`."""

    def __init__(self, app: Application, caps: dict[str, int]) -> None:
        self._app = app
        self._caps = caps

    async def __call__(self, scope: Message, receive: Receive, send: Any) -> None:
        if scope["type"] == "http":
            cap = cap_of(scope["path"], self._caps)
            if cap is not None:
                receive = _capped(scope, receive, cap)
        await self._app(scope, receive, send)


def _capped(scope: Message, receive: Receive, cap: int) -> Receive:
    left = cap + 1
    declared = _declared(scope)
    if declared is not None and declared > cap:
        left = 0

    async def read() -> Message:
        nonlocal left
        if left == 0:
            left = -1
            return {"type": "http.request", "body": b"", "more_body": False}
        if left < 0:  # Django now listens for a disconnect, and cancels that once it has answered
            await asyncio.Event().wait()
        message = await receive()
        if message["type"] != "http.request":
            return message
        body = message.get("body", b"")
        if len(body) < left:
            left -= len(body)
            if declared is None and left <= cap and not message.get("more_body", False):
                _declare(scope, cap + 1 - left)
            return message
        body, left = body[:left], -1
        _declare(scope, cap + 1)
        return {"type": "http.request", "body": body, "more_body": False}

    return read


def _declared(scope: Message) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return None


def _declare(scope: Message, length: int) -> None:
    """Django makes its request from the scope after the body is read, so it sees this."""
    kept = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
    scope["headers"] = [*kept, (b"content-length", str(length).encode())]
