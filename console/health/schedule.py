"""The rows of beat's schedule: which are the product's own, and which beat could not run.

Beat computes with whatever stands in these rows, and one that it cannot compute would end it at every start. So forms
refuse such a row, beat passes over it, and an alert names it. Reads only.
"""

import json
from datetime import timedelta
from importlib import import_module
from typing import Any

from celery.utils.time import maybe_make_aware
from django_celery_beat.models import PeriodicTask

from kernel import clock

_SEED = import_module("console.migrations.0002_seed_schedule")
OURS = frozenset(function for _name, function, *_rest in _SEED.ENTRIES)  # what every installation begins with
LONGEST_WAIT = timedelta(days=3_660)  # beat adds it to a date, and dates end
_SHAPES: dict[str, tuple[type, str]] = {
    "args": (list, "a JSON list, such as []"),
    "kwargs": (dict, "a JSON object, such as {}"),
    "headers": (dict, "a JSON object, such as {}"),
}


def is_ours(row: Any) -> bool:
    """Whether the product needs this very row: one of its worker functions, and no other row calls it."""
    if getattr(row, "task", None) not in OURS:
        return False
    return not PeriodicTask.objects.filter(task=row.task).exclude(pk=row.pk).exists()


def missing() -> dict[str, str]:
    """Worker functions of ours that beat does not call: function → `deleted` or `switched off`."""
    rows = PeriodicTask.objects.filter(task__in=OURS).values_list("task", "enabled")
    known = {task for task, _ in rows}
    running = {task for task, enabled in rows if enabled}
    return {task: "switched off" if task in known else "deleted" for task in sorted(OURS - running)}


def unusable() -> list[tuple[PeriodicTask, str]]:
    """Rows that are switched on and that beat passes over, each with what is wrong."""
    rows = PeriodicTask.objects.filter(enabled=True).select_related("interval", "crontab", "solar", "clocked")
    return [(row, words) for row in rows if (words := why_unusable(row))]


def why_unusable(row: Any) -> str:
    """What beat cannot do with this row, in words; empty where it can."""
    wrong = (why_not_json(name, getattr(row, name) or "") for name in _SHAPES)
    return next(filter(None, wrong), "") or why_no_schedule(row.scheduler)


def why_not_json(name: str, text: str) -> str:
    """What is wrong with a row's `args`, `kwargs` or `headers`; empty where nothing is."""
    shape, words = _SHAPES[name]
    return "" if _has_shape(text, shape) else f"{name} must be {words}."


def why_no_schedule(timing: Any) -> str:
    """The same for an interval, a crontab or the like; `None` for a row without one."""
    if timing is None:
        return "It has no interval, crontab or time."
    try:
        _due, seconds = timing.schedule.is_due(maybe_make_aware(clock.now()))
        if timedelta(seconds=float(seconds)) > LONGEST_WAIT:
            return f"It would wait for more than {LONGEST_WAIT.days} days; choose less."
    except Exception as error:  # noqa: BLE001 - whatever it is, beat would meet it too
        return f"When it is due cannot be computed ({type(error).__name__}); correct its times."
    return ""


def in_words(crontab: Any) -> str:
    """A crontab for people; one that cannot be read is named so."""
    try:
        return str(crontab.human_readable)
    except Exception:  # noqa: BLE001 - whatever stands in the row
        return "cannot be read"


def _has_shape(text: str, shape: type) -> bool:
    try:
        return not text or isinstance(json.loads(text), shape)
    except (ValueError, RecursionError):
        return False
