"""Replicate's HTTP API below `/replicate/`: predictions, and their webhooks signed by Standard Webhooks.

Models answer like the sandbox's own kinds: a prompt that ends with a business as JSON gets an e-mail or a score, in
pieces, as a language model writes. Any other input comes back as it went. A model of the owner `nobody` is not there.
"""

from __future__ import annotations

import secrets
import string
from typing import Any

from sandbox.emulated.calling_back import CallingBack, body_of, query_of
from sandbox.emulated.engine import No
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, PROCESSING, QUEUED, Job
from sandbox.times import iso
from sandbox.web import Request

STATUSES = {
    QUEUED: "starting",
    PROCESSING: "processing",
    COMPLETED: "succeeded",
    FAILED: "failed",
    CANCELLED: "canceled",
}
ODD = "warming_up"
PAGE = 100
PIECE = 24
VERSION = "5c7d5dc6dd8bf75c1acaa8565735e7986bc5b66206b55cca93cb72c9bf15ccaa"


class Replicate(CallingBack):
    def worded(self, no: No) -> dict[str, Any]:
        return {"title": no.code, "detail": no.message, "status": no.status}

    async def routes(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        match request.method.decode("latin-1"), parts[1:] if parts[0] == "v1" else []:
            case "GET", ["account"]:
                return 200, {"type": "user", "username": "sandbox", "name": "Sandbox"}
            case "GET", ["webhooks", "default", "secret"]:
                return 200, {"key": self.webhook_secret}
            case "POST", ["predictions"]:
                return await self._start(request, "")
            case "POST", ["models" | "deployments", owner, name, "predictions"]:
                return await self._start(request, f"{owner}/{name}")
            case "GET", ["predictions"]:
                return 200, await self._list(request)
            case "GET", ["predictions", name]:
                return 200, await self._prediction(self.job(name))
            case "POST", ["predictions", name, "cancel"]:
                self.runner.cancel(self.job(name))
                return 200, await self._prediction(self.job(name))
        raise No(404, "Not found", "The requested resource could not be found.")

    async def _start(self, request: Request, model: str) -> tuple[int, Any]:
        asked = body_of(request)
        if model.startswith("nobody/"):
            raise No(404, "Not found", "The requested resource could not be found.")
        if not model and not asked.get("version"):
            raise No(422, "Input validation failed", "- version is required")
        if not isinstance(asked.get("input"), dict) or not asked["input"]:
            raise No(422, "Input validation failed", "- input: prompt is required")
        hook = str(asked.get("webhook") or "")
        events = asked.get("webhook_events_filter") or ["start", "output", "logs", "completed"]
        about = {"model": model or "roundtrip/model", "input": asked["input"], "events": events}
        job = self.started("scoring", {"business": {"name": "Replicate"}}, _id(), hook, about)
        return 201, await self._prediction(job)

    async def _prediction(self, job: Job) -> dict[str, Any]:
        asked = self.asked[job.id]
        removed = job.id in self.expired
        begun = job.status != QUEUED
        return {
            "id": job.id,
            "model": asked["model"],
            "version": VERSION,
            "input": {} if removed else asked["input"],
            "logs": "",
            "output": await self._output(asked["input"]) if job.status == COMPLETED and not removed else None,
            "data_removed": removed,
            "error": job.error["message"] if job.error else None,
            "status": ODD if job.odd else STATUSES[job.status],
            "created_at": iso(job.created_at),
            "started_at": iso(job.updated_at) if begun else None,
            "completed_at": iso(job.finished_at),
            "metrics": {"predict_time": 0.1} if job.finished else {},
            "urls": {name: f"https://api.replicate.com/v1/predictions/{job.id}{path}" for name, path in _URLS.items()},
        }

    async def _output(self, given: dict[str, Any]) -> Any:
        if not isinstance(given.get("prompt"), str):
            return given
        written = await self.answer(given["prompt"], "")
        return [written[start : start + PIECE] for start in range(0, len(written), PIECE)]

    async def _list(self, request: Request) -> dict[str, Any]:
        """The newest first, without input and output, as lists are."""
        at = int(query_of(request).get("cursor") or 0)
        jobs = self.newest()
        shown = [await self._prediction(job) for job in jobs[at : at + PAGE]]
        host = request.header(b"host").decode("latin-1")
        url = f"http://{host}{request.prefix}/replicate/v1/predictions?cursor="
        following = f"{url}{at + PAGE}" if at + PAGE < len(jobs) else None
        return {"previous": None, "next": following, "results": [{**one, "output": None} for one in shown]}

    def changed(self, job: Job) -> None:
        events = self.asked[job.id]["events"]
        event = "completed" if job.finished else "start" if job.progress <= 10 else "output"
        if job.webhook_url and event in events:
            self.spawn(self._announce(job))

    async def _announce(self, job: Job) -> None:
        self.tell(job.webhook_url, await self._prediction(job))


_URLS = {"get": "", "cancel": "/cancel"}


def _id() -> str:
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(26))
