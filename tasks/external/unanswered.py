"""Starts of which nobody knows whether they began anything: no answer came, and their provider cannot be asked.

Unknown is not no. Made again by itself, such work could be done and paid for twice, so the task waits: for a callback
that names the start (`tasks.external.references`), or for a person, who says which job it is or has it started again.
A kind's policy may take the risk. A provider that could be asked, and has not answered until the attempt's time was
over, is waited for in the same way, and asked on.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import structlog

from kernel import audit
from tasks.engine import clock, lifecycle, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import ExternalJob, KindPolicy, Task
from tasks.states import Cause, JobState, State

IN_THE_AIR = timedelta(seconds=90)  # a start call's lease: until then its answer may still come
LIMIT = 500

log = structlog.get_logger(__name__)


def waiting(provider: str | None = None):  # type: ignore[no-untyped-def]
    """The jobs whose start waits for a callback or a person."""
    jobs = ExternalJob.objects.filter(state=JobState.SUBMITTING, unanswered_at__isnull=False)
    return jobs if provider is None else jobs.filter(provider=provider)


def conclude(jobs: Sequence[ExternalJob], now: datetime, cause: Cause) -> None:
    """Of starts at one account that cannot be asked: those whose call is surely over wait, or are made again where the
    kind's policy says so."""
    ripe = {job.pk: job.task_id for job in jobs if now >= job.created_at + IN_THE_AIR and job.unanswered_at is None}
    if not ripe:
        return
    with UnitOfWork.opened(cause=cause, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(ripe.values())}
        again = _kinds_that_start_again(tasks.values())
        for job in unit.jobs_of(tasks.values()).values():
            task = tasks[job.task_id]
            if job.pk not in ripe or job.state != JobState.SUBMITTING:
                continue
            if task.kind in again:
                words = f"{_cannot_be_asked(job)} By the kind's policy it is started again; it may be paid for twice."
                made_again(unit, task, job, words)
            else:
                _wait(unit, task, job, _cannot_be_asked(job), is_asked_on=False)
    log.warning("starts_unanswered", provider=jobs[0].provider, starts=len(ripe))


def conclude_late(jobs: Sequence[ExternalJob], now: datetime, cause: Cause) -> None:
    """Of starts whose provider did not answer our question: those whose attempt's time is over wait too."""
    late = {job.pk: job.task_id for job in jobs if job.unanswered_at is None}
    overdue = Task.objects.filter(pk__in=late.values(), deadline_at__lt=now).values_list("pk", flat=True)
    if not (ids := list(overdue)):
        return
    with UnitOfWork.opened(cause=cause, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(ids)}
        for job in unit.jobs_of(tasks.values()).values():
            if job.pk in late and job.state == JobState.SUBMITTING:
                said = f"{job.provider} has not said whether it took this start in all the time that the attempt has."
                _wait(unit, tasks[job.task_id], job, f"{said} It is asked on.", is_asked_on=True)


def _kinds_that_start_again(tasks: Iterable[Task]) -> set[str]:
    policies = KindPolicy.objects.filter(kind__in={task.kind for task in tasks}, starts_again_unasked=True)
    return set(policies.values_list("kind", flat=True))


def _cannot_be_asked(job: ExternalJob) -> str:
    return f"Nobody knows whether {job.provider} took this start: no answer came, and it cannot be asked."


def _wait(unit: UnitOfWork, task: Task, job: ExternalJob, why: str, *, is_asked_on: bool) -> None:
    words = (
        f"{job.error_text} {why} A callback that names this start takes it on by itself. Otherwise look at "
        f"{job.provider}, then press “It is this job” or “Start again”."
    ).strip()
    if lifecycle.waits_for_answer(unit, task, text=words) and task.is_final:
        close(unit, job, f"{why} Somebody wanted it cancelled: should it run, it is not waited for.")
    else:
        unit.job(job, unanswered_at=unit.now, next_poll_at=job.next_poll_at if is_asked_on else None)


def close(unit: UnitOfWork, job: ExternalJob, words: str) -> None:
    """The start is given up: whatever it began is not this task's any more."""
    unit.job(
        job,
        state=JobState.LOST,
        finished_at=unit.now,
        finished_by=unit.cause.value,
        next_poll_at=None,
        unanswered_at=None,
        error_text=f"{job.error_text} {words}".strip()[:2000],
    )


def made_again(unit: UnitOfWork, task: Task, job: ExternalJob, words: str) -> None:
    """A start is given up, and made again, uncharged: by whoever called and lives, or after a worker that is gone."""
    said = f"{job.error_text} {words}".strip()
    close(unit, job, words)
    if task.lease_token is None:
        lost = ExternalJob.objects.filter(task_id=task.pk, attempt=job.attempt, state=JobState.LOST).exclude(pk=job.pk)
        lifecycle.not_answered(unit, task, text=said, tries=lost.count() + 1)
    else:
        lifecycle.rescue(unit, task, detail=said, back_to_retrying=True)
    unit.wake(wake.START)


# --- what people decide -----------------------------------------------------------------------------------------


def end_cancelled(now: datetime) -> int:
    """Those that somebody wants cancelled end: there is nobody to ask. Returns how many."""
    ids = list(waiting().filter(task__cancel_requested_at__isnull=False).values_list("task_id", flat=True)[:LIMIT])
    return len(_given_up(ids, "Cancelled: should it run, it is not waited for.", Cause.WORKER, now)) if ids else 0


def start_again(
    ids: Iterable[int], *, actor: str, reason: str, cause: Cause = Cause.OPERATOR, now: datetime | None = None
) -> set[int]:
    """Give these tasks' unanswered starts up and make new ones; what may run is paid for as well. Answers who moved."""
    return _given_up(ids, reason, cause, now or clock.now(), actor=actor)


def _given_up(ids: Iterable[int], words: str, cause: Cause, now: datetime, actor: str = "") -> set[int]:
    moved = set()
    with UnitOfWork.opened(cause=cause, now=now, actor=actor) as unit:
        tasks = unit.lock(ids, state=State.RUNNING)
        jobs = unit.jobs_of(tasks)
        for task in tasks:
            job = jobs.get(task.pk)
            if job is not None and is_waiting(job) and lifecycle.start_again(unit, task, text=words):
                close(unit, job, "Given up without knowing whether it ran.")
                moved.add(task.pk)
        if moved and actor:
            audit.record(actor, "start_again", "task", sorted(moved), words)
    return moved


def is_waiting(job: ExternalJob | None) -> bool:
    return job is not None and job.state == JobState.SUBMITTING and job.unanswered_at is not None
