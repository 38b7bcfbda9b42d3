"""A whole Roundtrip in a process of its own, run by `bin/up` as a person would: for the tests that play the loop.

with instance(tmp_path / "data") as running:
    running.demo["url"], running.demo["api_key"]
    running.manage("submit", "examples/searches.csv", "--kind", "map_search")
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bin"))

from roundtrip_up.ports import pick  # noqa: E402
from roundtrip_up.testing import clean  # noqa: E402

READY_SECONDS = 120


class Instance:
    """One `bin/up` on its own port and data folder, with nothing of the caller's settings but `env`."""

    def __init__(self, data: Path, *arguments: str, port: int = 0, root: Path = ROOT, env: dict | None = None) -> None:
        self.data, self.root = data, root
        self.port = port or pick(set())
        self.arguments = ("--port", str(self.port), "--data", str(data), *arguments)
        self.env = {**clean(os.environ), **(env or {})}
        self.output = data.with_name(f"{data.name}.output")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> "Instance":
        """Start it, and wait until it says that it is up."""
        with self.output.open("ab") as output:
            output.truncate(0)
            self.process = subprocess.Popen(
                [str(self.root / "bin" / "up"), *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd="/",
            )
        if wait:
            self.wait_for_line("Roundtrip is up at")
        return self

    @property
    def demo(self) -> dict[str, str]:
        return json.loads((self.data / "demo.json").read_text())

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by name, as they are now."""
        return {name: child["pid"] for name, child in json.loads((self.data / "processes.json").read_text()).items()}

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for_line(self, words: str, seconds: float = READY_SECONDS) -> str:
        """The first line with these words; AssertionError with the output when it does not come."""
        assert self.process is not None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            alive = self.process.poll() is None
            for line in self.said().splitlines():
                if words in line:
                    return line
            assert alive, f"bin/up ended with {self.process.returncode}:\n{self.said()[-6000:]}"
            time.sleep(0.1)
        raise AssertionError(f"{words!r} was not said within {seconds:g} s:\n{self.said()[-6000:]}")

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        """Stop it with a signal; the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """kill -9 of the supervisor alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`manage.py` beside this instance."""
        done = subprocess.run(
            [str(self.root / ".venv" / "bin" / "python"), str(self.root / "manage.py"), *arguments],
            env={**self.env, "ROUNDTRIP_DATA": str(self.data)},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done


@contextlib.contextmanager
def instance(data: Path, *arguments: str, **more) -> Iterator[Instance]:
    """A running Roundtrip while the block runs."""
    made = Instance(data, *arguments, **more)
    try:
        yield made.start()
    finally:
        if made.process is not None:
            made.stop()
