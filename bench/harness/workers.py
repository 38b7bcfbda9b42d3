"""Delivery workers as bin/up starts them, ready to work, with what they have cost so far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench import Topology
from bench.harness import measure, report

READY_SECONDS, LOG_TAIL = 60.0, 3_000


@dataclass(slots=True)
class Workers:
    """Running delivery workers by process id."""

    pids: list[int]

    def cpu_seconds(self) -> float:
        return measure.cpu_seconds(self.pids)

    def peak_rss_mb(self) -> float:
        return max(measure.peak_rss_mb(pid) for pid in self.pids)


@contextmanager
def workers(servers: Topology, count: int, **env: str) -> Iterator[Workers]:
    """So many delivery workers, each of which answers Celery's ping, while the block runs."""
    with servers.workers(count, **env) as pids:
        try:
            wait_ready(count)
            yield Workers(pids)
        except Exception:
            for name in servers.started:
                report.progress(f"{name} said:\n{servers.log_of(name)[-LOG_TAIL:]}")
            raise


def wait_ready(count: int) -> None:
    """Until so many workers answer. RuntimeError when they do not."""
    from config.celery import app

    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if len(app.control.ping(timeout=0.5, limit=count)) >= count:
            return
    raise RuntimeError(f"not all of {count} workers came up; their logs are in the data folder")
