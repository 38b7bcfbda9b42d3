"""End tasks by hand, as whoever settles them would; and in a process of its own that is killed while it does so."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import connection

from tasks import workers
from tasks.engine import clock, follow_ups, lifecycle, telling
from tasks.engine.unit_of_work import UnitOfWork
from tasks.follow_ups import making
from tasks.models import Task
from tasks.states import Cause, State

PLACES = {"places": [{"name": "Bar", "lat": 1, "lon": 1}, {"name": "Café", "lat": 2, "lon": 2}]}
EMAIL = {"subject": "Hello", "body": "Text"}
RESULTS: dict[str, Any] = {"map_search": PLACES, "email_generation": EMAIL, "scoring": {"score": 7}}
WHERE_IT_ENDS = ("before_settlement", "in_making", "in_settlement", "after_settlement")
BY_THE_WORKER = ("in_settlement", "after_settlement", "in_making", "after_making")


def succeed(*ids: int) -> None:
    """In one transaction, also those that a process has begun and left."""
    begin(*ids)
    with UnitOfWork.opened(cause=Cause.WORKER, now=clock.now()) as unit:
        for task in unit.lock(ids, state=State.RUNNING):
            lifecycle.succeed(unit, task, RESULTS[task.kind])
    assert not Task.objects.filter(pk__in=ids).exclude(state=State.SUCCEEDED).exists()


def bury(*ids: int) -> None:
    begin(*ids)
    with UnitOfWork.opened(cause=Cause.WORKER, now=clock.now()) as unit:
        for task in unit.lock(ids, state=State.RUNNING):
            lifecycle.fail(unit, task, code="no_good", text="no", permanent=True)


def begin(*ids: int) -> None:
    with UnitOfWork.opened(cause=Cause.WORKER, now=clock.now()) as unit:
        for task in unit.lock(ids, state__in=[State.QUEUED, State.RETRYING]):
            lifecycle.start(unit, task, deadline=clock.now() + timedelta(hours=1))


def killed_at(point: str, *ids: int) -> None:
    """Another process with a connection of its own settles the tasks and makes what follows, and is killed with
    SIGKILL at the named point. The caller's test must have committed what it made."""
    connection.close()
    connection.close_pool()  # no connection and no thread of ours may be in two processes
    pid = os.fork()
    if pid == 0:
        try:
            _work(point, *ids)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _work(point: str, *ids: int) -> None:
    if point == "before_settlement":
        _killed_before(follow_ups, "note")
    elif point == "in_settlement":
        _killed_before(telling, "tell")  # what is to follow has been written down, and made if it is small
    elif point == "in_making":
        _killed_after(making, "submit_batch")
    succeed(*ids)
    if point == "after_settlement":
        _die()
    workers.follow_up()
    _die()


def _killed_before(module: Any, name: str) -> None:
    setattr(module, name, lambda *_args, **_kwargs: _die())


def _killed_after(module: Any, name: str) -> None:
    function: Callable[..., Any] = getattr(module, name)

    def killed(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)
        _die()

    setattr(module, name, killed)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
