"""Whether bad endpoints hurt good ones: 50 endpoints, five of which hang for the whole timeout, 200 events a second.

Commit to first byte of the healthy endpoints, beside the same offer where all are healthy. And beside one subscriber
with a backlog, 1,000 allowed connections and a receiver that answers after 110 s.

Keys: `ratio_p95` (`undisturbed_p95_ms`, `disturbed_p95_ms`), `ratio_p95_greedy` (`greedy_p95_ms`,
`greedy_in_air`: how many requests the slow receiver held at the end).
"""

from __future__ import annotations

import argparse
import time

import bench
from bench.harness import measure, report
from bench.harness.load import offered, offering
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import percentiles, ratio
from bench.latency import waits

ENDPOINTS, HANGING, WORKERS, PER_SECOND = 50, 5, 2, 200
FULL_SECONDS, QUICK_SECONDS = 40.0, 5.0  # full: well beyond the timeout of 15 s, so that hung slots pile up
GREEDY_PATH, GREEDY_CONNECTIONS, GREEDY_TIMEOUT_MS, GREEDY_BACKLOG = "/slow/110000", 1_000, 120_000, 3_000
WARM_SECONDS = 3.0


def run(arguments: argparse.Namespace) -> dict:
    seconds = QUICK_SECONDS if arguments.quick else FULL_SECONDS
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        undisturbed = _offer(servers, receiving, 0, seconds)
        disturbed = _offer(servers, receiving, HANGING, seconds)
        greedy, in_air = _beside_greedy(servers, receiving, seconds)
    runs = (
        ("all healthy", undisturbed),
        (f"{HANGING} of {ENDPOINTS} hang", disturbed),
        (f"one of {GREEDY_CONNECTIONS:,} connections, 110 s", greedy),
    )
    report.table(
        f"Commit to first byte of the healthy at {PER_SECOND}/s, ms",
        ("run", "events", "p50", "p95", "p99", "most"),
        [(name, *report.spread(each)) for name, each in runs],
    )
    before, after, beside = (percentiles(each)["p95"] for each in (undisturbed, disturbed, greedy))
    figures = {
        "ratio_p95": ratio(after, before),
        "undisturbed_p95_ms": round(before, 1),
        "disturbed_p95_ms": round(after, 1),
        "ratio_p95_greedy": ratio(beside, before),
        "greedy_p95_ms": round(beside, 1),
        "greedy_in_air": in_air,
    }
    report.verdicts(
        [
            ("ratio_p95", figures["ratio_p95"], "<=", 2.0),
            ("ratio_p95_greedy", figures["ratio_p95_greedy"], "<=", 1.2),
        ]
    )
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
        _warm(servers, order)
        with offering(servers.env, order, PER_SECOND, seconds, f"run{hanging}") as process:
            committed = offered(process)
        # The offer goes round: the first ones of each round are those that may hang.
        return waits(receiving, {uid: at for uid, at in committed.items() if _place(uid) >= HANGING})


def _beside_greedy(servers: bench.Topology, receiving: Receiver, seconds: float) -> tuple[list[float], int]:
    """The same offer to healthy endpoints while the greedy one is let loose; and how many requests that one got out."""
    from bench.harness import rows
    from bench.harness.workers import workers

    report.progress(f"{PER_SECOND}/s for {seconds:.0f} s beside a receiver of {GREEDY_CONNECTIONS} slow connections")
    rows.forget_all()
    receiving.reset(keep_raw=False)
    greedy = rows.make_endpoints(
        receiving, 1, GREEDY_PATH, max_concurrency=GREEDY_CONNECTIONS, timeout_ms=GREEDY_TIMEOUT_MS
    )
    rows.record(greedy, GREEDY_BACKLOG)
    rows.hold()
    order = [target.subscriber for target in rows.make_endpoints(receiving, ENDPOINTS)]
    with workers(servers, WORKERS):
        warm = _warm(servers, order)
        with offering(servers.env, order, PER_SECOND, seconds, "greedy") as process:
            time.sleep(1.0)
            rows.release()
            committed = offered(process)
        found = waits(receiving, {uid: at for uid, at in committed.items() if _place(uid) >= HANGING})
        return found, receiving.count() - len(committed) - warm


def _warm(servers: bench.Topology, order: list[str]) -> int:
    """The workers' first seconds are not measured; how many events that were."""
    with offering(servers.env, order, PER_SECOND, WARM_SECONDS, "warm") as process:
        return len(offered(process))


def _place(uid: str) -> int:
    return int(uid.rpartition("_")[2]) % ENDPOINTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="5 s instead of 40")


if __name__ == "__main__":
    bench.main(run, add_arguments)
