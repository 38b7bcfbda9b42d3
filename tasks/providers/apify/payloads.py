"""How Apify writes its runs and its webhooks. Pure."""

from collections.abc import Mapping
from typing import Any

from tasks.providers.base import ParsedCallback, ProviderUpdate, Unparseable
from tasks.providers.payloads import callback, job_id, moment, needed_id, normal, text, word
from tasks.states import JobStatus

STATUSES = {  # ActorJobStatus
    "ready": JobStatus.QUEUED,
    "running": JobStatus.RUNNING,
    "timing_out": JobStatus.RUNNING,
    "aborting": JobStatus.RUNNING,
    "succeeded": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "timed_out": JobStatus.FAILED,
    "aborted": JobStatus.CANCELLED,
}
EVENTS = {  # WebhookEventType, after `ACTOR.RUN.`; what it means where the payload shows no run
    "CREATED": "READY",
    "SUCCEEDED": "SUCCEEDED",
    "FAILED": "FAILED",
    "TIMED_OUT": "TIMED-OUT",
    "ABORTED": "ABORTED",
    "RESURRECTED": "RUNNING",
}
OF_RUNS = "ACTOR.RUN."
_ENDED_BADLY = frozenset({JobStatus.FAILED, JobStatus.CANCELLED})


def update(run: Any) -> ProviderUpdate:
    """A Run object. Raises Unparseable."""
    if not isinstance(run, Mapping):
        raise Unparseable("the run is not an object")
    known, status = needed_id(run.get("id"), "id of a run"), word(run.get("status"))
    return _said(known, status, run)


def _said(known: str, status: str, run: Mapping[str, Any]) -> ProviderUpdate:
    means = STATUSES.get(normal(status), JobStatus.UNKNOWN)
    failed = means in _ENDED_BADLY
    return ProviderUpdate(
        known,
        status=means,
        raw_status=status,
        error_code=normal(status) if means == JobStatus.FAILED else "",
        error_text=_why(run) if failed else "",
        happened_at=moment(run.get("finishedAt")),
    )


def _why(run: Mapping[str, Any]) -> str:
    code = run.get("exitCode")
    ended = f"Exit code {code}." if isinstance(code, int) and code else ""
    return text(" ".join(words for words in (str(run.get("statusMessage") or ""), ended) if words))


def parse(body: bytes) -> ParsedCallback:
    """A webhook by the default payload template: the event, and the run as it was then. Raises Unparseable."""
    said = callback(body)
    event = said.get("eventType")
    if not isinstance(event, str) or not event:
        raise Unparseable("there is no eventType")
    run = said.get("resource")
    data = said.get("eventData")
    known = job_id(data.get("actorRunId")) if isinstance(data, Mapping) else ""
    known = known or (job_id(run.get("id")) if isinstance(run, Mapping) else "")
    word_of_event = EVENTS.get(event.removeprefix(OF_RUNS)) if event.startswith(OF_RUNS) else None
    if word_of_event is None:
        return ParsedCallback(unknown_event=event[:60])
    if not known:
        raise Unparseable("neither eventData nor resource has the run's id")
    shown = run if isinstance(run, Mapping) else {}
    status = shown.get("status")
    return ParsedCallback((_said(known, word(status) if status is not None else word_of_event, shown),))


def reference(run: Any, mark: str) -> str:
    """Our start token, which the run's user agent carries behind `mark`; "" where it carries none."""
    meta = run.get("meta") if isinstance(run, Mapping) else None
    agent = meta.get("userAgent") if isinstance(meta, Mapping) else None
    if not isinstance(agent, str) or not agent.startswith(mark):
        return ""
    return agent[len(mark) :][:200]
