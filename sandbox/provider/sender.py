"""Signed POSTs from a few daemon threads, so that the event loop never waits and the process can end at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

import urllib3

from sandbox.signing import secret_bytes, sign

THREADS = 8
CONNECT_SECONDS, READ_SECONDS = 5.0, 15.0

Order = tuple[str, bytes, dict[str, str], "asyncio.Future[int | None]", asyncio.AbstractEventLoop]


class Sender:
    def __init__(self, secret: str) -> None:
        self._key = secret_bytes(secret)
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._threads: list[Thread] = []
        self._pool = urllib3.PoolManager(
            num_pools=8,
            maxsize=THREADS,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        )

    async def post(self, url: str, webhook_id: str, body: bytes, correlation_id: str) -> int | None:
        """The status code, or None when there was no answer. Signed with the time of this attempt."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int | None] = loop.create_future()
        self._orders.put((url, body, self._headers(webhook_id, body, correlation_id), done, loop))
        if len(self._threads) < THREADS:
            self._threads.append(Thread(target=self._work, name="webhooks", daemon=True))
            self._threads[-1].start()
        return await done

    def _headers(self, webhook_id: str, body: bytes, correlation_id: str) -> dict[str, str]:
        timestamp = str(int(time.time()))
        headers = {
            "content-type": "application/json",
            "user-agent": "Roundtrip-Sandbox",
            "webhook-id": webhook_id,
            "webhook-timestamp": timestamp,
            "webhook-signature": sign(self._key, webhook_id.encode(), timestamp.encode(), body).decode(),
        }
        if correlation_id:
            headers["x-correlation-id"] = correlation_id
        return headers

    def _work(self) -> None:
        while True:
            url, body, headers, done, loop = self._orders.get()
            status: int | None = None
            with suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
                status = self._pool.request("POST", url, body=body, headers=headers, redirect=False).status
            try:
                loop.call_soon_threadsafe(_settle, done, status)
            except RuntimeError:
                return  # the loop is closed: the process is ending


def _settle(done: asyncio.Future[int | None], status: int | None) -> None:
    if not done.done():
        done.set_result(status)
