"""Runs children, passes on what they say, starts again what dies, and stops all of it in order.

One thread, one loop that sleeps in `select` until a child speaks, a child ends, a signal comes or a restart is due:
idle, it costs nothing. It knows no database and no Django; what to run is handed in as `Program`s.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from roundtrip_up.logs import Logs
from roundtrip_up.orphan_processes import Record
from roundtrip_up.process import Program, spawn

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Somebody asked us to stop while we were starting."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a child is started again: doubling from `first` to `longest`; a steady run forgives."""

    first_seconds: float = 1.0
    longest_seconds: float = 30.0
    steady_seconds: float = 60.0

    def delay(self, failures: int) -> float:
        return min(self.longest_seconds, self.first_seconds * 2 ** min(failures - 1, 16))


@dataclass
class Child:
    """A program, its process while it runs, and how often it failed in a row."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    due_at: float | None = None
    once: bool = False
    status: int | None = None


class Supervisor:
    """Use as a context manager: leaving it stops every child, whatever happened."""

    def __init__(self, logs: Logs, record: Record, backoff: Backoff | None = None) -> None:
        self.logs, self.record, self.backoff = logs, record, backoff or Backoff()
        self.children: dict[str, Child] = {}
        self.wishes_to_stop = 0
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Supervisor":
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._fd_before = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (*STOPPING_SIGNALS, signal.SIGCHLD):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            signal.set_wakeup_fd(self._fd_before)
            for number, handler in self._before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            self._selector.close()
            self._waker.close()
            self._woken.close()
            self.logs.console.drain()

    def _on_signal(self, number: int, _frame: object) -> None:
        if number in STOPPING_SIGNALS:
            self.wishes_to_stop += 1

    # Starting

    def start(self, program: Program) -> Child:
        """Start a program and keep it running."""
        child = Child(program)
        self.children[program.name] = child
        self._spawn(child)
        return child

    def call(self, program: Program) -> int:
        """Run a program once to its end; its exit status (negative: the signal that ended it)."""
        child = Child(program, once=True)
        self.children[program.name] = child
        self._spawn(child)
        try:
            while child.status is None:
                self.step()
                if self.wishes_to_stop:
                    raise Interrupted
        finally:
            if child.status is not None:
                del self.children[program.name]
        return child.status

    def wait_for(self, condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
        """Keep the loop going until the condition, asked `every` so often, holds (True) or the time is over (False)."""
        deadline = time.monotonic() + seconds
        while not condition():
            again = time.monotonic() + every
            while (left := again - time.monotonic()) > 0:
                self.step(left)
                if self.wishes_to_stop:
                    raise Interrupted
            if time.monotonic() >= deadline:
                return False
        return True

    def run(self) -> None:
        """Supervise until somebody wishes us to stop."""
        while not self.wishes_to_stop:
            self.step()

    def _spawn(self, child: Child) -> None:
        child.due_at = None
        child.started_at = time.monotonic()
        try:
            child.process = spawn(child.program)
        except (OSError, subprocess.SubprocessError) as error:
            self._failed(child, f"could not be started ({error})")
            return
        assert child.process.stdout is not None
        os.set_blocking(child.process.stdout.fileno(), False)
        self._selector.register(child.process.stdout, selectors.EVENT_READ, child)
        self.record.started(child.program, child.process.pid)

    # The loop

    def step(self, longest: float | None = None) -> None:
        """Wait for the next thing to happen, at most `longest` seconds, and deal with it."""
        dues = [child.due_at for child in self.children.values() if child.due_at is not None and not self._stopping]
        waits = [max(0.0, due - time.monotonic()) for due in dues]
        if longest is not None:
            waits.append(longest)
        if self.logs.console.is_waiting:
            waits.append(0.1)
        for key, _ in self._selector.select(min(waits, default=None)):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
            else:
                self._read(key.data)
        self.logs.console.flush()
        self._reap()
        if not self._stopping:
            now = time.monotonic()
            for child in [one for one in self.children.values() if one.due_at is not None and one.due_at <= now]:
                self._spawn(child)

    def _read(self, child: Child) -> bool:
        """Pass on what the child said; whether there may be more."""
        assert child.process is not None and child.process.stdout is not None
        try:
            data = os.read(child.process.stdout.fileno(), 65_536)
        except BlockingIOError:
            return False
        if data:
            self.logs.feed(child.program.name, data)
        else:
            self._selector.unregister(child.process.stdout)
            child.process.stdout.close()
        return bool(data)

    def _reap(self) -> None:
        for child in [one for one in self.children.values() if one.process is not None and _has_ended(one.process.pid)]:
            process = child.process
            assert process is not None and process.stdout is not None
            # Before its id is free again: whatever it started in its group goes with it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
            while not process.stdout.closed and self._read(child):
                pass
            if not process.stdout.closed:  # a grandchild in another group may hold it open
                self._selector.unregister(process.stdout)
                process.stdout.close()
            self.logs.close(child.program.name)
            self.record.ended(child.program.name)
            child.process = None
            if child.once:
                child.status = status
            elif not self._stopping:
                self._failed(child, in_words(status))

    def _failed(self, child: Child, how: str) -> None:
        if child.once:
            child.status = 127
        if time.monotonic() - child.started_at >= self.backoff.steady_seconds:
            child.failures = 0
        child.failures += 1
        delay = self.backoff.delay(child.failures)
        if not child.once:
            child.due_at = time.monotonic() + delay
            self.logs.line("up", f"{child.program.name} {how}; starting it again in {delay:g} s")

    # Stopping

    def stop(self) -> None:
        """Stop every child, rank by rank; whoever outlasts its grace is killed. A second wish ends the grace."""
        self._stopping = True
        running = [child for child in self.children.values() if child.process is not None]
        for rank in sorted({child.program.rank for child in running}):
            self._stop_together([child for child in running if child.program.rank == rank])
        self.children.clear()

    def _stop_together(self, children: Iterable[Child]) -> None:
        wishes = self.wishes_to_stop
        began = time.monotonic()
        for child in children:
            self._signal(child, child.program.stop_signal)
        killed: set[str] = set()
        while left := [child for child in children if child.process is not None]:
            hurry = self.wishes_to_stop > max(wishes, 1) and time.monotonic() - began > 1
            for child in left:
                over = time.monotonic() - began > child.program.grace_seconds
                if (over or hurry) and child.program.name not in killed:
                    killed.add(child.program.name)
                    self.logs.line("up", f"{child.program.name} did not stop in time; killing it")
                    self._signal(child, signal.SIGKILL)
            self.step(0.2)

    def _signal(self, child: Child, number: int) -> None:
        if child.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.process.pid, number)


def _has_ended(pid: int) -> bool:
    """Whether a child ended, without collecting it yet (its id stays taken until then)."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def in_words(status: int) -> str:
    """`ended with status 3`, `was killed by SIGKILL`."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
        return f"was ended by signal {-status}"
    return f"ended with status {status}"
