"""A receiver that measures: how many requests are open at once, and when each came. One asyncio loop in a thread."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_id = re.compile(rb"webhook-id: *([^\r\n]+)", re.IGNORECASE)
_length = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Gauge:
    """`seconds(n)` says how long the n-th request (from 0) waits for its answer."""

    url: str = ""
    seconds: Callable[[int], float] = lambda _n: 0.0
    at: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _length.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                await self._answer(head, writer)
        writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        number = len(self.at)
        found = _id.search(head)
        self.at.append(time.monotonic())
        self.ids.append(found[1].decode() if found else "")
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if seconds := self.seconds(number):
                await asyncio.sleep(seconds)
        finally:
            self.open -= 1
        writer.write(ANSWER)
        await writer.drain()


@contextmanager
def gauge(seconds: Callable[[int], float] = lambda _n: 0.0) -> Iterator[Gauge]:
    measuring = Gauge(seconds=seconds)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gauge", daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(measuring.serve, "127.0.0.1", 0, backlog=512), loop
    ).result(10)
    measuring.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield measuring
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
