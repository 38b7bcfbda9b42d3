"""Jobs that take longer than their kind allows. The attempt fails at once; to save its cost, the job is marked to be
stopped, and the cancel stream of its account asks the provider (`tasks.external.cancelling`).

A start without an answer is none of them: a new one could be the second (`tasks.external.unanswered`)."""

from datetime import datetime
from typing import Any

from tasks.engine import lifecycle, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import ExternalJob
from tasks.states import Cause, JobState, State

CHUNK = 500
MOST = 20 * CHUNK  # in one sweep
OPEN = (JobState.SUBMITTED,)


def time_out(now: datetime) -> int:
    """Fail what is late; returns how many."""
    count = 0
    while count < MOST:
        ended = _time_out_some(now)
        count += ended
        if ended < CHUNK:
            break
    return count


def _time_out_some(now: datetime) -> int:
    late = ExternalJob.objects.filter(state__in=OPEN, task__state=State.RUNNING, task__deadline_at__lt=now)
    ids = list(late.order_by("pk").values_list("task_id", flat=True)[:CHUNK])
    if not ids:
        return 0
    count = 0
    with UnitOfWork.opened(cause=Cause.POLL, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(ids, deadline_at__lt=now)}
        for job in unit.jobs_of(tasks.values()).values():
            text = f"The provider did not finish within the time that the kind's policy allows.{last_word(job)}"
            if job.state in OPEN and lifecycle.fail(unit, tasks[job.task_id], code="timed_out", text=text):
                unit.job(job, **closed(unit, JobState.FAILED, text), stop_at=now if job.job_id else None)
                unit.wake(wake.CANCEL)
                count += 1
    return count


def closed(unit: UnitOfWork, state: JobState, text: str) -> dict[str, Any]:
    """The fields of a job that we give up."""
    return {
        "state": state,
        "finished_at": unit.now,
        "finished_by": unit.cause.value,
        "next_poll_at": None,
        "error_text": text,
    }


def last_word(job: ExternalJob) -> str:
    """What the provider said of it last, in its own words; it may say what ours hide ("aborted")."""
    status = f" Its last word was “{job.provider_status}”." if job.provider_status else ""
    return f"{status} {job.error_text}".rstrip()[:1000]
