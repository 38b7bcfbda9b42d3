"""What a service tells us of its jobs: `{"job_id", "status", "progress"?, "error"?, "result"?}`, or a list. Pure.

These words are ours (docs/providers/http.md); several spellings of each are understood, and any other is unknown.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tasks.providers.base import ParsedCallback, ProviderUpdate, Unparseable
from tasks.providers.payloads import callback, job_id, moment, normal, readable, text, word
from tasks.states import JobStatus

STATUSES = {
    "queued": JobStatus.QUEUED,
    "pending": JobStatus.QUEUED,
    "accepted": JobStatus.QUEUED,
    "running": JobStatus.RUNNING,
    "processing": JobStatus.RUNNING,
    "started": JobStatus.RUNNING,
    "succeeded": JobStatus.SUCCEEDED,
    "completed": JobStatus.SUCCEEDED,
    "success": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "error": JobStatus.FAILED,
    "cancelled": JobStatus.CANCELLED,
    "canceled": JobStatus.CANCELLED,
}
MAX_UPDATES = 10_000


def started(said: Any, reference: str) -> str:
    """The job's id as the answer to a start names it; without one it is our reference."""
    return _named(said) or reference


def parse(body: bytes) -> ParsedCallback:
    """Read a callback. Entries that cannot be read have their `problem`; Unparseable where none can."""
    said = callback(body)
    jobs = said.get("jobs")
    if jobs is None:
        found = update(said)
        return ParsedCallback((replace(found, brought=body) if _brings(said, found) else found,))
    if not isinstance(jobs, list) or len(jobs) > MAX_UPDATES:
        raise Unparseable(f"jobs is not a list of at most {MAX_UPDATES} jobs")
    updates = tuple(readable(update, job, _named) for job in jobs)
    if updates and all(found.problem for found in updates):
        raise Unparseable(updates[0].problem)
    return ParsedCallback(updates)


def _brings(said: Mapping[str, Any], found: ProviderUpdate) -> bool:
    return "result" in said and found.status == JobStatus.SUCCEEDED


def update(job: Any) -> ProviderUpdate:
    """One job's object. Raises Unparseable."""
    if not isinstance(job, Mapping):
        raise Unparseable("the job is not an object")
    known = _named(job)
    if not known:
        raise Unparseable("there is neither a job_id nor our reference")
    status = word(job.get("status"))
    code, words = _error(job.get("error"))
    return ProviderUpdate(
        known,
        status=STATUSES.get(normal(status), JobStatus.UNKNOWN),
        raw_status=status,
        progress=_progress(job.get("progress")),
        error_code=code,
        error_text=words,
        happened_at=moment(job.get("finished_at")),
        reference=job_id(job.get("reference")),
        is_permanent=job.get("permanent") is True,
    )


def _named(job: Any) -> str:
    if not isinstance(job, Mapping):
        return ""
    return job_id(job.get("job_id")) or job_id(job.get("id")) or job_id(job.get("reference"))


def _error(error: Any) -> tuple[str, str]:
    if isinstance(error, Mapping):
        return text(error.get("code"))[:60], text(error.get("message"))
    return "", text(error)


def _progress(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return None
    return int(value)
