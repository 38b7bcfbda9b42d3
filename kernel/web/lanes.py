"""ASGI: how many requests of each sort are worked on at once, so that one sort cannot take every database connection.

A request under way holds at most one connection of the process's pool. It gets its place once its body is in, and gives
it back, with the connection, when its answer is made: a caller who sends or reads slowly holds neither.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

RETRY_AFTER_SECONDS = 5
BUSY = b'{"type": "urn:roundtrip:problem:busy", "title": "Temporarily unavailable", "status": 503, "code": "busy", '
BUSY += b'"detail": "Too many requests of this sort are waiting; nothing was changed. Try again."}'


class Lane:
    """`places` requests at once; `most_waiting` more wait, and beyond them the answer is 503 at once."""

    def __init__(self, places: int, most_waiting: int) -> None:
        self.free = asyncio.Semaphore(places)
        self.most_inside = places + most_waiting
        self.inside = 0


class Lanes:
    """`lanes`: path prefix → its lane, or None for no limit; the first that fits counts."""

    def __init__(self, app: Callable[..., Awaitable[None]], lanes: dict[str, Lane | None]) -> None:
        self._app = app
        self._lanes = lanes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        lane = next((lane for prefix, lane in self._lanes.items() if scope["path"].startswith(prefix)), None)
        if lane is None:
            await self._app(scope, receive, send)
        elif lane.inside >= lane.most_inside:
            await _refuse(send)
        else:
            lane.inside += 1
            place = _Place(lane)
            try:
                await self._app(scope, place.reads(receive), place.sends(send))
            finally:
                place.leave()
                lane.inside -= 1


class _Place:
    """One request's place in its lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._is_held = False
        self._was_taken = False

    def reads(self, receive: Receive) -> Receive:
        async def read() -> Message:
            message = await receive()
            whole = message["type"] == "http.request" and not message.get("more_body", False)
            if whole and not self._was_taken:
                self._was_taken = True
                await self._lane.free.acquire()
                self._is_held = True
            return message

        return read

    def sends(self, send: Send) -> Send:
        async def write(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_complete(message):
                await sync_to_async(_give_connection_back)()
                self.leave()
            await send(message)

        return write

    def leave(self) -> None:
        if self._is_held:
            self._is_held = False
            self._lane.free.release()


def _is_complete(start: Message) -> bool:
    """A length is told of answers that are made; one that is still being read from the database has none."""
    return any(name.lower() == b"content-length" for name, _ in start.get("headers", ()))


def _give_connection_back() -> None:
    """In the request's own thread, which asgiref keeps for it."""
    if not connection.in_atomic_block:
        connection.close()


async def _refuse(send: Send) -> None:
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(BUSY)).encode()),
        (b"retry-after", str(RETRY_AFTER_SECONDS).encode()),
        (b"connection", b"close"),  # the body is not read
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": BUSY})
