"""Ask providers to cancel what somebody wants stopped. Their answer goes through `apply` and decides the race."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from tasks import providers
from tasks.external.updates import apply
from tasks.models import ExternalJob, Task
from tasks.providers.base import ProviderError, ProviderUpdate
from tasks.states import Cause, JobState, State

ASK_AGAIN = timedelta(seconds=30)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    task_id: int
    provider: str
    job_id: str


def claim(kind: str, limit: int, now: datetime) -> list[Wish]:
    """Running tasks of a kind that are to be stopped, and whose job the provider has; asked again after a while."""
    with transaction.atomic():
        rows = Task.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        due = rows.filter(
            kind=kind,
            state=State.RUNNING,
            cancel_requested_at__isnull=False,
            next_attempt_at__lte=now,
            jobs__state=JobState.SUBMITTED,
        )
        ids = list(due.order_by("pk").values_list("pk", flat=True)[:limit])
        Task.objects.filter(pk__in=ids).update(next_attempt_at=now + ASK_AGAIN)
        jobs = ExternalJob.objects.filter(task_id__in=ids, state=JobState.SUBMITTED)
        return [Wish(job.task_id, job.provider, job.job_id) for job in jobs]


def call(wish: Wish) -> ProviderUpdate | None:
    """Ask; in a thread, without the database. None where the provider gave no answer: asked again, and polled."""
    provider = providers.get(wish.provider)
    try:
        return provider.cancel(wish.job_id) if provider else None
    except ProviderError as error:
        log.warning("cancel_not_answered", task=wish.task_id, provider=wish.provider, error=error.code)
    except Exception:
        log.exception("cancel_broke", task=wish.task_id, provider=wish.provider)
    return None


def settle(wish: Wish, update: ProviderUpdate | None, now: datetime) -> None:
    if update is not None:
        apply(update, provider=wish.provider, cause=Cause.WORKER, now=now)
