"""How the sandbox writes its jobs: the generic payload, its statuses, its webhook. Pure.

The generic payload is `{"batch_id"?, "jobs": [{"job_id", "status", "progress"?, "error"?}]}` or one job's object.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kernel.parsing import REPLACED, HostileJSON, tolerant_loads
from tasks.providers.base import ListedJob, ParsedCallback, ProviderUpdate, StartedJob, Unparseable
from tasks.states import JobStatus

STATUSES = {
    "queued": JobStatus.QUEUED,
    "processing": JobStatus.RUNNING,
    "completed": JobStatus.SUCCEEDED,
    "failed": JobStatus.FAILED,
    "cancelled": JobStatus.CANCELLED,
    "canceled": JobStatus.CANCELLED,
}
MAX_UPDATES = 10_000


def parse(body: bytes) -> ParsedCallback:
    """Read a callback. Entries that cannot be read have their `problem`; Unparseable where none can."""
    try:
        said = tolerant_loads(body)
    except HostileJSON as error:
        raise Unparseable(f"{error}") from None
    if not isinstance(said, Mapping):
        raise Unparseable("the body is not a JSON object")
    if "jobs" not in said and "job_id" not in said and isinstance(said.get("type"), str):
        return ParsedCallback(unknown_event=said["type"][:60])
    jobs = said.get("jobs", [said])
    if not isinstance(jobs, list) or len(jobs) > MAX_UPDATES:
        raise Unparseable(f"jobs is not a list of at most {MAX_UPDATES} jobs")
    updates = tuple(readable(job, f"jobs[{index}]") for index, job in enumerate(jobs))
    if updates and all(found.problem for found in updates):
        raise Unparseable(updates[0].problem)
    return ParsedCallback(updates, batch_id=str(said.get("batch_id") or "")[:200])


def readable(job: Any, where: str = "the job") -> ProviderUpdate:
    """`update` of one entry among others: what is wrong with it becomes its `problem`."""
    try:
        return update(job, where)
    except Unparseable as error:
        return ProviderUpdate(_job_id(job), problem=str(error))


def _job_id(job: Any) -> str:
    """As text, since some write numbers; "" where there is none that we could store and ask for again."""
    value = job.get("job_id") if isinstance(job, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 10**200 else ""
    is_usable = isinstance(value, str) and 1 <= len(value) <= 200 and REPLACED not in value
    return value if is_usable else ""  # type: ignore[return-value]


def update(job: Any, where: str = "the job") -> ProviderUpdate:
    """One job's object. Raises Unparseable."""
    if not isinstance(job, Mapping):
        raise Unparseable(f"{where} is not an object")
    job_id, status = _job_id(job), job.get("status")
    if not job_id:
        raise Unparseable(f"{where} has no job_id of 1 to 200 characters")
    if not isinstance(status, str) or not status:
        raise Unparseable(f"{where} has no status")
    code, text = _error(job.get("error"))
    return ProviderUpdate(
        job_id=job_id,
        status=STATUSES.get(status.strip().lower(), JobStatus.UNKNOWN),
        raw_status=status[:60],
        progress=_progress(job.get("progress")),
        error_code=code,
        error_text=text,
        happened_at=_time(job.get("finished_at") or job.get("updated_at")),
    )


def listed(job: Any) -> ListedJob:
    """One entry of a listing; its reference counts even where the rest cannot be read."""
    found = readable(job)
    known = job if isinstance(job, Mapping) else {}
    return ListedJob(str(known.get("reference") or "")[:200], found, str(known.get("batch_id") or "")[:200])


def started(job: Any, batch_id: str) -> StartedJob | None:
    """One entry of a start's answer; None where it cannot be read, and then that job alone is looked for."""
    reference = job.get("reference") if isinstance(job, Mapping) else None
    job_id = _job_id(job)
    return StartedJob(reference, job_id, batch_id) if job_id and isinstance(reference, str) else None


def _error(error: Any) -> tuple[str, str]:
    if isinstance(error, Mapping):
        return str(error.get("code") or "")[:60], str(error.get("message") or "")[:2000]
    return "", str(error)[:2000] if error else ""


def _progress(value: Any) -> int | None:
    """A whole percent; anything else is no progress, and no reason to refuse the rest of the callback."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        return None
    return int(value)


def _time(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
