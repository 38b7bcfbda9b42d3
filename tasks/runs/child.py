"""What goes on in a child: one run after the other, for as long as the worker holds the other end of the pipe.

Three threads: this one runs; `_listen` takes what the worker says, at any time; `_speak` sends what there is to say,
all of it at once. Neither waits for the other, so no full pipe can make both sides wait for each other. The worker's
end is our end: with the pipe, or by the kernel where a run never lets another thread have its turn.
"""

import contextlib
import ctypes
import os
import pickle
import queue
import resource
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from django.db import connection

from kernel.database.reads import use_own_connection
from tasks.engine.performing import failed, perform
from tasks.kinds.running import Run
from tasks.runs import words

PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.5  # how soon a last word of progress gets out, while the run is silent
PAGE = resource.getpagesize()
_is_told = threading.Event()  # the worker ends this process: a SystemExit is not the run's own


def main(pipe: Connection) -> None:
    """The whole life of a child; does not return."""
    try:
        _tie_to_parent()
        signal.signal(signal.SIGTERM, _end_now)
        Child(pipe).live()
    finally:
        os._exit(143)


def _tie_to_parent() -> None:
    """A group of its own, so that what a run starts goes with it; killed by the kernel when the template is gone."""
    with contextlib.suppress(OSError):
        os.setsid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_now(_number: int, _frame: object) -> None:
    """SIGTERM ends the run as an exception does: what it has opened is closed, as long as the grace lasts."""
    _is_told.set()
    raise SystemExit(143)


class Child:
    """Takes orders, runs them, answers."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._orders: queue.SimpleQueue[words.Order] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._now: tuple[int, Run] | None = None
        self._unwanted: set[int] = set()
        self._base_pages = 0
        self._limit_mb = 0

    def live(self) -> None:
        use_own_connection()
        for work in (self._listen, self._speak):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        while True:
            self._carry_out(self._orders.get())

    def _carry_out(self, order: words.Order) -> None:
        task, memory_mb = words.task_of(order), order[1]
        run = Run(lambda percent, note: self._answers.put((words.PROGRESS, task.pk, percent, note)))
        self._now = task.pk, run
        if task.pk in self._unwanted:
            run.ask_to_cancel()
        began = time.monotonic()
        try:
            self._allow(memory_mb)
            ended = perform(task, run, memory_mb=memory_mb)
        except SystemExit:
            ended = failed("run_exited", "The run ended its own process (SystemExit). Return, or raise an outcome.")
            if _is_told.is_set():
                raise
        self._now = None
        self._answers.put((words.DONE, task.pk, ended.said(), time.monotonic() - began))
        _tidy_up()

    def _allow(self, memory_mb: int) -> None:
        """So much more memory than a child has that has run nothing yet. What wants more gets a MemoryError."""
        if memory_mb == self._limit_mb:
            return
        if not self._base_pages:
            self._base_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = self._base_pages * PAGE + memory_mb * 1024 * 1024 if memory_mb else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        self._limit_mb = memory_mb

    def _listen(self) -> None:
        try:
            while True:
                if self._pipe.poll(LOOK_SECONDS):
                    self._obey(pickle.loads(self._pipe.recv_bytes()))  # noqa: S301 - our own worker speaks
                elif (now := self._now) is not None:
                    now[1].say_what_is_unsaid()
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)  # the worker is gone: the run would only do twice what another one does again

    def _obey(self, said: tuple[Any, ...]) -> None:
        if said[0] == words.RUN:
            for order in said[1]:
                self._orders.put(order)
        elif said[0] == words.GIVE_BACK:
            self._answers.put((words.UNBEGUN, self._not_begun()))
        elif said[0] == words.CANCEL:
            self._unwanted.add(said[1])
            if (now := self._now) is not None and now[0] == said[1]:
                now[1].ask_to_cancel()

    def _not_begun(self) -> list[int]:
        ids = []
        with contextlib.suppress(queue.Empty):
            while True:
                ids.append(words.id_of(self._orders.get_nowait()))
        return ids

    def _speak(self) -> None:
        while True:
            said = [self._answers.get()]
            with contextlib.suppress(queue.Empty):
                while len(said) < 500:
                    said.append(self._answers.get_nowait())
            try:
                self._pipe.send_bytes(pickle.dumps(said, protocol=5))
            except OSError:
                os.killpg(0, signal.SIGKILL)


def _tidy_up() -> None:
    """The next run finds no transaction of this one, nor a connection that it has broken."""
    if connection.connection is not None:
        connection.close()
