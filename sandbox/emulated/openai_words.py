"""How the emulated OpenAI words things: messages of a response, lines of a batch, what it refuses."""

from __future__ import annotations

import json
import secrets
from typing import Any

from sandbox.emulated.engine import No
from sandbox.provider.jobs import CANCELLED, COMPLETED, FAILED, PROCESSING, QUEUED, Job

MAX_INPUT = 100_000  # characters; OpenAI's own bound is ten millions
RESPONSE = {
    QUEUED: "queued",
    PROCESSING: "in_progress",
    COMPLETED: "completed",
    FAILED: "failed",
    CANCELLED: "cancelled",
}


def checked(body: dict[str, Any]) -> None:
    if not isinstance(body.get("model"), str):
        raise No(400, "missing_required_parameter", "Missing required parameter: 'model'.")
    if body["model"] == "no-such-model":
        raise No(400, "model_not_found", "The requested model 'no-such-model' does not exist.")
    if len(prompt(body)) > MAX_INPUT:
        raise No(400, "string_above_max_length", f"Invalid 'input': string too long. At most {MAX_INPUT} characters.")


def prompt(body: dict[str, Any]) -> str:
    given = body.get("input")
    return given if isinstance(given, str) else json.dumps(given)


def schema(body: dict[str, Any]) -> str:
    return str(((body.get("text") or {}).get("format") or {}).get("name") or "")


def message(words: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{secrets.token_hex(12)}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def bad(job: Job, fate: str) -> dict[str, Any]:
    line: dict[str, Any] = {"id": f"batch_req_{secrets.token_hex(8)}", "custom_id": job.reference}
    if job.status == FAILED:
        error = {"message": (job.error or {}).get("message", ""), "type": "server_error", "code": "server_error"}
        return line | {"response": {"status_code": 500, "request_id": "r", "body": {"error": error}}, "error": None}
    words = "This request could not be executed before the completion window expired."
    return line | {"response": None, "error": {"code": f"batch_{fate}", "message": words}}
