"""How soon an event leaves: commit to first byte at the receiver, on an idle system and under 500 events a second.

500 single events, one after the other with random gaps; the moment is taken before the COMMIT, so the commit counts.

Keys: `idle_p50_ms`, `idle_p99_ms`, `loaded_p50_ms`, `loaded_p99_ms` (and the p95 of both).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

import bench
from bench.harness import measure, report
from bench.harness.load import offered, offering
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import percentiles

ENDPOINTS, WORKERS, LOAD_PER_SECOND = 50, 2, 500
FULL, QUICK = 500, 50
GAP_SECONDS = (0.03, 0.09)
LOAD_LEAD_SECONDS, LAST_ONES_SECONDS = 2.0, 20.0


def run(arguments: argparse.Namespace) -> dict:
    count = QUICK if arguments.quick else FULL
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        from bench.harness.rows import make_endpoints
        from bench.harness.workers import workers

        targets = [target.subscriber for target in make_endpoints(receiving, ENDPOINTS)]
        with workers(servers, WORKERS):
            _single(receiving, targets, 20, "warm")
            report.progress(f"{count} single events on an idle system")
            idle, idle_shares = _with_shares(lambda: _single(receiving, targets, count, "idle"))
            report.progress(f"{count} single events under {LOAD_PER_SECOND}/s")
            loaded, loaded_shares = _with_shares(lambda: _loaded(servers, receiving, targets, count))
    rows = [_line("idle", idle, idle_shares), _line(f"under {LOAD_PER_SECOND}/s", loaded, loaded_shares)]
    report.table(
        "Commit to first byte at the receiver, ms", ("system", "events", "p50", "p95", "p99", "most", "idle CPU"), rows
    )
    figures = {
        f"{name}_{share}_ms": round(value, 1)
        for name, waits in (("idle", idle), ("loaded", loaded))
        for share, value in percentiles(waits).items()
    }
    report.verdicts(
        [("idle_p50_ms", figures["idle_p50_ms"], "<=", 50), ("idle_p99_ms", figures["idle_p99_ms"], "<=", 250)]
    )
    return {**figures, "machine": measure.machine()}


def _single(receiving: Receiver, subscribers: list[str], count: int, mark: str) -> list[float]:
    """Milliseconds that each of so many single events took."""
    from django.db import transaction

    from bench.harness.rows import new_event
    from delivery import events

    committed = {}
    for number in range(count):
        time.sleep(random.uniform(*GAP_SECONDS))
        name = f"{mark}_{number}"
        event = new_event(random.choice(subscribers), number, name)
        with transaction.atomic():
            events.record_many([event])
            committed[name] = time.monotonic()
    return waits(receiving, committed)


def waits(receiving: Receiver, committed: dict[str, float]) -> list[float]:
    """Milliseconds from these moments to the first request of each uid. RuntimeError where one does not come."""
    deadline = time.monotonic() + LAST_ONES_SECONDS
    while committed.keys() - (arrived := receiving.arrivals()).keys():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(committed.keys() - arrived.keys())} of {len(committed)} events did not come")
        time.sleep(0.2)
    return [(min(arrived[name]) - at) * 1000 for name, at in committed.items()]


def _loaded(servers: bench.Topology, receiving: Receiver, subscribers: list[str], count: int) -> list[float]:
    seconds = LOAD_LEAD_SECONDS + count * (sum(GAP_SECONDS) / 2 + 0.03)
    with offering(servers.env, subscribers, LOAD_PER_SECOND, seconds, "load") as process:
        time.sleep(LOAD_LEAD_SECONDS)
        measured = _single(receiving, subscribers, count, "loaded")
        offered(process)
    return measured


def _with_shares(work: Callable[[], list[float]]) -> tuple[list[float], tuple[float, float]]:
    since = measure.Idle.since_now()
    return work(), since.shares()


def _line(name: str, measured: list[float], shares: tuple[float, float]) -> tuple[object, ...]:
    return name, *report.spread(measured), f"{shares[0]:.0%}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="50 events instead of 500")


if __name__ == "__main__":
    bench.main(run, add_arguments)
