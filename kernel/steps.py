"""Steps of sweeps: one that breaks keeps no other from its work, and stays known until it has worked again.

A sweep runs every few seconds or minutes, in several processes. What breaks in it is logged with its traceback, and its
row tells an alert rule since when; the next good run, in whichever process, takes the row away. Must never swallow the
loss of the database: without it no step can work, and whoever waits for it must see that.
"""

import threading
import time
from collections.abc import Callable

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.db.models import F

from kernel import clock
from kernel.models import BrokenStep

LOOK_SECONDS = 30.0  # a good run asks that often whether another process has told of a bad one

log = structlog.get_logger(__name__)
_looked_at: dict[str, float] = {}
_lock = threading.Lock()


def guarded(name: str, step: Callable[[], object]) -> bool:
    """Run one step; whether it worked. `name` is for the operator: the room and the step, such as "tasks: rescue"."""
    try:
        step()
    except InterfaceError:
        raise
    except Exception as error:
        if isinstance(error, OperationalError) and not connection.is_usable():
            raise  # a lock or a time-out is one step's fault; a database that is gone is everybody's
        log.exception("step_broke", step=name, error=type(error).__name__)
        _note(name, error)
        return False
    _worked(name)
    return True


def _note(name: str, error: Exception) -> None:
    with _lock:
        _looked_at.pop(name, None)
    now = clock.now()
    values = {"error": type(error).__name__[:100], "last_at": now}
    try:
        known = BrokenStep.objects.filter(pk=name[:100]).update(**values, count=F("count") + 1)
        if not known:
            BrokenStep.objects.bulk_create([BrokenStep(name=name[:100], since=now, **values)], ignore_conflicts=True)
    except DatabaseError:  # in a transaction that the step has broken, say: the log has it
        log.error("step_not_noted", step=name)


def _worked(name: str) -> None:
    moment = time.monotonic()
    with _lock:
        if moment - _looked_at.get(name, -LOOK_SECONDS) < LOOK_SECONDS:
            return
        _looked_at[name] = moment
    BrokenStep.objects.filter(pk=name[:100]).delete()
