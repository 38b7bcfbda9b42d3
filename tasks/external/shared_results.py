"""Results of jobs that many tasks share: read once, from the first item to the last, and spread to their tasks.

A provider's file of them may be far larger than memory, so it is read in portions: each call takes the next one in the
stream's only thread, where its connection lives, and each portion is settled before the next is taken. Whatever breaks
on the way, what was settled stays; the others wait and are found by a second reading.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F, QuerySet

from kernel import correlation
from tasks import accounts
from tasks.accounts import limits as account_limits
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external import fetched as verdicts
from tasks.external.fetched import Fetched
from tasks.external.refs import ref_of
from tasks.models import ExternalJob, Task
from tasks.providers.base import BadAnswer, JobRef, Provider, ProviderError, ProviderUnavailable
from tasks.states import Cause, State

LEASE = timedelta(seconds=180)
RENEW = timedelta(seconds=45)
PORTION_ITEMS, PORTION_BYTES = 200, 4 * 1024 * 1024  # whichever is reached first
CHUNK = 500

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Reading:
    """One shared job whose results are being read. Must only be called from one thread."""

    account: str
    provider: Provider | None
    job: JobRef
    token: uuid.UUID
    correlation_id: str
    begun_at: datetime
    renewed_at: datetime
    items: Iterator[tuple[str, Any]] | None = None
    seen: int = 0


@dataclass(slots=True)
class Portion:
    """The next items. `is_last`: there are no more; `error`: what is said of all that have not come."""

    items: dict[str, Fetched] = field(default_factory=dict)
    is_last: bool = False
    error: ProviderError | None = None


def _waiting(account: str) -> QuerySet[Task]:
    rows = Task.objects.filter(state=State.FETCHING, fetch_account=account, fetch_job__gt="")
    return rows.filter(lease_token__isnull=True)


def claim(account: str, limit: int, now: datetime) -> list[Reading]:
    """Lease all tasks of a shared job, of the one whose results are forgotten first."""
    due = _waiting(account).filter(next_attempt_at__lte=now)
    first = due.order_by(F("deadline_at").asc(nulls_last=True), "next_attempt_at").first()
    if first is None or not limit:
        return []
    token = uuid.uuid4()
    with transaction.atomic():
        if not account_limits.take_calls(account, now, 1):
            return []
        lease = {"lease_token": token, "leased_until": now + LEASE, "next_attempt_at": now + LEASE}
        same = due.filter(fetch_job=first.fetch_job)
        if not same.update(fetch_count=F("fetch_count") + 1, **lease):
            return []
        job = ExternalJob.objects.filter(provider=account, job_id=first.fetch_job).order_by("-pk").first()
        provider = accounts.get(account)
    ref = ref_of(job, first.kind) if job is not None else JobRef(first.fetch_job, first.kind)
    whole = JobRef(ref.job_id, ref.kind, "", ref.batch_id, ref.options)
    return [Reading(account, provider, whole, token, first.correlation_id, now, now)]


def next_due(account: str) -> datetime | None:
    first = _waiting(account).order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()
    return account_limits.asked_again_at(account, first)


def call(reading: Reading) -> Portion:
    """Read the next items; in a thread, without the database. Never raises."""
    portion, size = Portion(), 0
    with correlation.bind(reading.correlation_id):
        try:
            for key, said in _items(reading):
                fetched = _fetched(said, reading.job.kind)
                portion.items[key] = fetched
                reading.seen += 1
                size += len(fetched.raw or b"")
                if len(portion.items) >= PORTION_ITEMS or size >= PORTION_BYTES:
                    return portion
            portion.is_last = True
        except ProviderError as error:
            portion.error = error
        except Exception as error:
            log.exception("results_broke", job=reading.job.job_id, error=type(error).__name__)
            portion.error = BadAnswer("Reading the results broke unexpectedly; see the log.")
    return portion


def _items(reading: Reading) -> Iterator[tuple[str, Any]]:
    if reading.provider is None:
        raise ProviderUnavailable(f"The account {reading.account} or its adapter is not there any more.")
    if reading.items is None:
        reading.items = iter(reading.provider.results(reading.job))
    return reading.items


def _fetched(said: Any, kind: str) -> Fetched:
    try:
        return verdicts.of(said, kind)
    except BadAnswer as error:
        return Fetched(error=error)


def more(reading: Reading, portion: Portion) -> Reading | None:
    """The same reading again, while it has more to bring."""
    return None if portion.is_last or portion.error is not None else reading


def settle(pairs: Sequence[tuple[Reading, Portion]], now: datetime) -> None:
    """Write a portion; at the end, what becomes of the tasks whose items did not come."""
    for reading, portion in pairs:
        _spread(reading, portion, now)
        if portion.error is not None:
            _leave(reading, portion.error, now)
            account_limits.hold_all(reading.account, [portion.error], reading.begun_at, now)
        elif portion.is_last:
            _leave(reading, None, now)
            log.info("results_read", account=reading.account, job=reading.job.job_id, items=reading.seen)
        elif now > reading.renewed_at + RENEW:
            _leased(reading).update(leased_until=now + LEASE, next_attempt_at=now + LEASE)
            reading.renewed_at = now


def _leased(reading: Reading) -> QuerySet[Task]:
    rows = Task.objects.filter(state=State.FETCHING, fetch_account=reading.account, fetch_job=reading.job.job_id)
    return rows.filter(lease_token=reading.token)


def _spread(reading: Reading, portion: Portion, now: datetime) -> None:
    """Items of nobody, or of tasks that have ended meanwhile, are not used."""
    jobs = ExternalJob.objects.filter(provider=reading.account, job_id=reading.job.job_id)
    item_of = dict(jobs.filter(item_key__in=list(portion.items)).values_list("task_id", "item_key"))
    given = dict(_leased(reading).filter(pk__in=item_of).values_list("pk", "input"))
    if not given:
        return
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        tasks = unit.lock(given, state=State.FETCHING, lease_token=reading.token)
        newest = unit.jobs_of(tasks)
        for task in tasks:
            verdicts.judge(unit, task, newest[task.pk], given[task.pk], portion.items[item_of[task.pk]])


def _leave(reading: Reading, error: ProviderError | None, now: datetime) -> None:
    """Those whose item did not come: the error is said of each; without one they are missing."""
    while ids := list(_leased(reading).order_by("pk").values_list("pk", flat=True)[:CHUNK]):
        with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
            tasks = unit.lock(ids, state=State.FETCHING, lease_token=reading.token)
            newest = unit.jobs_of(tasks)
            for task in tasks:
                if error is not None:
                    verdicts.has_not_come(unit, task, newest[task.pk], error)
                else:
                    verdicts.is_missing(unit, task, newest[task.pk])
