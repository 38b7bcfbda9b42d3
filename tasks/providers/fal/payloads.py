"""How fal writes the status of a request, its webhook, and errors. Pure."""

from collections.abc import Mapping
from typing import Any

from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers.base import BadAnswer, ParsedCallback, ProviderUpdate, Unparseable
from tasks.providers.calls import Said, job_id, text
from tasks.states import JobStatus

STATUSES = {
    "IN_QUEUE": JobStatus.QUEUED,
    "IN_PROGRESS": JobStatus.RUNNING,
    "COMPLETED": JobStatus.SUCCEEDED,  # only where there is no `error` beside it
}
CALLBACK_STATUSES = {"OK": JobStatus.SUCCEEDED, "ERROR": JobStatus.FAILED}
_REFUSED_INPUT = ("422", "validation")  # the model will say the same of the same input


def refusal(said: Any) -> Said:
    """`{"detail": a sentence, or a list of {loc, msg, type}}`, with `error_type` beside it at times."""
    return Said(str(said.get("error_type") or ""), _sentence(said["detail"]))


def is_still_running(words: str) -> bool:
    """Whether a refused result is one that is only not there yet."""
    return "in progress" in words.lower() or "in queue" in words.lower()


def update(name: str, said: Mapping[str, Any]) -> ProviderUpdate:
    """A status answer; it need not repeat the job's name."""
    raw = text(said.get("status"), 60)
    status = STATUSES.get(raw.upper(), JobStatus.UNKNOWN)
    error = said.get("error")
    if status == JobStatus.SUCCEEDED and error:
        code = text(said.get("error_type"), 60)
        return _failed(name, raw, code, _sentence(error))
    return ProviderUpdate(name, status=status, raw_status=raw)


def parse(body: bytes) -> ParsedCallback:
    """A webhook: `{request_id, gateway_request_id, status: OK|ERROR, payload, error}`. `request_id` is the job's name;
    the other one changes when fal tries again by itself."""
    try:
        said = tolerant_loads(body)
    except HostileJSON as error:
        raise Unparseable(f"{error}") from None
    if not isinstance(said, Mapping):
        raise Unparseable("the body is not a JSON object")
    raw = text(said.get("status"), 60)
    try:
        name = job_id(said.get("request_id"))
    except BadAnswer:
        raise Unparseable("the event names no request_id of 1 to 200 characters") from None
    if not raw:
        raise Unparseable("the event has no status")
    status = CALLBACK_STATUSES.get(raw.upper(), JobStatus.UNKNOWN)
    if status != JobStatus.FAILED:
        return ParsedCallback((ProviderUpdate(name, status=status, raw_status=raw),))
    payload = said.get("payload")
    detail = _sentence(payload.get("detail")) if isinstance(payload, Mapping) else ""
    words = ". ".join(part for part in (_sentence(said.get("error")), detail) if part)
    return ParsedCallback((_failed(name, raw, "", words),))


def _failed(name: str, raw: str, code: str, words: str) -> ProviderUpdate:
    is_permanent = any(word in f"{code} {words}".lower() for word in _REFUSED_INPUT)
    return ProviderUpdate(
        name,
        status=JobStatus.FAILED,
        raw_status=raw,
        error_code=code,
        error_text=words[:2000] or "fal says that the request failed, and not why.",
        is_permanent=is_permanent,
    )


def _sentence(value: Any) -> str:
    if isinstance(value, list):  # pydantic's: what is wrong with which field
        rows = [row for row in value if isinstance(row, Mapping)]
        return "; ".join(f"{'.'.join(map(str, row.get('loc') or ()))}: {row.get('msg')}" for row in rows)[:2000]
    return value[:2000] if isinstance(value, str) else ""
