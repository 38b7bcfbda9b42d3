"""What the emulated providers share: a store and a runner of their own, the sandbox's faults, and a model that answers.

A subclass routes calls and words answers as its provider does; jobs live and end as the sandbox's own.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Any
from urllib.parse import unquote

from sandbox.emulated.model import answer_to
from sandbox.provider.faults import Faults
from sandbox.provider.jobs import Job, Store
from sandbox.provider.runner import Runner
from sandbox.provider.stats import Stats
from sandbox.web import Outcome, Request, json_answer

MAX_JOBS = 20_000


class No(Exception):
    """A refusal; the subclass words it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Emulated:
    """One emulated provider."""

    def __init__(self, faults: Faults, stats: Stats, key: str, webhook_secret: str) -> None:
        self.faults = faults
        self.stats = stats
        self.key = key
        self.webhook_secret = webhook_secret
        self._tasks: set[asyncio.Task[Any]] = set()
        self.runner = Runner(faults, stats, self.changed)
        self.clear()

    def clear(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.store = Store(MAX_JOBS)
        self.runner.clear()

    # for a subclass

    def is_allowed(self, request: Request) -> bool:
        return self.is_key(request.header(b"authorization"), b"Bearer ")

    def is_key(self, given: bytes, before: bytes = b"") -> bool:
        return hmac.compare_digest(given, before + self.key.encode())

    def is_public(self, request: Request) -> bool:
        """Whether no key is needed."""
        return False

    async def routed(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        raise NotImplementedError

    def worded(self, no: No) -> dict[str, Any]:
        raise NotImplementedError

    def changed(self, job: Job) -> None:
        """A job took a step."""

    # shared

    def handle(self, request: Request, path: str) -> Outcome:
        return self._handle(request, path)

    async def _handle(self, request: Request, path: str) -> bytes | None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            if not self.is_public(request) and not self.is_allowed(request):
                raise No(401, "invalid_api_key", "Incorrect API key provided.")
            if self.faults.strikes("rate_limited"):
                raise No(429, "rate_limit_exceeded", "Too many calls.")
            if self.faults.strikes("server_error"):
                raise No(500, "server_error", "Something broke here.")
            is_start = request.method == b"POST"
            status, said = await self.routed(request, parts)
        except No as no:
            headers = ((b"retry-after", b"1"),) if no.status == 429 else ()
            return json_answer(no.status, self.worded(no), *headers)
        self.stats.call(f"{type(self).__name__.lower()} {request.method.decode()} {parts[-1][:20]}")
        if is_start and status in (200, 201) and self.faults.strikes("start_timeout"):
            await asyncio.sleep(self.faults.seconds("hang_ms"))
            return None
        return said if isinstance(said, bytes) else json_answer(status, said)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def begin(self, work: dict[str, Any], reference: str, now: float, name: str = "") -> Job:
        """A job of the engine for one question to the model, or one request; under the provider's `name` for it."""
        job = self.store.new_job("scoring", work, reference, None, now, id=name, webhook_url="", correlation_id="")
        self.stats.jobs["scoring"]["started"] += 1
        return job

    def run(self, jobs: list[Job]) -> None:
        self.runner.add(jobs)

    async def answer(self, prompt: str, wanted: str) -> str:
        return await answer_to(prompt, wanted)


def json_object(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        raise No(400, "invalid_json", "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise No(400, "invalid_json", "The body has to be a JSON object.")
    return body


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
