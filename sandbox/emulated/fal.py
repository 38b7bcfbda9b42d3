"""fal: its queue below `/fal/<model>`, its public keys, and webhooks signed with Ed25519.

Any model answers: with what the sandbox would make of a business, else with its own input.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.emulated.engine import Emulated, No, json_object
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, PROCESSING, QUEUED, Job
from sandbox.provider.sender import Sender
from sandbox.web import Request

STATUSES = {QUEUED: "IN_QUEUE", PROCESSING: "IN_PROGRESS"}
USER = "user_sandbox"
KEYS = "/.well-known/jwks.json"


class SignedSender(Sender):
    """fal's headers in place of those of Standard Webhooks."""

    def __init__(self, secret: str) -> None:
        super().__init__(secret)
        self.rotate()

    def rotate(self) -> None:
        self.private = Ed25519PrivateKey.generate()

    def _headers(self, webhook_id: str, body: bytes, correlation_id: str) -> dict[str, str]:
        timestamp = str(int(time.time()))
        signed = "\n".join((webhook_id, USER, timestamp, hashlib.sha256(body).hexdigest()))
        return {
            "content-type": "application/json",
            "x-fal-webhook-request-id": webhook_id,
            "x-fal-webhook-user-id": USER,
            "x-fal-webhook-timestamp": timestamp,
            "x-fal-webhook-signature": self.private.sign(signed.encode()).hex(),
        }


class Fal(Emulated):
    def clear(self) -> None:
        super().clear()
        self._sender = SignedSender(self.webhook_secret)

    def is_public(self, request: Request) -> bool:
        return request.path.endswith((KEYS, "/_rotate"))

    def is_allowed(self, request: Request) -> bool:
        return self.is_key(request.header(b"authorization"), b"Key ")

    def worded(self, no: No) -> dict[str, Any]:
        return {"detail": no.message}

    async def routed(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        if parts == [".well-known", "jwks.json"]:
            return 200, self._keys()
        if parts == ["_rotate"]:
            self._sender.rotate()
            return 200, self._keys()
        match request.method.decode("latin-1"), parts:
            case "POST", [_, _, *_] if "requests" not in parts:
                return 200, self._submit(request, parts)
            case "GET", [*app, "requests", name, "status"]:
                return self._status(request, app, self._job(name))
            case "GET", [*_, "requests", name]:
                return await self._response(self._job(name))
            case "PUT", [*_, "requests", name, "cancel"]:
                return self._cancel(self._job(name))
        raise No(404, "not_found", "Not Found")

    def _keys(self) -> dict[str, Any]:
        raw = self._sender.private.public_key().public_bytes_raw()
        x = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        return {"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "x": x}]}

    def _submit(self, request: Request, parts: list[str]) -> dict[str, Any]:
        job = self.begin(json_object(request), "", time.time())
        job.webhook_url = dict(request.parameters()).get("fal_webhook", "")
        self.run([job])
        return self._urls(request, parts[: 3 if parts[0] in ("workflows", "comfy") else 2], job) | {
            "gateway_request_id": job.id,
            "status": "IN_QUEUE",
            "queue_position": 0,
        }

    def _urls(self, request: Request, app: list[str], job: Job) -> dict[str, Any]:
        host = request.header(b"host").decode("latin-1")
        url = f"http://{host}{request.prefix}/fal/{'/'.join(app)}/requests/{job.id}"
        return {
            "request_id": job.id,
            "response_url": url,
            "status_url": f"{url}/status",
            "cancel_url": f"{url}/cancel",
        }

    def _job(self, name: str) -> Job:
        job = self.store.get(name)
        if job is None or not job.visible(time.time()):
            raise No(404, "not_found", "Request not found")
        return job

    def _status(self, request: Request, app: list[str], job: Job) -> tuple[int, Any]:
        said = self._urls(request, app, job) | {"logs": []}
        if job.odd:
            return 202, said | {"status": "WARMING_UP"}
        if not job.finished:
            return 202, said | {"status": STATUSES[job.status], "queue_position": 0}
        problem = {"error": _error(job), "error_type": "runner_error"} if job.status != COMPLETED else {}
        return 200, said | {"status": "COMPLETED", "metrics": {"inference_time": 0.1}} | problem

    async def _response(self, job: Job) -> tuple[int, Any]:
        if not job.finished:
            raise No(400, "in_progress", "Request is still in progress")
        if job.status != COMPLETED:
            raise No(500, "runner_error", _error(job))
        return 200, await self._output(job)

    async def _output(self, job: Job) -> Any:
        wanted = str(job.input.get("kind") or "scoring")
        return json.loads(await self.answer(json.dumps(job.input), wanted)) if "business" in job.input else job.input

    def _cancel(self, job: Job) -> tuple[int, Any]:
        if job.finished:
            return 400, {"status": "ALREADY_COMPLETED"}
        was = job.status
        self.runner.cancel(job)
        return (200, {"status": "OK"}) if was == QUEUED else (202, {"status": "CANCELLATION_REQUESTED"})

    def changed(self, job: Job) -> None:
        if job.finished and job.status != CANCELLED and job.webhook_url and not self.faults.strikes("drop"):
            self.spawn(self._tell(job))

    async def _tell(self, job: Job) -> None:
        said: dict[str, Any] = {"request_id": job.id, "gateway_request_id": job.id}
        if job.status == FAILED:
            said |= {"status": "ERROR", "error": _error(job), "payload": {"detail": _error(job)}}
        else:
            said |= {"status": "OK", "error": None, "payload": await self._output(job)}
        await self._sender.post(job.webhook_url, job.id, json.dumps(said).encode(), "")


def _error(job: Job) -> str:
    return job.error["message"] if job.error else "The request was cancelled."
