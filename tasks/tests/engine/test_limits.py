"""Limits of a kind: pause, hold, concurrency, rate."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from tasks.engine import clock
from tasks.external import starting
from tasks.models import KindPolicy, Task
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
