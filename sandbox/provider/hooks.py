"""Webhooks to the caller: gathered per job or batch, signed, damaged by faults, sent, sent again.

Within one job or batch they go out one after the other (a batch's parts side by side), and what changes meanwhile is
gathered into the next one; so a slow receiver gets fewer and fuller webhooks, and order is broken by faults only.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from sandbox.log import log
from sandbox.provider.faults import Faults
from sandbox.provider.jobs import Job
from sandbox.provider.sender import Sender
from sandbox.provider.stats import Stats

RETRY_SECONDS = (1, 2, 5, 10, 30)
HELD_AT_MOST_SECONDS = 2.0


@dataclass(slots=True, eq=False)
class Message:
    """One webhook. Its id and bytes are the same on every attempt."""

    url: str
    kind: str
    body: bytes
    correlation_id: str
    id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(12)}")


@dataclass(slots=True, eq=False)
class Lane:
    """What is to be told about one job or one batch."""

    url: str
    kind: str
    correlation_id: str
    batch_id: str
    pending: dict[str, dict[str, Any]] = field(default_factory=dict)
    held: list[Message] = field(default_factory=list)
    busy: bool = False


class Hooks:
    def __init__(self, faults: Faults, stats: Stats, sender: Sender) -> None:
        self._faults = faults
        self._stats = stats
        self._sender = sender
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes: dict[str, Lane] = {}

    def clear(self) -> None:
        """Forget everything that has not been sent yet."""
        for task in self._tasks:
            task.cancel()
        self._lanes = {}

    def changed(self, job: Job) -> None:
        """The job's latest state will be told, soon."""
        if not job.webhook_url:
            return
        batch_id = job.batch.id if job.batch else ""
        lane = self._lanes.get(batch_id or job.id)
        if lane is None:
            lane = Lane(job.webhook_url, job.kind, job.correlation_id, batch_id)
            self._lanes[batch_id or job.id] = lane
        lane.pending[job.id] = job.update()
        if not lane.busy:
            lane.busy = True
            self._spawn(self._run(lane, batch_id or job.id))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, lane: Lane, key: str) -> None:
        while lane.pending:
            if lane.batch_id:
                await asyncio.sleep(self._faults.seconds("coalesce_ms"))
            updates, lane.pending = list(lane.pending.values()), {}
            size = self._faults.number("jobs_per_webhook")
            parts = [updates[start : start + size] for start in range(0, len(updates), size)]
            await asyncio.gather(*(self._emit(lane, self._message(lane, part)) for part in parts))
        lane.busy = False
        if self._lanes.get(key) is lane and not lane.held:
            del self._lanes[key]

    def _message(self, lane: Lane, updates: list[dict[str, Any]]) -> Message:
        said = {"batch_id": lane.batch_id, "jobs": updates} if lane.batch_id else {"jobs": updates}
        self._count(lane.kind, "messages")
        self._count(lane.kind, "updates", len(updates))
        body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        return Message(lane.url, lane.kind, body, lane.correlation_id)

    def _count(self, kind: str, what: str, number: int = 1) -> None:
        self._stats.webhooks[kind][what] += number

    async def _emit(self, lane: Lane, message: Message) -> None:
        """First attempt of a message, or what the faults make of it."""
        faults = self._faults
        if faults.strikes("drop"):
            self._count(message.kind, "dropped")
            return
        if faults.strikes("duplicate"):
            self._count(message.kind, "duplicated")
            self._spawn(self._later(faults.random.uniform(0.05, 0.5), message))
        if faults.strikes("reorder"):
            self._count(message.kind, "reordered")
            lane.held.append(message)
            self._spawn(self._let_go(lane, message))
            return
        if faults.strikes("delay"):
            self._count(message.kind, "delayed")
            self._spawn(self._later(faults.random.uniform(0, faults.seconds("delay_ms")), message))
            return
        await self._send(message)
        held, lane.held = lane.held, []
        for overtaken in held:
            self._spawn(self._send(overtaken))

    async def _later(self, seconds: float, message: Message) -> None:
        await asyncio.sleep(seconds)
        await self._send(message)

    async def _let_go(self, lane: Lane, message: Message) -> None:
        """The last message of a lane has none that could overtake it."""
        await asyncio.sleep(HELD_AT_MOST_SECONDS)
        if message in lane.held:
            lane.held.remove(message)
            await self._send(message)
        if not lane.busy and not lane.held:
            for key in [key for key, other in self._lanes.items() if other is lane]:
                del self._lanes[key]

    async def _send(self, message: Message, attempt: int = 0) -> None:
        self._count(message.kind, "attempts")
        status = await self._sender.post(message.url, message.id, message.body, message.correlation_id)
        if status is not None and 200 <= status < 300:
            self._count(message.kind, "delivered")
        elif attempt < len(RETRY_SECONDS):
            self._count(message.kind, "retried")
            self._spawn(self._again(RETRY_SECONDS[attempt], message, attempt + 1))
        else:
            self._count(message.kind, "gave_up")
            log("webhook_gave_up", webhook_id=message.id, status=status, correlation_id=message.correlation_id)

    async def _again(self, seconds: float, message: Message, attempt: int) -> None:
        await asyncio.sleep(seconds)
        await self._send(message, attempt)
