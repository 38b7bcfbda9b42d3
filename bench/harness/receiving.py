"""The bench's side of the receiver, which is a process of its own: start it, ask it, end it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from roundtrip_up import ports
from roundtrip_up.process import Program, spawn

from bench import ROOT
from bench.harness import measure

START_SECONDS = 20.0


@dataclass(slots=True)
class Receiver:
    """A running `bench.harness.receiver`."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset(self, *, keep_raw: bool = True) -> None:
        """Forget what came. Without `keep_raw`, ids and times alone are kept from now on."""
        self._ask("/_reset" if keep_raw else "/_reset/ids")

    def count(self) -> int:
        return self._ask("/_count")

    def arrivals(self) -> dict[str, list[float]]:
        """Every webhook-id with the moments (`time.monotonic()`) at which its requests began to come."""
        return self._ask("/_arrivals")

    def check(self, secrets: dict[str, str]) -> dict[str, int]:
        """`requests`, `distinct` ids, `distinct_bodies`, and the `valid` ones by these secrets ({path: secret})."""
        return self._ask("/_check", json.dumps(secrets))

    def span(self) -> tuple[float, float]:
        """The moments of the first and the last request."""
        first, last = self._ask("/_span")
        return first, last

    def cpu_seconds(self) -> float:
        return measure.cpu_seconds([self.pid])

    def _ask(self, path: str, body: str = "") -> object:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", path, body.encode())
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver while the block runs."""
    port = ports.pick(set())
    argv = (sys.executable, "-m", "bench.harness.receiver", "--port", str(port))
    process = spawn(Program("receiver", argv, cwd=ROOT), stdout=None)
    try:
        started = Receiver(port, process.pid)
        _wait(started, process)
        yield started
    finally:
        process.terminate()
        process.wait(10)


def _wait(started: Receiver, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError):
            started.count()
            return
        time.sleep(0.05)
    raise RuntimeError("the receiver did not start")
