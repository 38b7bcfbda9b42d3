"""Anthropic: Message Batches, below `/anthropic/v1/messages/batches`. It never calls back, as the real one."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from typing import Any

from sandbox.emulated.engine import Emulated, No, json_object, jsonl
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, Job
from sandbox.times import iso
from sandbox.web import Request, answer

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
FATES = {COMPLETED: "succeeded", FAILED: "errored", CANCELLED: "canceled"}
TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass(eq=False)
class Batch:
    id: str
    jobs: list[Job]
    created_at: float
    canceled_at: float | None = None

    @property
    def has_ended(self) -> bool:
        return all(job.finished for job in self.jobs)


class Anthropic(Emulated):
    def clear(self) -> None:
        super().clear()
        self._batches: dict[str, Batch] = {}

    def is_allowed(self, request: Request) -> bool:
        """By `x-api-key`, as the documents have it, or as a bearer, as the client of today sends it."""
        given = self.is_key(request.header(b"x-api-key")) or self.is_key(request.header(b"authorization"), b"Bearer ")
        return given and bool(request.header(b"anthropic-version"))

    def worded(self, no: No) -> dict[str, Any]:
        error = {"type": TYPES.get(no.status, "api_error"), "message": no.message}
        return {"type": "error", "error": error, "request_id": f"req_{secrets.token_hex(8)}"}

    async def routed(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        match request.method.decode("latin-1"), parts:
            case "POST", ["v1", "messages", "batches"]:
                return 200, self._shown(request, self._new(json_object(request)))
            case "GET", ["v1", "messages", "batches"]:
                return 200, self._page(request)
            case "GET", ["v1", "messages", "batches", name]:
                return 200, self._shown(request, self._batch(name))
            case "POST", ["v1", "messages", "batches", name, "cancel"]:
                return 200, self._cancel(request, self._batch(name))
            case "GET", ["v1", "messages", "batches", name, "results"]:
                return 200, await self._results(self._batch(name))
        raise No(404, "not_found", "Not found")

    def _new(self, body: dict[str, Any]) -> Batch:
        rows = body.get("requests")
        if not isinstance(rows, list) or not rows:
            raise No(400, "invalid", "requests: Field required")
        names = [row.get("custom_id") if isinstance(row, dict) else None for row in rows]
        if len(set(names)) < len(names) or not all(isinstance(n, str) and _CUSTOM_ID.fullmatch(n) for n in names):
            raise No(400, "invalid", "requests.0.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
        now = time.time()
        jobs = [self.begin(row["params"], row["custom_id"], now) for row in rows]
        batch = Batch(f"msgbatch_{secrets.token_hex(12)}", jobs, now)
        self._batches[batch.id] = batch
        self.run(jobs)
        return batch

    def _batch(self, name: str) -> Batch:
        if name not in self._batches:
            raise No(404, "not_found", "Not found")
        return self._batches[name]

    def _page(self, request: Request) -> dict[str, Any]:
        query = dict(request.parameters())
        newest = list(reversed(self._batches.values()))
        names = [batch.id for batch in newest]
        start = names.index(query["after_id"]) + 1 if query.get("after_id") in names else 0
        limit = int(query.get("limit") or 20)
        page = newest[start : start + limit]
        return {
            "data": [self._shown(request, batch) for batch in page],
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
            "has_more": len(newest) > start + limit,
        }

    def _shown(self, request: Request, batch: Batch) -> dict[str, Any]:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for job in batch.jobs:  # nought until the whole batch has ended
            counts[_fate(job) if batch.has_ended else "processing"] += 1
        ended_at = max(job.finished_at or 0 for job in batch.jobs) if batch.has_ended else None
        host = request.header(b"host").decode("latin-1")
        url = f"http://{host}{request.prefix}/anthropic/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if batch.has_ended else "canceling" if batch.canceled_at else "in_progress",
            "request_counts": counts,
            "created_at": iso(batch.created_at),
            "expires_at": iso(batch.created_at + 86_400),
            "ended_at": iso(ended_at),
            "cancel_initiated_at": iso(batch.canceled_at),
            "archived_at": None,
            "results_url": url if batch.has_ended else None,
        }

    def _cancel(self, request: Request, batch: Batch) -> dict[str, Any]:
        if batch.has_ended:
            raise No(400, "invalid", "Batch cannot be canceled: it has ended.")
        batch.canceled_at = time.time()
        for job in batch.jobs:
            self.runner.cancel(job)
        return self._shown(request, batch)

    async def _results(self, batch: Batch) -> bytes:
        if not batch.has_ended:
            raise No(404, "not_found", "Batch results are not available yet.")
        rows = [{"custom_id": job.reference, "result": await self._result(job)} for job in reversed(batch.jobs)]
        return answer(200, jsonl(rows), b"application/x-jsonl")

    async def _result(self, job: Job) -> dict[str, Any]:
        fate = _fate(job)
        if fate == "errored":
            error = {"type": "invalid_request_error", "message": "model: not found"}
            if job.status == FAILED:
                error = {"type": "api_error", "message": (job.error or {}).get("message", "")}
            return {"type": fate, "error": {"type": "error", "error": error}}
        if fate != "succeeded":
            return {"type": fate}
        content = [{"type": "text", "text": await self.answer(_prompt(job.input), "")}]
        return {
            "type": fate,
            "message": {
                "id": f"msg_{secrets.token_hex(12)}",
                "type": "message",
                "role": "assistant",
                "model": job.input.get("model", ""),
                "content": content,
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 10, "output_tokens": 10},
            },
        }


def _fate(job: Job) -> str:
    """By its model, an item is one that fails, or whose turn never comes."""
    by_model = {"no-such-model": "errored", "too-slow": "expired"}
    return by_model.get(str(job.input.get("model")), "") or FATES[job.status]


def _prompt(params: dict[str, Any]) -> str:
    messages = params.get("messages") or [{}]
    content = messages[-1].get("content")
    return content if isinstance(content, str) else str(content)
