""" "It is this job": a person says which job an unanswered start has begun, and it goes on as if it had been answered.

The provider is asked first: a job that it does not know would be lost by the poll, and the work started a second time.
"""

from datetime import datetime

from django.db import IntegrityError

from kernel import audit
from kernel.parsing import mended
from tasks import accounts
from tasks.engine import clock, lifecycle, wake
from tasks.engine.unit_of_work import UnitOfWork
from tasks.errors import NotAdopted
from tasks.external.starting import settle_one
from tasks.external.unanswered import is_waiting
from tasks.external.updates import apply
from tasks.models import ExternalJob
from tasks.providers.base import JobRef, NotThere, ProviderError, ProviderUpdate, StartedJob
from tasks.states import Cause, State

ID_LENGTH = 200
NOT_WAITING = "Its start does not wait for this any more. Nothing was done."


def adopt(
    task_id: int,
    job_id: str,
    *,
    actor: str,
    reason: str,
    item_key: str = "",
    cause: Cause = Cause.OPERATOR,
    now: datetime | None = None,
) -> str:
    """Take `job_id` for this task's job. Returns what the provider says of it; raises NotAdopted with what to do."""
    job_id, item_key = _clean(job_id, "job id"), _clean(item_key, "item", may_be_empty=True)
    now = now or clock.now()
    orphan = ExternalJob.objects.filter(task_id=task_id).select_related("task").order_by("-pk").first()
    if orphan is None or not is_waiting(orphan):
        raise NotAdopted(NOT_WAITING)
    _refuse_if_taken(orphan, job_id, item_key)
    update = _ask(orphan, job_id, item_key)
    try:
        _take(orphan, job_id, item_key, actor=actor, reason=reason, cause=cause, now=now)
    except IntegrityError:
        raise NotAdopted(f"Another task was given the job {job_id} in the meantime. Nothing was done.") from None
    if (update.job_id, update.item_key) == (job_id, item_key):
        apply(update, provider=orphan.provider, cause=cause, now=now)
    return update.raw_status or update.status.value


def _clean(text: str, what: str, *, may_be_empty: bool = False) -> str:
    text = text.strip()
    if not text and not may_be_empty:
        raise NotAdopted(f"Give the {what}, as the provider names it.")
    if len(text) > ID_LENGTH or not text.isprintable() or mended(text) != text:
        raise NotAdopted(f"The {what} has at most {ID_LENGTH} printable characters. Copy it again.")
    return text


def _refuse_if_taken(orphan: ExternalJob, job_id: str, item_key: str) -> None:
    of_it = ExternalJob.objects.filter(provider=orphan.provider, job_id=job_id, item_key=item_key)
    other = of_it.exclude(pk=orphan.pk).values_list("task_id", flat=True).first()
    if other is not None:
        raise NotAdopted(f"The job {job_id} is that of task {other}. Look for another one. Nothing was done.")


def _ask(orphan: ExternalJob, job_id: str, item_key: str) -> ProviderUpdate:
    """What the provider says of the job. Outside of any transaction."""
    provider = accounts.get(orphan.provider)
    if provider is None:
        raise NotAdopted(f"The account {orphan.provider} or its adapter is not there any more. Nothing was done.")
    try:
        return provider.status(JobRef(job_id, orphan.task.kind, item_key, "", orphan.options))
    except NotThere as error:
        raise NotAdopted(
            f"{orphan.provider} knows no job {job_id}: {error.detail} Copy its id again. Nothing was done."
        ) from None
    except ProviderError as error:
        raise NotAdopted(
            f"{orphan.provider} did not say whether it has this job: {error.detail} Nothing was done. Try again later."
        ) from None


def _take(
    orphan: ExternalJob, job_id: str, item_key: str, *, actor: str, reason: str, cause: Cause, now: datetime
) -> None:
    with UnitOfWork.opened(cause=cause, now=now, actor=actor) as unit:
        tasks = unit.lock([orphan.task_id], state=State.RUNNING)
        job = unit.jobs_of(tasks).get(orphan.task_id)
        if job is None or job.pk != orphan.pk or not is_waiting(job):
            raise NotAdopted(NOT_WAITING)
        settle_one(unit, tasks[0], job, StartedJob(str(job.start_token), job_id, item_key=item_key))
        lifecycle.adopted(unit, tasks[0], detail=f"Somebody says that it is the job {job_id}. {reason}".strip())
        audit.record(actor, "adopt", "task", [orphan.task_id], reason, detail={"job_id": job_id})
        unit.wake(*wake.jobs_named())
