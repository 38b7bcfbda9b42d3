"""A lean HTTP/1.1 server on asyncio and httptools.

Not an ASGI server because a receiver has to misbehave on purpose (close without an answer, drip, endless bodies) and
because the benches need its hot path to cost next to nothing. It knows nothing of jobs and nothing of journals.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import httptools

from sandbox.log import log

MAX_BODY_BYTES = 64 * 1024 * 1024
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}

Headers = list[tuple[bytes, bytes]]
Outcome = bytes | Coroutine[Any, Any, bytes | None]
"""A whole raw answer; or a coroutine that returns one, or None to close the connection without another word."""


class Request:
    """One request, read to its end. Header names are lower case."""

    __slots__ = ("body", "connection", "headers", "keep_alive", "method", "path", "prefix", "query")

    def __init__(
        self, method: bytes, target: bytes, headers: Headers, body: bytes, connection: Connection, keep_alive: bool
    ) -> None:
        path, _, query = target.partition(b"?")
        self.method = method
        self.prefix = ""  # what a front took off the path
        self.path = path.decode("latin-1")
        self.query = query.decode("latin-1")
        self.headers = headers
        self.body = body
        self.connection = connection
        self.keep_alive = keep_alive

    def header(self, name: bytes) -> bytes:
        for key, value in self.headers:
            if key == name:
                return value
        return b""

    def parameters(self) -> list[tuple[str, str]]:
        """Decoded query parameters, in order, repeated ones kept."""
        return parse_qsl(self.query, keep_blank_values=True)


Handler = Callable[[Request], Outcome]


def head(status: int, headers: Headers) -> bytes:
    """Status line and headers, with the empty line that ends them."""
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, REASONS.get(status, b"Unknown"))]
    lines += [b"%b: %b\r\n" % pair for pair in headers]
    return b"".join(lines) + b"\r\n"


def answer(status: int, body: bytes = b"", content_type: bytes = b"text/plain; charset=utf-8", *more: tuple) -> bytes:
    """A whole raw answer. 1xx, 204 and 304 have no body (RFC 9110 §6.4.1)."""
    headers: Headers = [*more]
    if status >= 200 and status not in (204, 304):
        headers += [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        return head(status, headers) + body
    return head(status, headers)


def json_answer(status: int, document: object, *more: tuple[bytes, bytes]) -> bytes:
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return answer(status, body, b"application/json", *more)


class Connection(asyncio.Protocol):
    """One client's connection. Requests on it are answered in order, one at a time."""

    def __init__(self, handler: Handler, open_connections: set[Connection]) -> None:
        self._handler = handler
        self._all = open_connections
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        self._target, self._size = b"", 0
        self._headers: Headers = []
        self._body: list[bytes] = []

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._writable.set()
        self._all.discard(self)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.transport.close()
        except httptools.HttpParserError:
            if not self.closed:
                self.transport.write(answer(400, b"bad request\n", b"text/plain", (b"connection", b"close")))
                self.transport.close()

    # httptools

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._headers.append((name, value))
        if name == b"expect" and value.lower() == b"100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MAX_BODY_BYTES:
            self.transport.write(answer(413, b"too large\n", b"text/plain", (b"connection", b"close")))
            self.transport.close()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self.transport.is_closing():
            return
        parser = self._parser
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        request = Request(
            parser.get_method(), self._target, self._headers, body, self, bool(parser.should_keep_alive())
        )
        if self._task is None:
            self._serve(request)
        else:
            self._waiting.append(request)

    # ours

    def _serve(self, request: Request) -> None:
        try:
            outcome = self._handler(request)
        except Exception as error:  # noqa: BLE001 - a broken handler is one 500, not the end
            outcome = self._broken(request, error)
        if isinstance(outcome, bytes):
            self._finish(request, outcome)
        else:
            self._task = asyncio.get_running_loop().create_task(self._serve_later(request, outcome))

    async def _serve_later(self, request: Request, outcome: Coroutine[Any, Any, bytes | None]) -> None:
        try:
            raw = await outcome
        except Exception as error:  # noqa: BLE001 - a broken handler is one 500, not the end
            raw = self._broken(request, error)
        self._task = None
        if raw is None:
            self.transport.abort()
            return
        self._finish(request, raw)
        while self._waiting and self._task is None and not self.closed:
            self._serve(self._waiting.popleft())

    def _finish(self, request: Request, raw: bytes) -> None:
        if request.method == b"HEAD":
            raw = raw[: raw.index(b"\r\n\r\n") + 4]
        self.transport.write(raw)
        if not request.keep_alive:
            self.transport.close()

    @staticmethod
    def _broken(request: Request, error: Exception) -> bytes:
        log("handler_failed", path=request.path, error=repr(error))
        return json_answer(500, {"error": {"code": "sandbox_bug", "message": repr(error)}})

    async def stream(self, data: bytes) -> bool:
        """Write and wait until the client takes more. False once the client is gone."""
        if self.closed or self.transport.is_closing():
            return False
        self.transport.write(data)
        await self._writable.wait()
        return not self.closed


class Server:
    """One listening port."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self, host: str, port: int) -> str:
        """Listen; port 0 takes a free one. Returns the base URL. Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._handler, self._connections), host, port, backlog=2048
        )
        bound = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
        return self.url

    async def stop(self) -> None:
        """Stop listening and drop whoever is still connected."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        await asyncio.sleep(0)
