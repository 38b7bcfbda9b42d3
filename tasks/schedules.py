"""Schedules: beat only ticks; the tick makes every slot that fell due since the last one, each exactly once.

A slot is a row, unique by schedule and time, and commits with the task it makes. So two beats cannot double a slot,
and a beat that stood still loses none: what becomes of missed slots is the schedule's `catch_up`.
"""

from datetime import datetime, timedelta

import structlog
from django.db import transaction

from tasks.errors import TaskError
from tasks.models import Schedule, ScheduleRun, Task
from tasks.states import Cause
from tasks.submit import submit

ON_TIME = timedelta(seconds=90)  # a slot this late is not called missed: beat ticks twice a minute
MOST_SLOTS = 500  # in one tick and schedule; with `all`, the rest comes with the next ticks

log = structlog.get_logger(__name__)


def tick(now: datetime) -> int:
    """Make the due slots of every enabled schedule; returns how many tasks were submitted."""
    ids = list(Schedule.objects.filter(is_enabled=True, starts_at__lte=now).values_list("pk", flat=True))
    return sum(_tick_one(pk, now) for pk in ids)


def _tick_one(pk: int, now: datetime) -> int:
    with transaction.atomic():
        rows = Schedule.objects.select_for_update(skip_locked=True).filter(pk=pk, is_enabled=True)
        schedule = rows.first()
        if schedule is None:
            return 0
        due = slots(schedule, now)
        chosen = _chosen(schedule, due, now)
        submitted = sum(_make(schedule, slot, run=slot in chosen) for slot in due)
        if due:
            schedule.last_due_at = due[-1]
            schedule.save(update_fields=["last_due_at"])
    return submitted


def slots(schedule: Schedule, now: datetime) -> list[datetime]:
    """The times that fell due after the last one made, oldest first. Pure.

    After a long stop, `all` goes on from where it was, in parts; the other two only keep a record of the last ones.
    """
    step = timedelta(seconds=schedule.every_seconds)
    first = schedule.starts_at
    if schedule.last_due_at is not None:
        passed = (schedule.last_due_at - schedule.starts_at) // step
        first = schedule.starts_at + step * max(0, passed + 1)
    if first > now:
        return []
    count = (now - first) // step + 1
    if count > MOST_SLOTS and schedule.catch_up != "all":
        first, count = first + step * (count - MOST_SLOTS), MOST_SLOTS
    return [first + step * index for index in range(min(count, MOST_SLOTS))]


def _chosen(schedule: Schedule, due: list[datetime], now: datetime) -> set[datetime]:
    """Which of the due slots become tasks."""
    if schedule.catch_up == "all":
        return set(due)
    if schedule.catch_up == "latest":
        return set(due[-1:])
    return {slot for slot in due[-1:] if now - slot <= ON_TIME}


def _make(schedule: Schedule, slot: datetime, *, run: bool) -> int:
    """Insert one slot, and its task with it. A slot that is there already belongs to somebody else's tick."""
    reason = "" if run else f"Missed; the schedule's catch-up is “{schedule.get_catch_up_display()}”."
    row, is_new = ScheduleRun.objects.get_or_create(
        schedule=schedule, due_at=slot, defaults={"is_skipped": not run, "reason": reason}
    )
    if not is_new or not run:
        return 0
    try:
        row.task = _submit(schedule, slot)
    except TaskError as error:
        log.error("schedule_slot_refused", schedule=schedule.pk, error=error.code)
        row.is_skipped, row.reason = True, f"{error.code}: {error.detail}"[:200]
    row.save(update_fields=["task", "is_skipped", "reason"])
    return int(row.task is not None)


def _submit(schedule: Schedule, slot: datetime) -> Task:
    return submit(
        schedule.kind,
        schedule.input,
        caller=f"schedule:{schedule.pk}",
        subscriber=schedule.subscriber,
        reference=f"{schedule.name} {slot:%Y-%m-%dT%H:%M:%SZ}",
        cause=Cause.SCHEDULE,
        actor=f"schedule {schedule.name}",
    )
