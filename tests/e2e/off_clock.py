"""One process of a running system under another clock: libfaketime in a twin of it, while the real one stands still.

The monotonic clock stays true, as it does on a host whose wall clock is wrong; so do the servers and all other
processes. The twin gets the command line and the environment of the process that it stands in for.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.e2e.system import System, free_port, wait_for

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
SLEEPS = Path(__file__).parent / "twin"
WHY_NOT = "libfaketime is not on this machine: apt-get install faketime"
IS_THERE = LIBRARY is not None and shutil.which("faketime") is not None


def _words(pid: int, what: str) -> list[str]:
    return Path(f"/proc/{pid}/{what}").read_bytes().decode(errors="surrogateescape").rstrip("\0").split("\0")


def environment_of(pid: int) -> dict[str, str]:
    return dict(word.split("=", 1) for word in _words(pid, "environ"))


def _in_transaction(system: System) -> bool:
    """Whether somebody has a transaction open that does not end: the process we stopped."""
    ends = time.monotonic() + 2
    while time.monotonic() < ends:
        with psycopg.connect(system.demo["database_url"], autocommit=True) as database:
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state = 'idle in transaction'"
            )
            if database.execute(query).fetchone()[0] == 0:
                return False
        time.sleep(0.2)
    return True


def _stand_still(system: System, pids: list[int]) -> None:
    for _ in range(5):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        if not _in_transaction(system):
            return
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
    raise AssertionError(f"processes {pids} do not come to rest")


@contextlib.contextmanager
def off_by(system: System, role: str, seconds: int) -> Iterator[tuple[int, int]]:
    """(process id, port) of a twin of the role's processes, so many seconds ahead. A web twin has a port of its own,
    and the real one goes on beside it; of the other roles the twin is alone."""
    originals, port = system.pids(role), free_port()
    command, environ = _words(originals[0], "cmdline"), environment_of(originals[0])
    if role == "web":
        command[command.index("--port") + 1] = str(port)
    elif "-n" in command:
        command[command.index("-n") + 1] = f"twin.{port}@%h"
    clock = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": str(SLEEPS),
    }
    stopped = [] if role == "web" else originals
    if stopped:
        _stand_still(system, stopped)
    with (system.data.parent / f"twin-{role}.log").open("ab") as out:
        twin = subprocess.Popen(
            command, cwd=os.readlink(f"/proc/{originals[0]}/cwd"), env={**environ, **clock}, stdout=out, stderr=out
        )
    try:
        yield twin.pid, port
        assert twin.poll() is None, f"the twin ended by itself with {twin.returncode}: see twin-{role}.log"
    finally:
        twin.send_signal(signal.SIGTERM)
        try:
            twin.wait(30)
        except subprocess.TimeoutExpired:
            twin.kill()
            twin.wait(10)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def is_seen(system: System, pid: int) -> None:
    """The twin has said that it lives."""
    wait_for(lambda: is_alive(system, pid), 40, f"the heartbeat of process {pid}")


def is_alive(system: System, pid: int) -> bool:
    """Whether a heartbeat of the process is there."""
    query = "SELECT clock_ahead_ms FROM console_heartbeat WHERE process LIKE %s"
    with psycopg.connect(system.demo["database_url"], autocommit=True) as database:
        return database.execute(query, [f"%:{pid}"]).fetchone() is not None
