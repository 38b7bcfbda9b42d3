"""How soon is a task accepted, and how soon 10,000 in one batch?

One web process as `bin/up` starts it, no worker, one connection. Every answer is 202 with the row durable behind it.

Keys: `single_p50_ms`, `single_p99_ms`, `batch10000_s` (the median), `batch10000_cpu_s`.
"""

from __future__ import annotations

import argparse
import json

from roundtrip_up import process_table

import bench
from bench.harness import calling, measure, report
from bench.harness.report import percentile

SINGLES, QUICK_SINGLES, BATCH, BATCHES, QUICK_BATCHES = 1_000, 100, 10_000, 7, 3
TRADES = ("bakery", "寿司屋", "Schreinerei", "boulangerie", "frisør")


def run(arguments: argparse.Namespace) -> dict:
    singles, batches = (QUICK_SINGLES, QUICK_BATCHES) if arguments.quick else (SINGLES, BATCHES)
    with bench.topology() as servers:
        servers.set_up_django()
        web, *_ = process_table.programs(servers.python, servers.addresses, 1, servers.env)
        pid = servers.start(web).pid
        calling.wait_ready(servers.addresses.web, "/healthz")
        figures = _measured(servers.addresses.web, pid, headers(), singles, batches)
    report.verdicts([("batch10000_s", figures["batch10000_s"], "<=", 1)])
    return {**figures, "machine": measure.machine()}


def headers() -> dict[str, str]:
    """Of a caller who may submit tasks."""
    from kernel.auth import Scope, create_key

    return {"authorization": f"Bearer {create_key('bench', list(Scope.values))[1]}"}


def batch_of(count: int, subscriber: str = "") -> bytes:
    """The body of a batch of so many searches, each with its own words."""
    tasks = [
        {"input": {"trade": TRADES[n % len(TRADES)], "place": f"Bergen {n}", "country": "NO"}, "reference": f"row-{n}"}
        for n in range(count)
    ]
    told = {"kind": "map_search", "tasks": tasks, **({"subscriber": subscriber} if subscriber else {})}
    return json.dumps(told).encode()


def _measured(port: int, pid: int, key: dict[str, str], singles: int, batches: int) -> dict[str, float]:
    one = json.dumps({"kind": "map_search", "input": {"trade": "bakery", "place": "Bergen"}}).encode()
    single = calling.request("POST", "/api/v1/tasks/", one, key)
    calling.send(port, [single] * 20).expect(202)
    alone = calling.send(port, [single] * singles).expect(202)
    large = calling.request("POST", "/api/v1/batches/", batch_of(BATCH), key)
    before = measure.cpu_seconds([pid])
    whole = calling.send(port, [large] * batches).expect(202)
    spent = measure.cpu_seconds([pid]) - before
    rows = [("a task", *report.spread(alone.waits_ms)), (f"a batch of {BATCH:,}", *report.spread(whole.waits_ms))]
    report.table("202 after so many ms", ("what", "calls", "p50", "p95", "p99", "most"), rows)
    return {
        "single_p50_ms": round(percentile(alone.waits_ms, 0.5), 1),
        "single_p99_ms": round(percentile(alone.waits_ms, 0.99), 1),
        "batch10000_s": round(percentile(whole.waits_ms, 0.5) / 1e3, 2),
        "batch10000_cpu_s": round(spent / batches, 2),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="100 tasks and 3 batches instead of 1,000 and 7")


if __name__ == "__main__":
    bench.main(run, add_arguments)
