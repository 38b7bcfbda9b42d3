"""Schedules by crontab expression: the two days on which clocks change, what is refused, and the verbs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kernel.models import AuditEntry
from tasks import schedules
from tasks.errors import InvalidInput
from tasks.models import Schedule, ScheduleRun, Task
from tasks.schedules.times import due_times

WARSAW = "Europe/Warsaw"
SPRING = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)  # the clock goes from 2:00 to 3:00 on the 29th
AUTUMN = datetime(2026, 10, 24, 12, 0, tzinfo=UTC)  # and from 3:00 back to 2:00 on the 25th


def schedule(crontab: str, zone: str = WARSAW, **fields: Any) -> Schedule:
    values = {"name": "Report", "kind": "batch_report", "input": {"batch": "1"}, "starts_at": SPRING}
    return Schedule.objects.create(**{**values, "crontab": crontab, "time_zone": zone, **fields})


def first(crontab: str, after: datetime, count: int) -> list[str]:
    times = due_times(crontab, WARSAW, after)
    return [f"{next(times):%d %H:%M}" for _ in range(count)]


@pytest.mark.parametrize(
    ("crontab", "after", "utc"),
    [
        ("30 2 * * *", SPRING, ["29 01:00", "30 00:30"]),  # 2:30 is skipped: right after the gap, at 3:00
        ("0,30 2 * * *", SPRING, ["29 01:00", "30 00:00"]),  # both are: once
        ("0 2,3 * * *", SPRING, ["29 01:00", "30 00:00"]),  # 2:00 moves to where 3:00 is: once
        ("*/30 2 * * *", SPRING, ["30 00:00", "30 00:30"]),  # a rhythm goes on; nothing is made up
        ("30 2 * * *", AUTUMN, ["25 00:30", "26 01:30"]),  # 2:30 comes twice: the first counts
        ("30 * * * *", AUTUMN + timedelta(hours=12), ["25 00:30", "25 01:30", "25 02:30"]),  # every real hour
        ("30 2 * * *", AUTUMN + timedelta(hours=13, minutes=5), ["26 01:30"]),  # begun between the two: not again
    ],
)
def test_the_days_on_which_clocks_change(crontab: str, after: datetime, utc: list[str]) -> None:
    assert first(crontab, after, len(utc)) == utc


@pytest.mark.django_db
@pytest.mark.parametrize(("day", "slots"), [(SPRING, 2), (AUTUMN, 2)])
def test_a_tick_each_half_minute_makes_each_time_once(day: datetime, slots: int) -> None:
    schedule("30 2 * * *", starts_at=day)
    made = sum(schedules.tick(day + timedelta(minutes=minutes)) for minutes in range(0, 48 * 60, 10))
    assert made == slots == Task.objects.count() == ScheduleRun.objects.count()


@pytest.mark.django_db
@pytest.mark.parametrize(("catch_up", "submitted", "rows"), [("all", 9, 9), ("latest", 1, 9), ("skip", 0, 9)])
def test_what_was_missed_is_caught_up_with(catch_up: str, submitted: int, rows: int) -> None:
    schedule("0 9 * * MON-FRI", catch_up=catch_up)
    late = datetime(2026, 4, 9, 12, 0, tzinfo=UTC)
    assert schedules.tick(late) == submitted and ScheduleRun.objects.count() == rows
    assert schedules.tick(late) == 0


@pytest.mark.django_db
def test_a_year_of_missed_minutes_is_not_gone_through() -> None:
    schedule("* * * * *", catch_up="latest")
    now = SPRING + timedelta(days=365)
    assert schedules.tick(now) == 1
    assert ScheduleRun.objects.count() == schedules.MOST_SLOTS
    assert ScheduleRun.objects.order_by("-due_at").values_list("due_at", flat=True)[0] == now
    assert schedules.tick(now + timedelta(seconds=30)) == 0


@pytest.mark.django_db
def test_a_schedule_that_cannot_be_read_any_more_keeps_no_other_back() -> None:
    broken = schedule("0 9 * * *", zone="Atlantis/Old_Town")
    schedule("0 9 * * *", name="Good")
    assert schedules.tick(SPRING + timedelta(days=1)) == 1
    assert schedules.upcoming(broken, SPRING) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ({"crontab": "0 0 30 2 *"}, "crontab", "bad_crontab"),
        ({"crontab": "0 0 31 4,6,9,11 *"}, "crontab", "bad_crontab"),
        ({"crontab": "0 25 * * *"}, "crontab", "bad_crontab"),
        ({"crontab": "0 0 0 1 1 *"}, "crontab", "bad_crontab"),
        ({"crontab": "@daily"}, "crontab", "bad_crontab"),
        ({"crontab": "0 9 * * *", "time_zone": "Mars/Olympus"}, "time_zone", "unknown_time_zone"),
        ({"crontab": "0 9 * * *", "time_zone": "../etc/passwd"}, "time_zone", "unknown_time_zone"),
        ({"crontab": "0 9 * * *", "every_seconds": 60}, "crontab", "one_rhythm"),
        ({}, "every_seconds", "one_rhythm"),
        ({"every_seconds": 59}, "every_seconds", "out_of_range"),
        ({"every_seconds": 600, "input": {"batch": "none"}}, "input.batch", "pattern"),
    ],
)
def test_what_can_never_be_due_is_refused(wrong: dict[str, Any], field: str, code: str) -> None:
    values = {"name": "R", "kind": "batch_report", "input": {"batch": "1"}, "starts_at": SPRING, **wrong}
    with pytest.raises(InvalidInput) as refused:
        schedules.create(values, actor="me")
    assert refused.value.errors[0]["field"] == field
    assert refused.value.errors[0]["code"] == code or field == "input.batch"
    assert not Schedule.objects.exists() and not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_another_rhythm_counts_from_now_on_and_another_name_does_not() -> None:
    row = schedule("0 9 * * *", last_due_at=SPRING)
    schedules.change(row.pk, {"name": "Other"}, actor="me")
    row.refresh_from_db()
    assert row.counts_from is None
    changed = schedules.change(row.pk, {"crontab": "0 8 * * *"}, actor="me")
    assert changed is not None and changed.counts_from is not None
    assert schedules.tick(changed.counts_from) == 0 and not ScheduleRun.objects.exists()


@pytest.mark.django_db
def test_paused_it_makes_nothing_and_its_catch_up_decides_afterwards() -> None:
    row = schedule("0 9 * * *", catch_up="all")
    assert schedules.pause(row.pk, actor="me") and not schedules.pause(row.pk, actor="me")
    assert schedules.tick(SPRING + timedelta(days=3)) == 0
    assert schedules.resume(row.pk, actor="me") and not schedules.resume(row.pk, actor="me")
    assert schedules.tick(SPRING + timedelta(days=3)) == 3
    assert list(AuditEntry.objects.order_by("id").values_list("verb", flat=True)) == ["pause", "resume"]


@pytest.mark.django_db
def test_run_now_is_beside_the_slots() -> None:
    row = schedule("0 9 * * *", is_enabled=False, starts_at=SPRING)
    task = schedules.run_now(row.pk, actor="me", reason="to see")
    assert task is not None and task.transitions.get().actor == "me"
    run = row.runs.get()
    assert run.is_by_hand and run.task == task and run.due_at.microsecond
    schedules.resume(row.pk, actor="me")
    assert schedules.tick(SPRING + timedelta(days=1)) == 1
