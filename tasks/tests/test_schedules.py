"""Schedules: every slot once, whatever the beat does."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tasks import schedules
from tasks.models import Schedule, ScheduleRun, Task

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


def schedule(**fields: Any) -> Schedule:
    values = {
        "name": "Report",
        "kind": "batch_report",
        "input": {"batch": "1"},
        "every_seconds": 600,
        "starts_at": NOON,
    }
    return Schedule.objects.create(**{**values, **fields})


def test_each_slot_once_however_often_it_ticks() -> None:
    schedule()
    assert schedules.tick(NOON - timedelta(seconds=1)) == 0
    assert schedules.tick(NOON) == 1
    assert schedules.tick(NOON + timedelta(seconds=30)) == 0
    assert schedules.tick(NOON + timedelta(minutes=10, seconds=5)) == 1
    assert [run.due_at for run in ScheduleRun.objects.order_by("due_at")] == [NOON, NOON + timedelta(minutes=10)]
    task = Task.objects.order_by("id").first()
    assert task is not None and task.transitions.get().cause == "schedule" and task.reference.startswith("Report ")


@pytest.mark.parametrize(("catch_up", "submitted", "skipped"), [("all", 7, 0), ("latest", 1, 6), ("skip", 0, 7)])
def test_after_a_stop(catch_up: str, submitted: int, skipped: int) -> None:
    schedule(catch_up=catch_up)
    late = NOON + timedelta(minutes=65)  # five minutes after the last slot
    assert schedules.tick(late) == submitted
    assert ScheduleRun.objects.filter(is_skipped=True).count() == skipped
    assert ScheduleRun.objects.count() == 7
    assert schedules.tick(late) == 0


def test_skip_still_runs_what_is_on_time() -> None:
    schedule(catch_up="skip")
    assert schedules.tick(NOON + timedelta(seconds=40)) == 1


def test_a_year_of_missed_minutes_does_not_fill_the_table() -> None:
    schedule(every_seconds=60, catch_up="latest")
    assert schedules.tick(NOON + timedelta(days=365)) == 1
    assert ScheduleRun.objects.count() == schedules.MOST_SLOTS


def test_a_slot_that_another_beat_made_makes_no_second_task() -> None:
    row = schedule()
    ScheduleRun.objects.create(schedule=row, due_at=NOON)
    assert schedules.tick(NOON) == 0 and not Task.objects.exists()


def test_a_refused_slot_says_why_and_does_not_stop_the_others() -> None:
    schedule(input={"batch": "no number"})
    schedule(name="Good")
    assert schedules.tick(NOON) == 1
    refused = ScheduleRun.objects.get(task=None)
    assert refused.is_skipped and refused.reason.startswith("invalid: batch:")


def test_slots_stay_on_their_grid_across_daylight_saving() -> None:
    row = schedule(every_seconds=3600, catch_up="all")
    schedules.tick(NOON + timedelta(hours=30))
    runs = list(row.runs.order_by("due_at"))
    assert {later.due_at - earlier.due_at for earlier, later in pairwise(runs)} == {timedelta(hours=1)}
