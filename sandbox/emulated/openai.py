"""OpenAI: responses in the background, files, batches, and webhook endpoints, below `/openai/v1`.

The model answers as `sandbox.emulated.model` says. A batch takes as long as the longest of its items.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from sandbox.emulated import openai_words as words
from sandbox.emulated.engine import Emulated, No, json_object, jsonl
from sandbox.emulated.multipart import parts_of
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, QUEUED, Job
from sandbox.provider.sender import Sender
from sandbox.web import Request, answer


@dataclass(eq=False)
class Batch:
    """`fate`: what became of it as a whole, beside its items; see `Batch.status`."""

    id: str
    body: dict[str, Any]
    jobs: list[Job]
    created_at: float
    fate: str = ""
    ended_at: float | None = None
    files: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def status(self) -> str:
        if self.fate:
            return self.fate
        return "in_progress" if any(job.status != QUEUED for job in self.jobs) else "validating"


class OpenAI(Emulated):
    def clear(self) -> None:
        super().clear()
        self._files: dict[str, tuple[str, bytes, float]] = {}
        self._batches: dict[str, Batch] = {}
        self._batch_of: dict[str, Batch] = {}
        self._endpoints: dict[str, dict[str, Any]] = {}
        self._sender = Sender(self.webhook_secret)

    def worded(self, no: No) -> dict[str, Any]:
        return {"error": {"message": no.message, "type": "invalid_request_error", "param": None, "code": no.code}}

    async def routed(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        match request.method.decode("latin-1"), parts[1:]:
            case "POST", ["responses"]:
                return 200, await self._respond(json_object(request))
            case "GET", ["responses", name]:
                return 200, await self._response(self._job(name))
            case "POST", ["responses", name, "cancel"]:
                return 200, await self._cancelled(self._job(name))
            case "POST", ["webhook_endpoints"]:
                return 200, self._endpoint(json_object(request))
            case method, ["files", *rest]:
                return 200, self._of_files(request, method, rest)
            case method, ["batches", *rest]:
                return 200, self._of_batches(request, method, rest)
        raise No(404, "not_found", "There is nothing at this address.")

    def _of_files(self, request: Request, method: str, rest: list[str]) -> Any:
        match method, rest:
            case "POST", []:
                return self._upload(request)
            case "GET", [name, "content"]:
                return answer(200, self._file(name)[1], b"application/octet-stream")
            case "DELETE", [name]:
                self._file(name)
                del self._files[name]
                return {"id": name, "object": "file", "deleted": True}
        raise No(404, "not_found", "There is nothing at this address.")

    def _of_batches(self, request: Request, method: str, rest: list[str]) -> Any:
        match method, rest:
            case "POST", []:
                return self._shown(self._new_batch(json_object(request)))
            case "GET", []:
                return self._page(request)
            case "GET", [name]:
                return self._shown(self._batch(name))
            case "POST", [name, "cancel"]:
                return self._cancel_batch(self._batch(name))
        raise No(404, "not_found", "There is nothing at this address.")

    # responses

    async def _respond(self, body: dict[str, Any]) -> dict[str, Any]:
        words.checked(body)
        job = self.begin(body, "", time.time(), f"resp_{secrets.token_hex(16)}")
        self.run([job])
        return await self._response(job)

    def _job(self, name: str) -> Job:
        job = self.store.get(name)
        if job is None or not job.visible(time.time()):
            raise No(404, "not_found", f"Response with id '{name[:80]}' not found.")
        return job

    async def _response(self, job: Job) -> dict[str, Any]:
        body = job.input
        said: dict[str, Any] = {
            "id": job.id,
            "object": "response",
            "created_at": int(job.created_at),
            "completed_at": int(job.finished_at) if job.status == COMPLETED and job.finished_at else None,
            "status": "warming_up" if job.odd else words.RESPONSE[job.status],
            "background": bool(body.get("background")),
            "error": {"code": "server_error", "message": job.error["message"]} if job.error else None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "metadata": body.get("metadata") or {},
            "model": body["model"],
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": 1.0,
            "top_p": 1.0,
        }
        if job.status == COMPLETED:
            said["output"] = [words.message(await self.answer(words.prompt(body), words.schema(body)))]
        return said

    async def _cancelled(self, job: Job) -> dict[str, Any]:
        if job.status in (COMPLETED, FAILED):
            raise No(400, "response_not_cancellable", "Cannot cancel a completed response.")
        self.runner.cancel(job)
        return await self._response(job)

    # files and batches

    def _upload(self, request: Request) -> dict[str, Any]:
        fields = parts_of(request)
        if fields.get("purpose", ("", b""))[1] != b"batch" or "file" not in fields:
            raise No(400, "invalid_purpose", "Send a file with the purpose batch.")
        filename, content = fields["file"]
        name = f"file-{secrets.token_hex(12)}"
        self._files[name] = (filename, content, time.time())
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": filename,
            "purpose": "batch",
            "status": "processed",
        }

    def _file(self, name: str) -> tuple[str, bytes, float]:
        if name not in self._files:
            raise No(404, "not_found", f"No such File object: {name[:80]}")
        return self._files[name]

    def _new_batch(self, body: dict[str, Any]) -> Batch:
        _, content, _ = self._file(str(body.get("input_file_id")))
        if body.get("completion_window") != "24h" or body.get("endpoint") != "/v1/responses":
            raise No(400, "invalid_value", "completion_window has to be 24h, endpoint /v1/responses.")
        now = time.time()
        batch = Batch(f"batch_{secrets.token_hex(12)}", body, [], now)
        for number, line in enumerate(content.splitlines(), 1):
            try:
                row = json.loads(line)
                words.checked(row["body"])
                batch.jobs.append(self.begin(row["body"], str(row["custom_id"]), now))
            except (ValueError, KeyError, TypeError, No) as error:
                problem = {"code": "invalid_json_line", "line": number, "message": str(error), "param": None}
                batch.errors.append(problem)
        self._batches[batch.id] = batch
        if batch.errors or not batch.jobs:
            batch.fate, batch.ended_at = "failed", now
            self._told("batch.failed", batch.id)
            return batch
        self._batch_of |= {job.id: batch for job in batch.jobs}
        self.run(batch.jobs)
        return batch

    def _batch(self, name: str) -> Batch:
        if name not in self._batches:
            raise No(404, "not_found", f"No batch found with id '{name[:80]}'.")
        return self._batches[name]

    def _page(self, request: Request) -> dict[str, Any]:
        query = dict(request.parameters())
        newest = list(reversed(self._batches.values()))
        names = [batch.id for batch in newest]
        start = names.index(query["after"]) + 1 if query.get("after") in names else 0
        limit = int(query.get("limit") or 20)
        page = newest[start : start + limit]
        return {
            "object": "list",
            "data": [self._shown(batch) for batch in page],
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
            "has_more": len(newest) > start + limit,
        }

    def _shown(self, batch: Batch) -> dict[str, Any]:
        done = sum(job.status == COMPLETED for job in batch.jobs)
        failed = sum(job.status in (FAILED, CANCELLED) for job in batch.jobs)
        status = batch.status()
        said: dict[str, Any] = {
            "id": batch.id,
            "object": "batch",
            "status": status,
            "endpoint": batch.body["endpoint"],
            "input_file_id": batch.body["input_file_id"],
            "completion_window": "24h",
            "created_at": int(batch.created_at),
            "expires_at": int(batch.created_at) + 86_400,
            "metadata": batch.body.get("metadata") or {},
            "request_counts": {"total": len(batch.jobs), "completed": done, "failed": failed},
            "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
            "output_file_id": batch.files.get("output"),
            "error_file_id": batch.files.get("error"),
        }
        if batch.ended_at:
            said[f"{status}_at"] = int(batch.ended_at)
        return said

    def _cancel_batch(self, batch: Batch) -> dict[str, Any]:
        if batch.ended_at:
            raise No(409, "invalid_state", f"Cannot cancel a batch with status '{batch.status()}'.")
        batch.fate = "cancelling"
        for job in batch.jobs:
            self.runner.cancel(job)
        return self._shown(batch)

    def changed(self, job: Job) -> None:
        batch = self._batch_of.get(job.id)
        if batch is None:
            if job.finished:
                self._told(f"response.{words.RESPONSE[job.status]}", job.id)
        elif all(other.finished for other in batch.jobs) and not batch.ended_at:
            batch.ended_at = time.time()
            self.spawn(self._finish(batch))

    async def _finish(self, batch: Batch) -> None:
        """Write both files, then say that it is over."""
        fate = "cancelled" if batch.fate == "cancelling" else self._fate(batch)
        good = [await self._good(job) for job in batch.jobs if job.status == COMPLETED]
        bad = [words.bad(job, fate) for job in batch.jobs if job.status != COMPLETED]
        for kind, rows in (("output", good), ("error", bad)):
            if rows:
                name = batch.files[kind] = f"file-{secrets.token_hex(12)}"
                self._files[name] = (f"{batch.id}_{kind}.jsonl", jsonl(rows), time.time())
        batch.fate = fate
        self._told(f"batch.{fate}", batch.id)

    def _fate(self, batch: Batch) -> str:
        """An item whose model is called so takes more than a day."""
        return "expired" if any(job.input["model"] == "too-slow" for job in batch.jobs) else "completed"

    async def _good(self, job: Job) -> dict[str, Any]:
        body = await self._response(job)
        return {
            "id": f"batch_req_{secrets.token_hex(8)}",
            "custom_id": job.reference,
            "response": {"status_code": 200, "request_id": secrets.token_hex(8), "body": body},
            "error": None,
        }

    # webhooks

    def _endpoint(self, body: dict[str, Any]) -> dict[str, Any]:
        name = f"we_{secrets.token_hex(8)}"
        self._endpoints[name] = body
        return {
            "id": name,
            "object": "webhook_endpoint",
            "created_at": int(time.time()),
            "name": str(body.get("name") or ""),
            "url": str(body.get("url") or ""),
            "event_types": list(body.get("event_types") or ()),
            "signing_secret": self.webhook_secret,
        }

    def _told(self, event: str, name: str) -> None:
        for endpoint in self._endpoints.values():
            if event in (endpoint.get("event_types") or ()) and not self.faults.strikes("drop"):
                self.spawn(self._send(str(endpoint["url"]), event, name))

    async def _send(self, url: str, event: str, name: str) -> None:
        said = {
            "id": f"evt_{secrets.token_hex(12)}",
            "object": "event",
            "created_at": int(time.time()),
            "type": event,
            "data": {"id": name},
        }
        await self._sender.post(url, f"wh_{secrets.token_hex(12)}", json.dumps(said).encode(), "")
