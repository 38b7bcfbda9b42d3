"""One child process: how it is started, known again, and ended.

A child leads its own process group, so that Ctrl-C in a terminal reaches only the supervisor, and on Linux it gets its
stop signal from the kernel when the supervisor dies. A process is only ever ended by its id together with its start
time: ids are used again, names belong to others as well.
"""

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """What to run. `rank` orders the stop: the lowest goes first, equal ones together."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    user: str | None = None  # run as this user instead (only root can)
    stop_signal: int = signal.SIGTERM
    grace_seconds: float = 25.0
    rank: int = 0


def spawn(program: Program, stdout: int | IO[Any] | None = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start it in a process group of its own, its errors in the same stream as its output."""
    identity: dict[str, Any] = {}
    if program.user is not None:
        entry = pwd.getpwnam(program.user)
        identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return subprocess.Popen(
        list(program.argv),
        env=program.env,
        cwd=program.cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT if stdout is not None else None,
        start_new_session=True,
        preexec_fn=tie_to_parent(program.stop_signal),
        **identity,
    )


def tie_to_parent(stop_signal: int) -> Callable[[], None] | None:
    """Ask the kernel to send the child its stop signal when we die, even by SIGKILL."""
    if LIBC is None:
        return None
    parent = os.getpid()
    libc = LIBC

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(stop_signal), 0, 0, 0)
        if os.getppid() != parent:  # we died before the line above
            os._exit(1)

    return tie


def start_time(pid: int) -> str | None:
    """What tells this process from a later one with the same id; None when it is gone or only waits to be reaped."""
    if LIBC is not None:
        try:
            after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if after_name[0] in "ZX" else f"{_boot()}:{after_name[19]}"
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return asked.stdout.strip() or None


def _boot() -> str:
    """The boot that start times count from, so that a reboot makes every record stale."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def end(pid: int, started: str, is_ours: Callable[[int], bool], stop_signal: int, grace_seconds: float) -> bool:
    """End a process that is no child of ours (any more), if it still is the one that began at `started`, and ours.

    Returns whether there was something to end.
    """
    with _held(pid) as send:
        return start_time(pid) == started and is_ours(pid) and _end(pid, started, send, stop_signal, grace_seconds)


def _end(pid: int, started: str, send: Callable[[int], None], stop_signal: int, grace_seconds: float) -> bool:
    for wish, patience in ((stop_signal, grace_seconds), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            send(wish)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if start_time(pid) != started:
                return True
            time.sleep(0.05)
    return True


@contextlib.contextmanager
def _held(pid: int) -> Iterator[Callable[[int], None]]:
    """What sends a signal to this process and to no later one with its id, where the system can tell them apart."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield lambda number: os.kill(pid, number)
        return
    try:
        yield lambda number: signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
