"""What a person does with a schedule. Each verb is one transaction, checked before it is stored, and on record."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from django.db import IntegrityError, transaction

from kernel import audit, clock
from tasks import kinds
from tasks.errors import InvalidInput, wrong_field
from tasks.models import Schedule, ScheduleRun, Task
from tasks.schedules.ticking import submit_once
from tasks.schedules.times import refuse_bad_rhythm

RHYTHM = frozenset({"every_seconds", "crontab", "time_zone", "starts_at"})

log = structlog.get_logger(__name__)


def create(values: Mapping[str, Any], *, actor: str) -> Schedule:
    """Raises InvalidInput, UnknownKind; then nothing is stored."""
    schedule = Schedule(**values)
    _check(schedule)
    with transaction.atomic():
        _save(schedule)
        audit.record(actor, "create", "schedule", [schedule.pk])
    return schedule


def change(pk: int, changes: Mapping[str, Any], *, actor: str) -> Schedule | None:
    """Write what is given and nothing else; None where it is gone. Raises InvalidInput, UnknownKind.

    Another rhythm counts from now on: what it would have been due before is not missed.
    """
    with transaction.atomic():
        schedule = Schedule.objects.select_for_update(no_key=True).filter(pk=pk).first()
        if schedule is None:
            return None
        changed = [name for name, value in changes.items() if getattr(schedule, name) != value]
        for name in changed:
            setattr(schedule, name, changes[name])
        _check(schedule)
        if not changed:
            return schedule
        if RHYTHM & set(changed):
            schedule.counts_from = clock.now()
        _save(schedule)
        audit.record(actor, "update", "schedule", [pk], detail={"fields": changed})
    return schedule


def delete(pk: int, *, actor: str, reason: str = "") -> bool:
    """Its slots go with it; the tasks they made stay. False where it is gone already."""
    with transaction.atomic():
        schedule = Schedule.objects.select_for_update().filter(pk=pk).first()
        if schedule is None:
            return False
        audit.record(actor, "delete", "schedule", [pk], reason, detail={"name": schedule.name})
        schedule.delete()
    return True


def pause(pk: int, *, actor: str, reason: str = "") -> bool:
    """It makes nothing until it is resumed. False where it was paused already, or is gone."""
    return _switch(pk, "pause", actor, reason, is_enabled=False)


def resume(pk: int, *, actor: str, reason: str = "") -> bool:
    """What was due meanwhile is treated as missed: its catch-up decides. False where it was not paused."""
    return _switch(pk, "resume", actor, reason, is_enabled=True)


def run_now(pk: int, *, actor: str, reason: str = "") -> Task | None:
    """One task at once, beside its slots and whether it is paused or not. None where it is gone; raises TaskError."""
    now = clock.now()
    with transaction.atomic():
        schedule = Schedule.objects.select_for_update(no_key=True).filter(pk=pk).first()
        if schedule is None:
            return None
        task = submit_once(schedule, now, actor)
        ScheduleRun.objects.create(schedule=schedule, due_at=_no_slot(now), task=task, is_by_hand=True)
        audit.record(actor, "run_now", "schedule", [pk], reason, detail={"task": task.pk})
    return task


def _switch(pk: int, verb: str, actor: str, reason: str, *, is_enabled: bool) -> bool:
    with transaction.atomic():
        if not Schedule.objects.filter(pk=pk, is_enabled=not is_enabled).update(is_enabled=is_enabled):
            return False
        audit.record(actor, verb, "schedule", [pk], reason)
        log.info("operator_verb", verb=f"schedule.{verb}", schedule=pk, actor=actor, reason=reason)
    return True


def _no_slot(now: datetime) -> datetime:
    """Slots are whole seconds: this one can be none."""
    return now if now.microsecond else now.replace(microsecond=1)


def _check(schedule: Schedule) -> None:
    kind = kinds.get(schedule.kind)
    schedule.kind = kind.name
    try:
        schedule.input = kind.checked(schedule.input)
    except InvalidInput as error:
        rows = [{**row, "field": f"input.{row['field']}"} for row in error.errors]
        raise InvalidInput(error.detail, errors=rows) from None
    refuse_bad_rhythm(schedule.every_seconds, schedule.crontab, schedule.time_zone, clock.now())


def _save(schedule: Schedule) -> None:
    try:
        with transaction.atomic():
            schedule.save()
    except IntegrityError as error:
        if "schedule_name_once" not in str(error):
            raise
        words = "There is a schedule of this name already. Choose another name, or change that one."
        raise wrong_field("name", "taken", words) from None
