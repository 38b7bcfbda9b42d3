"""One contestant's run, measured the same way for all: rate, CPU of its workers, CPU of the database, memory.

The clock runs from the first request at the receiver to the last, so that nobody pays for the start of its processes.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roundtrip_up.process import Program

from bench import Topology
from bench.harness import measure
from bench.harness.receiving import Receiver

FIRST_SECONDS, QUIET_SECONDS = 60.0, 30.0


@dataclass(slots=True)
class Result:
    """Figures of one run; NaN where there is none. `note` says what a reader must know to read them rightly."""

    name: str
    deliveries: int = 0
    per_s: float = math.nan
    cpu_us: float = math.nan
    database_us: float = math.nan
    rss_mb: float = math.nan
    note: str = ""


def run(
    name: str,
    programs: Sequence[Program],
    servers: Topology,
    receiver: Receiver,
    count: int,
    is_done: Callable[[], bool] = lambda: True,
) -> Result:
    """Start these, wait until so many requests came and all is done, end them."""
    receiver.reset()
    started = [servers.start(program) for program in programs]
    try:
        return _measured(Result(name, count), started, servers, receiver, is_done)
    finally:
        for program in programs:
            servers.stop(program.name)


def _measured(
    result: Result,
    started: list[subprocess.Popen[bytes]],
    servers: Topology,
    receiver: Receiver,
    is_done: Callable[[], bool],
) -> Result:
    first = _until(lambda: receiver.count(), FIRST_SECONDS, started, 0.02)
    pids = [pid for process in started for pid in (process.pid, *measure.children(process.pid))]
    cpu, database = measure.cpu_seconds(pids), database_cpu(servers)
    _all_came(result.deliveries, receiver, started, is_done)
    cpu, database = measure.cpu_seconds(pids) - cpu, database_cpu(servers) - database
    began, ended = receiver.span()
    result.per_s = (result.deliveries - 1) / (ended - began)
    result.cpu_us = cpu / (result.deliveries - first) * 1e6
    result.database_us = database / (result.deliveries - first) * 1e6
    result.rss_mb = max(measure.peak_rss_mb(pid) for pid in pids)
    return result


def database_cpu(servers: Topology) -> float:
    """CPU seconds of all PostgreSQL processes so far; NaN where the server is not ours to look at."""
    return measure.tree_cpu_seconds(pid) if (pid := servers.postgres_pid()) else math.nan


def _until(look: Callable[[], int], seconds: float, started: list[subprocess.Popen[bytes]], every: float) -> int:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline or any(process.poll() for process in started):
            raise RuntimeError("no request came")
        time.sleep(every)
    return found


def _all_came(
    count: int, receiver: Receiver, started: list[subprocess.Popen[bytes]], is_done: Callable[[], bool]
) -> None:
    """Until all came and is done; RuntimeError when nothing more comes for a while, or a process has failed."""
    seen, quiet_since = 0, time.monotonic()
    while (now := receiver.count()) < count or not is_done():
        if now > seen:
            seen, quiet_since = now, time.monotonic()
        if time.monotonic() - quiet_since > QUIET_SECONDS or any(process.poll() for process in started):
            raise RuntimeError(f"it stopped at {now} of {count}")
        time.sleep(0.05)
    time.sleep(0.2)  # the last ones write what they have to write
