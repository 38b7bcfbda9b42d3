"""Ask providers to cancel what nobody wants any more. Their answer goes through `apply` and decides the race.

Two sorts: running tasks that somebody wants stopped, and jobs that took too long, whose task goes on without them. A
job that many tasks share is cancelled only when nobody wants any of its items; before that an item is marked, its task
ends, and its result is not used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F

from tasks import accounts
from tasks.accounts import limits as account_limits
from tasks.engine import lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external import items
from tasks.external.refs import ref_of
from tasks.external.updates import apply_many
from tasks.models import ExternalJob, Task
from tasks.providers.base import BadAnswer, JobRef, NotThere, Provider, ProviderError, ProviderUpdate
from tasks.states import Cause, JobState, State

ASK_AGAIN = timedelta(seconds=30)
STOP_TRIES = 5  # so often a late job's provider is asked to stop it: after that it costs what it costs
LIMIT = 500
ONLY_MARKED = "Only this item was cancelled: its job goes on for the others, and this item's result is not used."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    """A call to make. `job_ids`: our rows that it is for. `is_late`: its task goes on without it."""

    provider: Provider
    job: JobRef
    job_ids: tuple[int, ...]
    is_late: bool
    is_shared: bool
    begun_at: datetime


def due_accounts(now: datetime) -> list[str]:
    """Accounts that have something to cancel now."""
    wanted = ExternalJob.objects.filter(state=JobState.SUBMITTED, task__in=_to_stop(now))
    names = set(wanted.order_by().values_list("provider", flat=True).distinct())
    late = ExternalJob.objects.filter(stop_at__lte=now).order_by().values_list("provider", flat=True).distinct()
    return sorted(names | set(late))


def _to_stop(now: datetime) -> Iterable[Task]:
    return Task.objects.filter(state=State.RUNNING, cancel_requested_at__isnull=False, next_attempt_at__lte=now)


def claim(account: str, limit: int, now: datetime) -> list[Wish]:
    """What is to be cancelled at an account, within its calls; asked again after a while."""
    provider = accounts.get(account)
    if provider is None:
        return []
    _mark_items(account, now)
    with transaction.atomic():
        jobs = [*_wanted(account, limit, now), *_late(account, limit, now)]
        groups = list(_groups(jobs).values())[:limit]
        if groups:
            groups = groups[: account_limits.take_calls(account, now, len(groups))]
        chosen = [job for group in groups for job in group]
        again = now + ASK_AGAIN
        late = [job.pk for job in chosen if job.stop_at is not None]
        ExternalJob.objects.filter(pk__in=late).update(stop_at=again, stop_tries=F("stop_tries") + 1)
        asked = Task.objects.filter(pk__in=[job.task_id for job in chosen if job.stop_at is None])
        asked.update(next_attempt_at=again)
        if shared := {job.job_id for job in chosen if job.item_key}:  # one call for all of them, however many
            same = ExternalJob.objects.filter(provider=account, job_id__in=shared, state=JobState.SUBMITTED)
            Task.objects.filter(pk__in=same.values("task"), state=State.RUNNING).update(next_attempt_at=again)
    return [_wish(provider, group, now) for group in groups]


def _wanted(account: str, limit: int, now: datetime) -> list[ExternalJob]:
    """Open jobs of tasks that somebody wants stopped; all that share one come together."""
    rows = Task.objects.select_for_update(no_key=True, skip_locked=True, of=("self",)).filter(
        state=State.RUNNING,
        cancel_requested_at__isnull=False,
        next_attempt_at__lte=now,
        jobs__state=JobState.SUBMITTED,
        jobs__provider=account,
    )
    ids = list(rows.order_by("next_attempt_at", "pk").values_list("pk", flat=True)[: max(limit, LIMIT)])
    jobs = ExternalJob.objects.filter(task_id__in=ids, state=JobState.SUBMITTED)
    return list(jobs.select_related("task").defer("task__input", "task__result").order_by("pk"))


def _late(account: str, limit: int, now: datetime) -> list[ExternalJob]:
    rows = ExternalJob.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
    due = rows.filter(provider=account, stop_at__lte=now).select_related("task").defer("task__input", "task__result")
    return list(due.order_by("stop_at", "pk")[:limit])


def _groups(jobs: Sequence[ExternalJob]) -> dict[object, list[ExternalJob]]:
    """One call each: the items of a shared job together, every other job alone."""
    groups: dict[object, list[ExternalJob]] = {}
    for job in jobs:
        groups.setdefault((job.job_id, job.stop_at is None) if job.item_key else job.pk, []).append(job)
    return groups


def _wish(provider: Provider, group: Sequence[ExternalJob], now: datetime) -> Wish:
    first = group[0]
    ref = ref_of(first, first.task.kind)
    whole = JobRef(ref.job_id, ref.kind, "", ref.batch_id, ref.options) if first.item_key else ref
    return Wish(provider, whole, tuple(job.pk for job in group), first.stop_at is not None, bool(first.item_key), now)


def _mark_items(account: str, now: datetime) -> None:
    """Items of shared jobs that others still want: nothing is asked, and they end here."""
    shared = ExternalJob.objects.filter(provider=account).exclude(item_key="")
    unwanted = list(shared.filter(state=JobState.SUBMITTED, task__in=_to_stop(now))[:LIMIT])
    late = list(shared.filter(stop_at__lte=now)[:LIMIT])
    wanted = items.open_elsewhere(account, [job.job_id for job in [*unwanted, *late]]) if unwanted or late else set()
    if not wanted:
        return
    ExternalJob.objects.filter(pk__in=[job.pk for job in late if job.job_id in wanted]).update(stop_at=None)
    marked = [job.task_id for job in unwanted if job.job_id in wanted]
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        tasks = {task.pk: task for task in unit.lock(marked, state=State.RUNNING, cancel_requested_at__isnull=False)}
        for job in unit.jobs_of(tasks.values()).values():
            if job.state == JobState.SUBMITTED:
                ended = {"state": JobState.CANCELLED, "finished_at": now, "finished_by": Cause.WORKER.value}
                unit.job(job, **ended, next_poll_at=None, error_text=ONLY_MARKED)
                lifecycle.cancelled_by_provider(unit, tasks[job.task_id], text=ONLY_MARKED)


def call(wish: Wish) -> ProviderUpdate | ProviderError:
    """Ask; in a thread, without the database. An error where the provider gave no answer: asked again, and polled."""
    try:
        return wish.provider.cancel(wish.job)
    except ProviderError as error:
        log.warning("cancel_not_answered", job=wish.job.job_id, provider=wish.provider.name, error=error.code)
        return error
    except Exception as error:
        log.exception("cancel_broke", job=wish.job.job_id, provider=wish.provider.name)
        return BadAnswer(f"The cancel call broke ({type(error).__name__}).")


def settle(pairs: Sequence[tuple[Wish, ProviderUpdate | ProviderError]], now: datetime) -> None:
    """Apply what was answered. A late job is done with once its provider has heard, or does not know it."""
    errors = [(wish, said) for wish, said in pairs if isinstance(said, ProviderError)]
    answered = [(wish, said) for wish, said in pairs if isinstance(said, ProviderUpdate)]
    heard = [wish for wish, _ in answered] + [wish for wish, error in errors if isinstance(error, NotThere)]
    late = ExternalJob.objects.filter(pk__in=[pk for wish in heard if wish.is_late for pk in wish.job_ids])
    late.update(stop_at=None)
    given_up = ExternalJob.objects.filter(pk__in=[pk for wish, _ in errors for pk in wish.job_ids])
    given_up.filter(stop_tries__gte=STOP_TRIES).update(stop_at=None)
    if errors:
        name, first = errors[0][0].provider.name, min(wish.begun_at for wish, _ in errors)
        account_limits.hold_all(name, [error for _, error in errors], first, now)
    for wish, said in answered:
        if not wish.is_late:
            _apply(wish, said, now)


def _apply(wish: Wish, said: ProviderUpdate, now: datetime) -> None:
    if wish.is_shared:
        said = replace(said, item_key="", means_all_items=True)
    updates = items.spread(wish.provider.name, [said])
    for at in range(0, len(updates), LIMIT):
        apply_many(updates[at : at + LIMIT], provider=wish.provider.name, cause=Cause.WORKER, now=now)
