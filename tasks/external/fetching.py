"""Fetch results of jobs that are finished upstream, one call for each; those of shared jobs are `shared_results`'.

Fetching is a step of its own, with retries of its own: not there yet, too many calls, provider down. What the provider
forgets first is fetched first. The URL is built by the adapter from its own base and the job id, never from a payload.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F, QuerySet

from kernel import correlation
from kernel.network.http import body_cap
from tasks import accounts
from tasks.accounts import limits as account_limits
from tasks.engine.unit_of_work import UnitOfWork
from tasks.external import fetched as verdicts
from tasks.external import kept
from tasks.external.fetched import Fetched
from tasks.external.refs import ref_of
from tasks.models import ExternalJob, Task
from tasks.providers.base import BadAnswer, JobRef, Provider, ProviderError, ProviderUnavailable
from tasks.states import Cause, State

LEASE = timedelta(seconds=90)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Fetch:
    task_id: int
    token: uuid.UUID
    kind: str
    input: Mapping[str, Any]
    correlation_id: str
    account: str
    provider: Provider | None
    job: JobRef
    begun_at: datetime


def due_at(account: str, now: datetime) -> QuerySet[Task]:
    """Results to fetch now from an account, each in a call of its own; what is forgotten first comes first."""
    rows = Task.objects.filter(state=State.FETCHING, fetch_account=account, fetch_job="", lease_token__isnull=True)
    return rows.filter(next_attempt_at__lte=now).order_by(F("deadline_at").asc(nulls_last=True), "next_attempt_at")


def claim(account: str, limit: int, now: datetime) -> list[Fetch]:
    """Lease what is due at an account, within its calls; the next try is moved ahead before anything is called."""
    token = uuid.uuid4()
    with transaction.atomic():
        locked = due_at(account, now).select_for_update(no_key=True, skip_locked=True, of=("self",))
        tasks = list(locked.defer("result")[:limit])
        if tasks:
            tasks = tasks[: account_limits.take_calls(account, now, len(tasks))]
        if not tasks:
            return []
        ids = [task.pk for task in tasks]
        lease = {"lease_token": token, "leased_until": now + LEASE, "next_attempt_at": now + LEASE}
        Task.objects.filter(pk__in=ids).update(fetch_count=F("fetch_count") + 1, **lease)
        jobs = {job.task_id: job for job in ExternalJob.objects.filter(task_id__in=ids).order_by("pk")}
        provider = accounts.get(account)
        brought = kept.brought(jobs.values()) if provider is not None and provider.brings_results else {}
    return [_fetch(task, jobs[task.pk], provider, token, now, brought) for task in tasks]


def next_due(account: str) -> datetime | None:
    """When a result of this account is to be fetched next."""
    waiting = Task.objects.filter(state=State.FETCHING, fetch_account=account, fetch_job="", lease_token__isnull=True)
    first = waiting.order_by("next_attempt_at").values_list("next_attempt_at", flat=True).first()
    return account_limits.asked_again_at(account, first)


def _fetch(
    task: Task,
    job: ExternalJob,
    provider: Provider | None,
    token: uuid.UUID,
    now: datetime,
    brought: Mapping[int, bytes],
) -> Fetch:
    ref = replace(ref_of(job, task.kind), brought=brought.get(job.pk))
    return Fetch(task.pk, token, task.kind, task.input, task.correlation_id, job.provider, provider, ref, now)


def call(fetch: Fetch) -> Fetched:
    """Ask the provider; in a thread, without the database. Never raises."""
    provider = fetch.provider
    if provider is None:
        return Fetched(error=ProviderUnavailable(f"The account {fetch.account} or its adapter is not there any more."))
    with correlation.bind(fetch.correlation_id):
        try:
            with body_cap(verdicts.bytes_taken(fetch.kind)):
                found = provider.result(fetch.job)
            return verdicts.of(found, fetch.kind)
        except ProviderError as error:
            return Fetched(error=error)
        except Exception as error:
            log.exception("fetch_broke", task=fetch.task_id, error=type(error).__name__)
            return Fetched(error=BadAnswer("Fetching the result broke unexpectedly; see the log."))


def settle(pairs: Sequence[tuple[Fetch, Fetched]], now: datetime) -> None:
    """Write what came of many fetches, in one transaction. A fetch whose lease was taken over writes nothing."""
    by_id = {fetch.task_id: (fetch, fetched) for fetch, fetched in pairs}
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        tasks = [task for task in unit.lock(by_id) if task.state == State.FETCHING]
        jobs = unit.jobs_of(tasks)
        for task in tasks:
            fetch, fetched = by_id[task.pk]
            if task.lease_token == fetch.token:
                if fetched.error is None and fetch.job.brought is not None:
                    kept.drop(jobs[task.pk])  # it served; what is wrong with it is kept anew
                verdicts.judge(unit, task, jobs[task.pk], fetch.input, fetched)
    errors = [(fetch, fetched.error) for fetch, fetched in pairs if fetched.error is not None]
    if errors:
        first = min(fetch.begun_at for fetch, _ in errors)
        account_limits.hold_all(errors[0][0].account, [error for _, error in errors], first, now)
