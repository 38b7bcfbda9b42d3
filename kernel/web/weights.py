"""ASGI: how many bytes of large bodies are worked on at once, so that memory does not grow with who sends.

A body of megabytes takes ten times as much while it is parsed, checked and stored. A request is let in with its whole
body, in the order in which bodies became whole; one that is larger than the budget goes alone. Small ones pass by. What
a caller sends slowly holds nothing: until it is whole it lies in a file. It counts until the request has ended, since
only then is it freed; answers to large bodies are short.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SMALL_BYTES = 256 * 1024  # such a body is not weighed
BYTES_AT_ONCE = 8 * 1024 * 1024  # of larger bodies, in one process; parsed and stored they take many times as much


class Scale:
    """Bytes that may be taken, first come, first served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, weight: int) -> None:
        if not self._waiting and self._fits(weight):
            self._taken += weight
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((weight, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(weight)
            else:
                self._waiting = deque(one for one in self._waiting if one[1] is not turn)
                self._let_in()
            raise

    def give_back(self, weight: int) -> None:
        self._taken -= weight
        self._let_in()

    def _fits(self, weight: int) -> bool:
        return not self._taken or self._taken + weight <= self._most

    def _let_in(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            weight, turn = self._waiting.popleft()
            if not turn.done():
                self._taken += weight
                turn.set_result(None)


class HeavyBodies:
    """`packed_weight`: what a packed body (Content-Encoding) counts, since it may unfold to so much.

    Doors whose paths begin with one of `apart` have a scale of their own: who waits at the others, for whatever else a
    request there needs, does not hold them up.
    """

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        packed_weight: int,
        most: int = BYTES_AT_ONCE,
        apart: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._packed_weight = packed_weight
        self._apart = apart
        self._scale, self._scale_apart = Scale(most), Scale(most)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        scale = self._scale_apart if scope["path"].startswith(self._apart) else self._scale
        load = _Load(scale, self._packed_weight if _is_packed(scope) else 0)
        try:
            await self._app(scope, load.reads(receive), send)
        finally:
            load.set_down()


class _Load:
    """One request's body."""

    def __init__(self, scale: Scale, least: int) -> None:
        self._scale = scale
        self._least = least
        self._read = 0
        self._held = 0
        self._is_whole = False

    def reads(self, receive: Receive) -> Receive:
        async def read() -> Message:
            message = await receive()
            if message["type"] != "http.request" or self._is_whole:
                return message
            self._read += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            weight = max(self._read, self._least) if self._read else 0
            if self._is_whole and weight > SMALL_BYTES:
                await self._scale.take(weight)
                self._held = weight
            return message

        return read

    def set_down(self) -> None:
        if self._held:
            held, self._held = self._held, 0
            self._scale.give_back(held)


def _is_packed(scope: Message) -> bool:
    return any(name == b"content-encoding" for name, _ in scope["headers"])
