"""Whether bad endpoints hurt good ones: 50 endpoints, five of which hang for the whole timeout, 200 events a second.

Commit to first byte of the healthy endpoints, beside the same offer where all are healthy.

Keys: `ratio_p95` (`undisturbed_p95_ms`, `disturbed_p95_ms`).
"""

from __future__ import annotations

import argparse

import bench
from bench.harness import measure, report
from bench.harness.load import offered, offering
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import percentiles, ratio
from bench.latency import waits

ENDPOINTS, HANGING, WORKERS, PER_SECOND = 50, 5, 2, 200
FULL_SECONDS, QUICK_SECONDS = 40.0, 5.0  # full: well beyond the timeout of 15 s, so that hung slots pile up


def run(arguments: argparse.Namespace) -> dict:
    seconds = QUICK_SECONDS if arguments.quick else FULL_SECONDS
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        undisturbed = _offer(servers, receiving, 0, seconds)
        disturbed = _offer(servers, receiving, HANGING, seconds)
    runs = (("all healthy", undisturbed), (f"{HANGING} of {ENDPOINTS} hang", disturbed))
    report.table(
        f"Commit to first byte of the healthy at {PER_SECOND}/s, ms",
        ("run", "events", "p50", "p95", "p99", "most"),
        [(name, *report.spread(each)) for name, each in runs],
    )
    before, after = percentiles(undisturbed)["p95"], percentiles(disturbed)["p95"]
    figures = {
        "ratio_p95": ratio(after, before),
        "undisturbed_p95_ms": round(before, 1),
        "disturbed_p95_ms": round(after, 1),
    }
    report.verdicts([("ratio_p95", figures["ratio_p95"], "<=", 2.0)])
    return {**figures, "machine": measure.machine()}


def _offer(servers: bench.Topology, receiving: Receiver, hanging: int, seconds: float) -> list[float]:
    """Milliseconds of the events of those that are healthy in both runs."""
    from bench.harness import rows
    from bench.harness.workers import workers

    report.progress(f"{PER_SECOND}/s for {seconds:.0f} s, {hanging} of {ENDPOINTS} endpoints hang")
    rows.forget_all()
    receiving.reset(keep_raw=False)
    maybe = rows.make_endpoints(receiving, HANGING, "/hang" if hanging else "/ok/maybe")
    healthy = rows.make_endpoints(receiving, ENDPOINTS - HANGING)
    order = [target.subscriber for target in [*maybe, *healthy]]
    with workers(servers, WORKERS):
        with offering(servers.env, order, PER_SECOND, seconds, f"run{hanging}") as process:
            committed = offered(process)
        # The offer goes round: the first ones of each round are those that may hang.
        return waits(receiving, {uid: at for uid, at in committed.items() if _place(uid) >= HANGING})


def _place(uid: str) -> int:
    return int(uid.rpartition("_")[2]) % ENDPOINTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="5 s instead of 40")


if __name__ == "__main__":
    bench.main(run, add_arguments)
