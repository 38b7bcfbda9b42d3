"""Schedules: beat only ticks; the tick makes every slot that fell due since the last one, each exactly once.

A slot is a row, unique by schedule and time, and commits with the task it makes. So two beats cannot double a slot,
and a beat that stood still loses none: what becomes of missed slots is the schedule's `catch_up`.
"""

from datetime import datetime, timedelta

import structlog
from django.db import InterfaceError, OperationalError, transaction

from kernel import clock
from tasks.errors import TaskError
from tasks.models import Schedule, ScheduleRun, Task
from tasks.schedules.times import slots
from tasks.states import Cause
from tasks.submit import submit

ON_TIME = timedelta(seconds=90)  # a slot this late is not called missed: beat ticks twice a minute

log = structlog.get_logger(__name__)


def tick(now: datetime) -> int:
    """Make the due slots of every enabled schedule; returns how many tasks were submitted."""
    ids = list(Schedule.objects.filter(is_enabled=True, starts_at__lte=now).values_list("pk", flat=True))
    return sum(_tick_or_tell(pk, now) for pk in ids)


def _tick_or_tell(pk: int, now: datetime) -> int:
    """One that cannot be made, such as one in a time zone that is gone, keeps no other back; it is tried again."""
    try:
        return _tick_one(pk, now)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("schedule_broke", schedule=pk)
        return 0


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
        row.task = submit_once(schedule, slot)
    except TaskError as error:
        log.error("schedule_slot_refused", schedule=schedule.pk, error=error.code)
        row.is_skipped, row.reason = True, f"{error.code}: {error.detail}"[:200]
    row.save(update_fields=["task", "is_skipped", "reason"])
    return int(row.task is not None)


def submit_once(schedule: Schedule, slot: datetime, actor: str = "") -> Task:
    """Its task for one moment. Raises TaskError; then nothing is stored."""
    return submit(
        schedule.kind,
        schedule.input,
        caller=f"schedule:{schedule.pk}",
        subscriber=schedule.subscriber,
        reference=f"{schedule.name} {slot:%Y-%m-%dT%H:%M:%SZ}",
        priority=schedule.get_priority_display(),
        expires_at=_expiry(schedule),
        unique_key=schedule.unique_key,
        cause=Cause.SCHEDULE,
        actor=actor or f"schedule {schedule.name}",
    )


def _expiry(schedule: Schedule) -> datetime | None:
    """Counted from now: a slot that is caught up with late may still start."""
    seconds = schedule.expires_after_seconds
    return None if seconds is None else clock.now() + timedelta(seconds=seconds)
