"""Limits of a kind: pause, hold, concurrency, rate."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from kernel.network.openings import parse_openings
from tasks.engine import clock, limits
from tasks.external import starting
from tasks.models import KindPolicy, Task
from tasks.providers.base import ProviderThrottled
from tasks.states import State
from tasks.submit import submit_batch

pytestmark = pytest.mark.usefixtures("unreachable_sandbox")
ITEM = {"input": {"business": {"name": "Bar"}}}


def claimed(calls: int, now: Any) -> int:
    return sum(len(start.jobs) for start in starting.claim("scoring", calls, now))


@pytest.mark.django_db
def test_concurrency_counts_running_and_fetching(make_task: Any, now: Any) -> None:
    KindPolicy.objects.create(kind="scoring", concurrency=5, batch_size=2)
    make_task(State.RUNNING)
    make_task(State.FETCHING)
    make_task(State.RETRYING, next_attempt_at=now + timedelta(hours=1))
    submit_batch("scoring", [ITEM] * 10, caller="t")
    assert claimed(10, clock.now()) == 3
    assert claimed(10, clock.now()) == 0


@pytest.mark.django_db
def test_a_paused_kind_starts_nothing(now: Any) -> None:
    KindPolicy.objects.create(kind="scoring", is_paused=True)
    submit_batch("scoring", [ITEM], caller="t")
    assert claimed(1, clock.now()) == 0 and starting.next_due("scoring") is None


@pytest.mark.django_db
def test_a_rate_is_kept_over_time(now: Any) -> None:
    KindPolicy.objects.create(kind="scoring", rate_per_minute=60, batch_size=5)
    submit_batch("scoring", [ITEM] * 100, caller="t")
    start = clock.now()
    assert claimed(20, start) == 10  # ten seconds' worth at once
    assert claimed(20, start) == 0
    assert claimed(20, start + timedelta(seconds=3)) == 3
    assert claimed(20, start + timedelta(hours=1)) == 10


def start_once(now: Any) -> None:
    """Claim one start, call the provider, settle."""
    (start,) = starting.claim("scoring", 1, now)
    starting.settle(start, starting.call(start), now)


@pytest.mark.django_db
def test_a_hold_ends_as_told(now: Any) -> None:
    KindPolicy.objects.create(kind="scoring")
    submit_batch("scoring", [ITEM], caller="t")
    seconds = limits.hold("scoring", ProviderThrottled("slowly", 30.0), now)
    assert 30 <= seconds <= 31
    assert claimed(1, now + timedelta(seconds=29)) == 0
    assert claimed(1, now + timedelta(seconds=31)) == 1


@pytest.mark.django_db
def test_a_start_that_the_provider_cannot_take_holds_the_kind_and_one_that_works_releases_it(
    sandbox_process: Any, settings: Any
) -> None:
    KindPolicy.objects.create(kind="scoring", batch_size=1)
    submit_batch("scoring", [ITEM] * 2, caller="t")
    now = clock.now()
    start_once(now)  # nothing listens there
    policy = KindPolicy.objects.get()
    assert policy.failure_count == 1 and policy.held_until > now
    assert policy.hold_reason == "provider_unavailable" and policy.hold_text
    assert claimed(1, now) == 0 and Task.objects.filter(state=State.RUNNING).count() == 0
    start_once(policy.held_until)
    again = KindPolicy.objects.get()
    assert again.failure_count == 2 and again.held_until > policy.held_until

    settings.SANDBOX_PROVIDER_URL = sandbox_process.url
    settings.PROVIDER_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    sandbox_process.reset()
    start_once(again.held_until)
    policy = KindPolicy.objects.get()
    assert (policy.failure_count, policy.held_until, policy.hold_reason, policy.hold_text) == (0, None, "", "")
    assert claimed(1, again.held_until + timedelta(minutes=1)) == 1
    assert sandbox_process.stats()["jobs"] == 1


@pytest.mark.django_db
def test_a_shorter_hold_never_ends_a_longer_one(now: Any) -> None:
    KindPolicy.objects.create(kind="scoring")
    limits.hold("scoring", ProviderThrottled("slowly", 300.0), now)
    limits.hold("scoring", ProviderThrottled("slowly", 1.0), now)
    assert KindPolicy.objects.get().held_until >= now + timedelta(seconds=300)


@pytest.mark.django_db(transaction=True)
def test_claimers_side_by_side_never_go_past_the_cap() -> None:
    KindPolicy.objects.create(kind="scoring", concurrency=10, batch_size=3)
    submit_batch("scoring", [ITEM] * 200, caller="t")
    now = clock.now()
    counts: list[int] = []

    def run() -> None:
        try:
            counts.append(claimed(4, now))
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 10 == Task.objects.filter(state=State.RUNNING).count()
