"""The worker's side of the children: made, spoken to, ended, and told apart by how they died.

Used by one thread. A child's pipe never blocks it: the child listens at all times.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing import Pipe, reduction
from multiprocessing.connection import Connection, wait
from typing import Any

from tasks.runs.forks import DEAD, FORK, FORKED

ANSWER_SECONDS = 20.0  # of a template that is only now starting
STATUS_SECONDS = 2.0  # between the end of a pipe and the word of how its child died


class Child:
    """One process. `pid` is also its group: what a run has started goes with it."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self.pid, self.pipe = pid, pipe
        self.runs = 0
        self.is_ended = False

    def say(self, *said: Any) -> bool:
        """False where nobody listens any more; its end is then read off the pipe."""
        try:
            self.pipe.send_bytes(pickle.dumps(said, protocol=5))
        except OSError:
            return False
        return True

    def heard(self) -> list[tuple[Any, ...]] | None:
        """What it says now; None where it is dead."""
        try:
            found: list[tuple[Any, ...]] = pickle.loads(self.pipe.recv_bytes())  # noqa: S301 - our own child speaks
        except (EOFError, OSError):
            return None
        return found

    def kill(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class Children:
    """The template and the living. The template is started when the first child is wanted, and again if it has died."""

    def __init__(self) -> None:
        self._template: subprocess.Popen[bytes] | None = None
        self._control: Connection | None = None
        self._statuses: dict[int, int] = {}

    def make(self) -> Child:
        """Raises OSError where no process can be made; then nothing has begun."""
        try:
            return self._fork()
        except (EOFError, OSError):
            self._forget_template()
            return self._fork()

    def _fork(self) -> Child:
        control = self._control or self._start()
        ours, theirs = Pipe()
        try:
            control.send(FORK)
            reduction.send_handle(control, theirs.fileno(), None)
            pid = self._answer(control)
        except (EOFError, OSError):
            ours.close()
            raise
        finally:
            theirs.close()
        return Child(pid, ours)

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        argv = [sys.executable, "-m", "tasks.runs.forks", str(theirs.fileno())]
        # A session of its own: a signal to the worker's group is the worker's to answer.
        self._template = subprocess.Popen(argv, pass_fds=[theirs.fileno()], start_new_session=True)  # noqa: S603 - ourselves
        theirs.close()
        self._control = ours
        return ours

    def _answer(self, control: Connection) -> int:
        ends = time.monotonic() + ANSWER_SECONDS
        while control.poll(max(0.0, ends - time.monotonic())):
            word, pid, status = control.recv()
            if word == FORKED:
                return int(pid)
            self._statuses[pid] = status
        raise OSError("the template of the children does not answer")

    def how_died(self, child: Child) -> int:
        """The wait status of a child whose pipe has ended; 0 where nobody knows."""
        ends = time.monotonic() + STATUS_SECONDS
        with contextlib.suppress(EOFError, OSError):
            while child.pid not in self._statuses and self._control is not None:
                if not self._control.poll(max(0.0, ends - time.monotonic())):
                    break
                word, pid, status = self._control.recv()
                if word == DEAD:
                    self._statuses[pid] = status
        child.pipe.close()
        return self._statuses.pop(child.pid, 0)

    def end(self, living: Sequence[Child]) -> None:
        """End these now."""
        for child in living:
            child.kill(signal.SIGKILL)
            child.pipe.close()

    def close(self) -> None:
        """End the template, and with it whoever lives."""
        self._forget_template()

    def _forget_template(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._template is not None:
            self._template.kill()
            self._template.wait()
        self._control, self._template = None, None
        self._statuses.clear()


def speaking(children: Sequence[Child], seconds: float) -> list[Child]:
    """Those with something to say, or dead, within so many seconds."""
    if not children:
        time.sleep(seconds)
        return []
    ready = set(wait([child.pipe for child in children], seconds))
    return [child for child in children if child.pipe in ready]


def words_of_death(status: int) -> str:
    """How a process died, for people."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        more = " The kernel does that when the machine is out of memory." if number == signal.SIGKILL else ""
        return f"The run's process was killed by {name}.{more}"
    if os.WIFEXITED(status) and status:
        return f"The run's process ended itself with status {os.WEXITSTATUS(status)}."
    return "The run's process is gone."
