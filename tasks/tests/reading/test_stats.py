"""The figures of tasks: exact where there are few, and where there are more than is counted they say so."""

from datetime import timedelta

import pytest

from kernel import counting
from kernel.database import windows
from tasks.models import KindPolicy
from tasks.reading import stats
from tasks.states import State

pytestmark = pytest.mark.django_db


@pytest.fixture
def house(make_task, now):
    """Two kinds, one of them paused; due for a minute, an hour, and a day."""
    KindPolicy.objects.create(kind="map_search", is_paused=True)
    for _ in range(3):
        make_task(State.QUEUED, subscriber="acme", next_attempt_at=now - timedelta(minutes=1))
    make_task(State.QUEUED, next_attempt_at=now - timedelta(hours=1))
    make_task(State.RETRYING, kind="map_search", next_attempt_at=now - timedelta(days=1))
    make_task(State.FETCHING, kind="map_search", subscriber="acme", next_attempt_at=now)
    make_task(State.DEAD_LETTER)


def figures(row):
    return {name: row[name] for name in ("pending", "awaiting_retry", "in_flight", "dead_letter", "held", "estimated")}


def test_few_are_counted_one_by_one(house, now):
    row = stats.task_summary(now)
    assert figures(row) == {
        "pending": 4, "awaiting_retry": 1, "in_flight": 1, "dead_letter": 1, "held": 1, "estimated": []
    }  # fmt: skip
    assert row["oldest_pending"] == 3600.0  # the paused kind's is held


def test_of_one_subscriber_as_well(house, now):
    row = stats.task_summary(now, "acme")
    assert figures(row) == {
        "pending": 3, "awaiting_retry": 0, "in_flight": 1, "dead_letter": 0, "held": 0, "estimated": []
    }  # fmt: skip
    assert row["oldest_pending"] == 60.0
    assert stats.task_summary(now, "nobody")["oldest_pending"] is None


def test_a_kind_that_nobody_made_a_policy_for_waits_too(make_task, now):
    make_task(State.QUEUED, next_attempt_at=now - timedelta(hours=1))
    assert KindPolicy.objects.count() == 0
    assert stats.oldest_waiting(now) == now - timedelta(hours=1)


def test_what_is_not_counted_to_its_end_is_named(house, now, monkeypatch):
    monkeypatch.setattr(counting, "LIMIT", 2)
    row = stats.task_summary(now)
    assert row["estimated"] == ["pending"] and row["pending"] >= 2


def test_of_one_subscriber_a_window_is_counted(house, now, monkeypatch):
    monkeypatch.setattr(windows, "MOST", 2)
    row = stats.task_summary(now, "acme")
    assert (row["pending"], row["estimated"]) == (1, ["pending"])  # the newest two that are queued; one is another's
