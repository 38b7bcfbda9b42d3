"""Whether a flood drowns others: one endpoint with 500,000 due rows, and a fresh event a second for each of 20 others.

How long the fresh ones wait, commit to first byte; and the same among 10,000 endpoints that all have something waiting.

Keys: `p99_wait_ms` (the worse of the two), `few_p99_ms`, `many_p99_ms`.
"""

from __future__ import annotations

import argparse

import bench
from bench.harness import measure, report
from bench.harness.load import offer
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import percentiles
from bench.latency import waits

OTHERS, WORKERS = 20, 2
FULL = {"flood": 500_000, "endpoints": 10_000, "seconds": 30.0}
QUICK = {"flood": 20_000, "endpoints": 500, "seconds": 4.0}


def run(arguments: argparse.Namespace) -> dict:
    sizes = QUICK if arguments.quick else FULL
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        few, few_left = _flooded(servers, receiving, sizes["flood"], 0, sizes["seconds"])
        many, many_left = _flooded(servers, receiving, sizes["flood"], sizes["endpoints"], sizes["seconds"])
    lines = [
        (f"{OTHERS + 1} endpoints", *report.spread(few), f"{few_left:,}"),
        (f"{sizes['endpoints']:,} endpoints", *report.spread(many), f"{many_left:,}"),
    ]
    report.table(
        f"Wait of a fresh event beside {sizes['flood']:,} due rows of one endpoint, ms",
        ("among", "events", "p50", "p95", "p99", "most", "flood left"),
        lines,
    )
    figures = {"few_p99_ms": round(percentiles(few)["p99"], 1), "many_p99_ms": round(percentiles(many)["p99"], 1)}
    figures["p99_wait_ms"] = max(figures.values())
    report.verdicts([("p99_wait_ms", figures["p99_wait_ms"], "<=", 1_500)])
    return {**figures, "machine": measure.machine()}


def _flooded(
    servers: bench.Topology, receiving: Receiver, flood: int, endpoints: int, seconds: float
) -> tuple[list[float], int]:
    """Milliseconds that the fresh ones waited, and how much of the flood was left when the last of them was sent."""
    from bench.harness import rows, seed
    from bench.harness.workers import workers

    report.progress(f"{flood:,} due rows of one endpoint, {endpoints or OTHERS + 1:,} endpoints")
    rows.forget_all()
    receiving.reset(keep_raw=False)
    flooded = rows.make_endpoints(receiving, 1, "/ok/flooded")[0]
    others = rows.make_endpoints(receiving, OTHERS)
    rows.hold()
    seed.flood(flooded.pk, flooded.subscriber, flood)
    if endpoints:
        copies = seed.copies(flooded.pk, endpoints - OTHERS - 1)
        seed.waiting(copies, flooded.subscriber)
    rows.settle_down()
    with workers(servers, WORKERS):
        rows.release()
        committed = offer([target.subscriber for target in others], OTHERS, seconds, "fresh")
        measured = waits(receiving, committed)
        left = rows.states().get("pending", 0)
    if not left:
        raise RuntimeError("the flood was over before the fresh ones were: make it larger")
    return measured, left


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a small flood for 4 s")


if __name__ == "__main__":
    bench.main(run, add_arguments)
