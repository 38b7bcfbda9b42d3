"""The two small numbers in the sidebar: dead letters and open alerts. Counted at most every five seconds a process."""

import time
from collections.abc import Callable
from typing import Any

from console.models import Alert
from delivery.dead_letters import redrivable_count
from kernel import counting
from tasks.models import Task
from tasks.states import State as TaskState

FRESH_SECONDS = 5.0
CAP = 1_000

_kept: dict[str, tuple[float, str | None]] = {}


def _at_most_every_five_seconds(name: str, count: Callable[[], int]) -> str | None:
    at, words = _kept.get(name, (0.0, None))
    if not at or time.monotonic() - at > FRESH_SECONDS:
        number = count()
        words = None if not number else f"{CAP}+" if number >= CAP else str(number)
        _kept[name] = (time.monotonic(), words)
    return words


def _dead_tasks() -> int:
    return counting.capped(Task.objects.filter(state=TaskState.DEAD_LETTER), CAP).number


DEAD: dict[str, tuple[str, Callable[[], int]]] = {
    "tasks": ("tasks.view_task", _dead_tasks),
    "deliveries": ("delivery.view_delivery", lambda: min(CAP, redrivable_count().number)),
}


def may_see_dead_letters(user: Any) -> bool:
    return any(user.has_perm(permission) for permission, _ in DEAD.values())


def dead_letters(user: Any) -> str | None:
    """Of the sides that this user may see, without what was kept of deleted endpoints; None shows no badge."""
    sides = [side for side, (permission, _) in DEAD.items() if user.has_perm(permission)]
    return _at_most_every_five_seconds(
        "dead letters of " + " and ".join(sides),
        lambda: sum(DEAD[side][1]() for side in sides),
    )


def open_alerts() -> str | None:
    return _at_most_every_five_seconds("alerts", lambda: Alert.objects.exclude(state="resolved")[:CAP].count())
