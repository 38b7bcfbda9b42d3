"""An emulated provider that calls back: its webhooks with headers of its own, damaged by the faults, sent again."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import time
from typing import Any

from sandbox.emulated.engine import Emulated, No, json_object
from sandbox.provider import kinds
from sandbox.provider.jobs import Job
from sandbox.provider.sender import Sender
from sandbox.web import Request

AGAIN_SECONDS = (1, 2, 5)
WAITED = 0.02


class OwnHeaders(Sender):
    """`headers` in place of those of Standard Webhooks, by the id of the webhook."""

    def __init__(self, secret: str) -> None:
        super().__init__(secret)
        self.headers: dict[str, dict[str, str]] = {}

    def _headers(self, webhook_id: str, body: bytes, correlation_id: str) -> dict[str, str]:
        own = self.headers.get(webhook_id)
        return super()._headers(webhook_id, body, correlation_id) if own is None else own


class CallingBack(Emulated):
    """`expire` makes the result of a finished job as it is when its time is over."""

    def clear(self) -> None:
        super().clear()
        self.sender = OwnHeaders(self.webhook_secret)
        self.expired: set[str] = set()
        self.asked: dict[str, Any] = {}  # what else came with a job's start, by its id

    def is_public(self, request: Request) -> bool:
        return "/_expire/" in request.path

    async def routed(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        if parts[0] == "_expire":
            self.expired.add(self.job(parts[1]).id)
            return 200, {"expired": parts[1]}
        return await self.routes(request, parts)

    async def routes(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        raise NotImplementedError

    def job(self, name: str) -> Job:
        job = self.store.get(name)
        if job is None or not job.visible(time.time()):
            raise No(404, "record-not-found", "There is nothing of that id.")
        return job

    def started(self, kind: str, given: dict[str, Any], name: str, webhook_url: str = "", asked: Any = None) -> Job:
        job = self.store.new_job(
            kind, given, "", None, time.time(), id=name, webhook_url=webhook_url, correlation_id=""
        )
        self.stats.jobs[kind]["started"] += 1
        self.asked[job.id] = asked
        kinds.ready(kind)
        self.run([job])
        return job

    async def finished(self, job: Job, seconds: float) -> Job:
        """The job as it stands at its end, or after so many seconds."""
        ends = time.monotonic() + seconds
        while not job.finished and time.monotonic() < ends:  # noqa: ASYNC110 - the runner tells nobody else
            await asyncio.sleep(WAITED)
        return job

    def newest(self) -> list[Job]:
        now = time.time()
        return [job for job in reversed(self.store.select(ids=[], references=[], batch_id="")) if job.visible(now)]

    def tell(self, url: str, said: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        """One webhook; `headers` None: signed as Standard Webhooks say."""
        if not url or self.faults.strikes("drop"):
            return
        name = f"msg_{secrets.token_hex(12)}"
        if headers is not None:
            self.sender.headers[name] = {"content-type": "application/json", **headers}
        body = json.dumps(said, ensure_ascii=False).encode()
        for _ in range(2 if self.faults.strikes("duplicate") else 1):
            self.spawn(self._send(url, name, body))

    async def _send(self, url: str, name: str, body: bytes) -> None:
        for wait in (*AGAIN_SECONDS, 0):
            status = await self.sender.post(url, name, body, "")
            if status is not None and 200 <= status < 300:
                return
            await asyncio.sleep(wait)


def body_of(request: Request) -> dict[str, Any]:
    """The body as an object; some clients compress it."""
    if request.header(b"content-encoding") == b"gzip":
        request.body = gzip.decompress(request.body)
    return json_object(request)


def query_of(request: Request) -> dict[str, str]:
    return dict(request.parameters())
