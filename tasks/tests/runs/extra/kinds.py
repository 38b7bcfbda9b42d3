"""Kinds that behave as their input says."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

from tasks.kinds.registry import Kind, register
from tasks.kinds.running import Cancel, Fail, Retry, Run, Snooze
from tasks.models import Task

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"does": {"type": "string"}, "say": {"type": "integer"}, "seconds": {"type": "integer"}},
}


def behave(task: Task, run: Run) -> Any:
    does, given = task.input.get("does", "echo"), task.input
    return DEEDS[does](task, run, given)


def _sleep(_task: Task, run: Run, given: dict[str, Any]) -> Any:
    run.progress(10, "asleep")
    run.progress(20, "still asleep")
    time.sleep(given.get("seconds", 60))
    return {"slept": True}


def _until_asked(_task: Task, run: Run, _given: dict[str, Any]) -> Any:
    while not run.cancel_requested:
        time.sleep(0.02)
    raise Cancel("stopped where nothing is half done")


def _hoard(_task: Task, _run: Run, _given: dict[str, Any]) -> Any:
    return len(b"x" * 4_000_000_000)


def _stubborn(_task: Task, _run: Run, _given: dict[str, Any]) -> Any:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], check=False)
    return None


def _snooze(task: Task, _run: Run, _given: dict[str, Any]) -> Any:
    return Snooze(until=datetime(2099, 1, 1, tzinfo=UTC), reason="the books are closed")


DEEDS: dict[str, Any] = {
    "echo": lambda task, _run, given: {"said": given.get("say"), "pid": os.getpid()},
    "asks_database": lambda task, _run, given: {"caller": Task.objects.get(pk=task.pk).caller},
    "sleep": _sleep,
    "until_asked": _until_asked,
    "hoard": _hoard,
    "stubborn": _stubborn,
    "segfault": lambda task, _run, given: ctypes.string_at(0),
    "kill": lambda task, _run, given: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda task, _run, given: sys.exit(3),
    "retry": lambda task, _run, given: Retry(after=1000, reason="the other side is busy"),
    "snooze": _snooze,
    "fail": lambda task, _run, given: Fail("no_such_book", "There is no such book."),
    "break": lambda task, _run, given: 1 / 0,
    "set": lambda task, _run, given: {1, 2},
}


register(Kind("behaving", "Behaving", SCHEMA, (), run=behave, processes=2))
register(Kind("behaving_too", "Behaving too", SCHEMA, (), run=behave, processes=2))
