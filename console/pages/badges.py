"""The two small numbers in the sidebar: dead letters and open alerts. Counted at most every five seconds a process."""

import time
from collections.abc import Callable

from console.models import Alert
from delivery.dead_letters import redrivable
from delivery.models import Delivery
from tasks.models import Task

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


def dead_letters() -> str | None:
    """Both sides together, without what was kept of deleted endpoints; None shows no badge."""
    return _at_most_every_five_seconds(
        "dead_letters",
        lambda: sum(
            rows.filter(state="dead_letter").order_by().values("pk")[:CAP].count()
            for rows in (Task.objects.all(), redrivable(Delivery.objects.all()))
        ),
    )


def open_alerts() -> str | None:
    return _at_most_every_five_seconds("alerts", lambda: Alert.objects.exclude(state="resolved")[:CAP].count())
