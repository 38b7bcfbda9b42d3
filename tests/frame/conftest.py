"""Makes `roundtrip_up` importable and runs supervisors in their own processes, since they own signals and children."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BIN = Path(__file__).resolve().parent.parent.parent / "bin"
sys.path.insert(0, str(BIN))

from roundtrip_up.process import start_time  # noqa: E402

RUN = """
import os, sys
from pathlib import Path
from roundtrip_up.folders import open_data
from roundtrip_up.orphan_processes import Record, end_leftovers
from roundtrip_up.logs import Console, Logs
from roundtrip_up.process import Program
from roundtrip_up.supervisor import Backoff, Supervisor

data = open_data(Path(sys.argv[1]))
logs = Logs(data.log, Console(1))
for name in end_leftovers(data.processes, grace_seconds=2):
    logs.line("up", f"ended {name}")
def python(name, code, **more):
    env = {"PATH": os.defpath, "PYTHONUNBUFFERED": "1"}
    return Program(name, (sys.executable, "-c", code), env=env, **more)
with Supervisor(logs, Record(data.processes), Backoff(0.1, 1.0, 5.0)) as supervisor:
    for program in TABLE:
        supervisor.start(program)
    logs.line("up", "all started")
    supervisor.run()
logs.line("up", "all stopped")
logs.console.drain()
"""


class Supervised:
    """A supervisor in a process of its own, with the table of programs that a test wrote."""

    def __init__(self, data: Path, table: str) -> None:
        self.data = data
        code = RUN.replace("TABLE", table)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(data)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(BIN)},
        )
        self.seen: list[str] = []

    def read_until(self, words: str) -> str:
        """The first line with these words; fails when the stream ends without it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line.rstrip("\n"))
            if words in line:
                return self.seen[-1]
        pytest.fail(f"{words!r} was never said:\n" + "\n".join(self.seen))

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.seen += self.process.stdout.read().splitlines()
        return self.process.wait(20)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    """Starts supervisors; whatever a failed test leaves is ended."""
    started: list[Supervised] = []

    def start(table: str, data: Path | None = None) -> Supervised:
        started.append(Supervised(data or tmp_path / "data", table))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(20)


def is_alive(pid: int) -> bool:
    return start_time(pid) is not None


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
