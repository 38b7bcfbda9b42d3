"""Jobs that carry many of our tasks, one item each: what is said of such a job as a whole is said of every item."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tasks import accounts
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import ExternalJob
from tasks.providers.base import ProviderUpdate
from tasks.states import JobState


def spread(provider: str, updates: Sequence[ProviderUpdate], batch_id: str = "") -> list[ProviderUpdate]:
    """Each update that means all items, once for each of our tasks that share its job; the others as they are.

    One that names no job is said of the provider's batch. Where no task has such a job, it stays one: its start may not
    have answered yet. The order is always the same, so that a later look finds each answer at its place.
    """
    if not any(_is_whole(update) for update in updates):
        return list(updates)
    members = _members(provider, [update.job_id for update in updates if _is_whole(update)], batch_id)
    said: list[ProviderUpdate] = []
    for update in updates:
        if not _is_whole(update):
            said.append(update)
        elif items := members.get(update.job_id):
            said += [replace(update, job_id=job_id, item_key=item) for job_id, item in items]
        else:
            said.append(replace(update, job_id=update.job_id or batch_id))
    return said


def _is_whole(update: ProviderUpdate) -> bool:
    return update.means_all_items and not update.item_key


def _members(provider: str, job_ids: Iterable[str], batch_id: str) -> dict[str, list[tuple[str, str]]]:
    """Job id → (job id, item) of all that share it; under "" those of the batch."""
    found: dict[str, list[tuple[str, str]]] = {}
    jobs = ExternalJob.objects.filter(provider=provider).order_by("pk").values_list("job_id", "item_key")
    wanted = set(job_ids)
    for job_id, item in jobs.filter(job_id__in=wanted - {""}):
        found.setdefault(job_id, []).append((job_id, item))
    if "" in wanted and batch_id:
        found[""] = list(jobs.filter(provider_batch_id=batch_id).exclude(job_id=""))
    return found


def open_elsewhere(provider: str, job_ids: Iterable[str]) -> set[str]:
    """Of these shared jobs those that somebody still wants an item of: they must not be cancelled as a whole."""
    others = ExternalJob.objects.filter(provider=provider, job_id__in=set(job_ids), state=JobState.SUBMITTED)
    wanted = others.filter(task__cancel_requested_at=None)
    return set(wanted.order_by().values_list("job_id", flat=True).distinct())


def say_where_results_lie(unit: UnitOfWork, jobs: Iterable[ExternalJob], provider: str) -> None:
    """Of jobs that have just succeeded: where and until when their results are fetched, as their adapter has it."""
    ended = list(jobs)
    adapter = accounts.known(provider) if ended else None
    for job in ended:
        until = adapter.result_until(min(job.ended_at or unit.now, unit.now)) if adapter else None
        shared = job.job_id if adapter is not None and adapter.has_items and job.item_key else ""
        unit.job(job, result_until=until)
        unit.amend(unit.moves[job.task_id].task, fetch_account=provider, fetch_job=shared, deadline_at=until)
