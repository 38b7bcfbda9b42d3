"""Which tasks start next: by urgency, which ages, and within each subscriber's share, always by an index."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from delivery.tests import wire
from tasks.engine import due, limits
from tasks.models import KindPolicy, SubscriberShare, Task
from tasks.states import AGES_SECONDS, Priority, State

pytestmark = pytest.mark.django_db
HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW


def taken(policy: KindPolicy, room: int, now: Any) -> list[int]:
    return [task.pk for task in due.take(policy, room, now)]


@pytest.fixture
def policy(db: None) -> KindPolicy:
    return KindPolicy.objects.create(kind="scoring")


def test_the_more_urgent_start_first_and_those_due_earlier_among_equals(
    make_task: Any, policy: KindPolicy, now: Any
) -> None:
    minutes = {LOW: 3, NORMAL: 2, HIGH: 1}
    tasks = {
        one: make_task(State.QUEUED, priority=one, next_attempt_at=now - timedelta(minutes=m))
        for one, m in minutes.items()
    }
    later = make_task(State.RETRYING, priority=HIGH, next_attempt_at=now)
    make_task(State.QUEUED, priority=HIGH, next_attempt_at=now + timedelta(seconds=1))
    make_task(State.SCHEDULED, priority=HIGH)
    make_task(State.QUEUED, priority=HIGH, kind="map_search")
    expected = [tasks[HIGH].pk, later.pk, tasks[NORMAL].pk, tasks[LOW].pk]
    assert taken(policy, 10, now) == expected
    assert taken(policy, 2, now) == expected[:2] and taken(policy, 0, now) == []


@pytest.mark.parametrize("priority", [NORMAL, LOW])
def test_no_flood_of_urgent_ones_keeps_an_old_one_waiting_for_ever(
    make_task: Any, policy: KindPolicy, now: Any, priority: Priority
) -> None:
    waited = timedelta(seconds=AGES_SECONDS[priority] + 1)
    old = make_task(State.QUEUED, priority=priority, next_attempt_at=now - waited)
    for _ in range(5):
        make_task(State.QUEUED, priority=HIGH, next_attempt_at=now)
    assert taken(policy, 1, now) == [old.pk]


def test_what_has_expired_is_not_started(make_task: Any, policy: KindPolicy, now: Any) -> None:
    make_task(State.QUEUED, expires_at=now)
    alive = make_task(State.QUEUED, expires_at=now + timedelta(seconds=1))
    assert taken(policy, 5, now) == [alive.pk]


def test_one_subscriber_cannot_fill_a_kind(make_task: Any, policy: KindPolicy, now: Any) -> None:
    policy.subscriber_concurrency = 2
    for _ in range(6):
        make_task(State.QUEUED, subscriber="flood", next_attempt_at=now - timedelta(hours=1))
    make_task(State.RUNNING, subscriber="flood")
    full = [make_task(state, subscriber="full") for state in (State.RUNNING, State.FETCHING, State.QUEUED)]
    small = make_task(State.QUEUED, subscriber="small")
    nobodys = make_task(State.QUEUED)
    chosen = due.take(policy, 10, now)
    assert [task.subscriber for task in chosen] == ["flood", "small", ""]
    assert {small.pk, nobodys.pk} < {task.pk for task in chosen} and full[2].pk not in {task.pk for task in chosen}


def test_a_subscribers_rate_is_kept_over_time_and_is_its_own(make_task: Any, policy: KindPolicy, now: Any) -> None:
    policy.subscriber_rate_per_minute = 12
    for name in ("one", "other"):
        for _ in range(5):
            make_task(State.QUEUED, subscriber=name)

    def start(moment: Any) -> list[str]:
        tasks = due.take(policy, 10, moment)
        limits.spend(policy, tasks, moment)
        Task.objects.filter(pk__in=[task.pk for task in tasks]).update(state=State.RUNNING)
        return sorted(task.subscriber for task in tasks)

    assert start(now) == ["one", "one", "other", "other"]  # ten seconds' worth
    assert start(now) == []
    assert start(now + timedelta(seconds=5)) == ["one", "other"]
    assert SubscriberShare.objects.count() == 2


def test_more_subscribers_than_one_look_takes_all_have_their_turn(
    make_task: Any, policy: KindPolicy, now: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(due, "NAMES_AT_ONCE", 2)
    policy.subscriber_concurrency = 1
    for name in "abcde":
        make_task(State.QUEUED, subscriber=name)
    seen: set[str] = set()
    for _ in range(4):
        seen |= {task.subscriber for task in due.take(policy, 10, now)}
    assert seen == set("abcde")
    due._went_on_at.clear()


@pytest.mark.parametrize("shares", [False, True])
def test_the_claim_reads_no_more_than_it_takes(policy: KindPolicy, now: Any, shares: bool) -> None:
    """A hundred thousand waiting of one subscriber, and the plan walks through none of them."""
    policy.subscriber_concurrency = 3 if shares else None
    _flood(20_000, now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tasks_task")
    with wire.counted() as sent:
        assert len(due.take(policy, 50, now)) == (3 if shares else 50)
    assert sent.statements <= 6
    with connection.cursor() as cursor:
        sql = due._OF_SHARES if shares else due._OF_ALL
        values = {"kind": "scoring", "now": now, "most": 50, "names": ["flood"], "shares": [3]}
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT TEXT) {sql}", values)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan" not in plan
    assert max(float(line.split("rows=")[-1].split()[0]) for line in plan.splitlines() if "actual" in line) <= 150


def _flood(number: int, now: Any) -> None:
    rows = (
        Task(
            kind="scoring", subscriber="flood", input={}, correlation_id="c", run_at=now,
            next_attempt_at=now - timedelta(hours=1), state=State.QUEUED,
        )
        for _ in range(number)
    )  # fmt: skip
    Task.objects.bulk_create(rows, batch_size=5_000)
