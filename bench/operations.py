"""How fast a bulk redrive is, beside the plain UPDATE that it cannot be faster than, and how fast it can be previewed.

200,000 dead letters of 50 healthy endpoints are redriven by one operation, as the console's worker runs it: locked,
moved, each with an outcome of its own, the cursor and the counts with every chunk. Then the same rows, dead once more,
by one UPDATE of the same columns. The workers do not run, so nothing is sent meanwhile.

Keys: `items_per_s`, `update_per_s`, `ratio_update`, `preview_ms`, `create_ms`, `items`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import bench
from bench.harness import measure, report
from bench.harness.receiving import receiver
from bench.harness.report import ratio, shown

ENDPOINTS = 50
FULL, QUICK = 200_000, 5_000
LOOKS = 5  # the preview is told by its median
MEMORY = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
# The state that a redrive writes, without lock, guard, order, outcomes and resumption.
UPDATE = """
UPDATE delivery_delivery SET state = 'pending', attempt_count = 0, throttle_count = 0, rescue_count = 0,
    redrive_count = redrive_count + 1, next_attempt_at = clock_timestamp(), finished_at = NULL, fingerprint = ''
WHERE state = 'dead_letter'
"""
BURY = """
UPDATE delivery_delivery SET state = 'dead_letter', attempt_count = 5, finished_at = clock_timestamp(),
    last_outcome = 'server_error', last_status_code = 500, last_error = 'HTTP 500', fingerprint = md5(endpoint_id::text)
"""


def run(arguments: argparse.Namespace) -> dict:
    count = QUICK if arguments.quick else arguments.items
    with receiver() as receiving, bench.topology(**MEMORY) as servers:
        servers.set_up_django()
        from bench.harness import rows, seed

        report.progress(f"{count:,} dead letters")
        targets = rows.make_endpoints(receiving, ENDPOINTS)
        for target in targets:
            seed.flood(target.pk, target.subscriber, count // ENDPOINTS)
        _execute(BURY)
        rows.settle_down()
        measured = _operation(count)
        _execute(BURY)
        rows.settle_down()
        report.progress("one UPDATE")
        measured["update_per_s"] = count / _seconds(lambda: _execute(UPDATE))
    return _report(count, measured)


def _operation(count: int) -> dict[str, float]:
    from django.utils import timezone

    from console.models import Operation
    from console.operations import engine, plan

    report.progress("preview, create, run")
    looks = [_seconds(lambda: plan.preview(VERB, ALL, None, timezone.now())) for _ in range(LOOKS)]
    made: list[Operation] = []
    create = _seconds(lambda: made.append(plan.create(VERB, ALL, actor="bench", reason="a benchmark")))
    took = _seconds(lambda: engine.run_due(budget_seconds=600.0))
    made[0].refresh_from_db()
    outcomes = (made[0].state, made[0].done_count, made[0].items.filter(outcome="done").count())
    if outcomes != ("completed", count, count):
        raise RuntimeError(f"the run is not honest: {outcomes}")
    return {"preview_ms": report.percentile(looks, 0.5) * 1e3, "create_ms": create * 1e3, "items_per_s": count / took}


VERB, ALL = "redrive_deliveries", {"all": True}


def _execute(statement: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement)


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _report(count: int, measured: dict[str, float]) -> dict:
    ours, plain = measured["items_per_s"], measured["update_per_s"]
    rows = [("a redrive as an operation", f"{count:,}", shown(ours)), ("one UPDATE", f"{count:,}", shown(plain))]
    report.table("Dead letters of healthy endpoints", ("how", "rows", "per s"), rows)
    print(f"Preview {measured['preview_ms']:.0f} ms, creation {measured['create_ms']:.0f} ms.")
    figures = {
        "items_per_s": round(ours),
        "update_per_s": round(plain),
        "ratio_update": ratio(ours, plain, 3),
        "preview_ms": round(measured["preview_ms"], 1),
        "create_ms": round(measured["create_ms"], 1),
        "items": count,
    }
    report.verdicts([("items_per_s", figures["items_per_s"], ">=", 5_000)])
    return {**figures, "machine": measure.machine()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="5,000 rows instead of 200,000")
    parser.add_argument("--items", type=int, default=FULL)


if __name__ == "__main__":
    bench.main(run, add_arguments)
