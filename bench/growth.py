"""Whether age makes it slow: claim, settle and lists with 0, 1 and 5 million finished deliveries in the tables.

The engine's own claim and settle, on 20,000 due rows of 50 endpoints, 100 rows at a time; the API's first page, the
first page of one endpoint, of one state, and `/stats/`. Each finished delivery has its attempt.

Keys: `ratio_claim_5m`, `ratio_settle_5m` (by medians), `list_5m_ms`, and medians for each size.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import bench
from bench.harness import measure, report
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import ratio, shown

ENDPOINTS, DUE, ROWS = 50, 20_000, 100
FULL, QUICK = (0, 1_000_000, 5_000_000), (0, 5_000, 20_000)
LOOKS = 15
PAGES = {
    "list": "/api/v1/deliveries/",
    "list_endpoint": "/api/v1/deliveries/?endpoint={endpoint}",
    "list_delivered": "/api/v1/deliveries/?state=delivered",
    "list_dead": "/api/v1/deliveries/?state=dead_letter",
    "attempts": "/api/v1/deliveries/{delivery}/attempts/",
    "stats": "/api/v1/stats/",
}


def run(arguments: argparse.Namespace) -> dict:
    sizes = QUICK if arguments.quick else FULL
    with receiver() as receiving, bench.topology(**MEMORY) as servers:
        servers.set_up_django()
        measured, stood = {}, 0
        targets = _targets(receiving)
        for size in sizes:
            _grow(targets, size - stood, size)
            stood = size
            report.progress(f"measure with {size:,} finished")
            measured[size] = {**_engine(targets), **_pages(targets)}
        targets = _start_over(receiving)
        report.progress("measure with 0 finished, once more")
        again = {**_engine(targets), **_pages(targets)}
        measured[0] = {name: (value + again[name]) / 2 for name, value in measured[0].items()}
    _print(measured)
    return _figures(measured, sizes)


# Five million deliveries with their attempts are some 4 GB: as much memory as a small server would give PostgreSQL.
MEMORY = {"shared_buffers": "512MB", "max_wal_size": "4GB", "maintenance_work_mem": "256MB"}


def _targets(receiving: Receiver) -> list:
    from bench.harness.rows import make_endpoints

    return make_endpoints(receiving, ENDPOINTS)


def _start_over(receiving: Receiver) -> list:
    """Empty tables: measured first and last, so that a machine that others use is judged at both ends."""
    from bench.harness import rows

    rows.forget_all()
    targets = _targets(receiving)
    _grow(targets, 0, 0)
    return targets


def _grow(targets: list, more: int, size: int) -> None:
    from bench.harness import rows, scenery

    if more:
        report.progress(f"lay {more:,} finished deliveries")
        scenery.finished([target.pk for target in targets], targets[0].subscriber, more, f"old{size}")
    rows.record(targets, DUE)
    report.progress("vacuum and analyze")
    rows.settle_down("delivery_event", "delivery_delivery", "delivery_attempt", "delivery_endpointhealth")


def _engine(targets: list) -> dict[str, float]:
    """Median milliseconds of a claim and of a settle of ROWS rows, until nothing is due."""
    import uuid

    from delivery.engine import settle
    from delivery.engine.claiming import Claimer
    from delivery.engine.verdicts import judge
    from delivery.latency import Recorder

    claimer, recorder, rng = Claimer(), Recorder(), random.Random(1)
    claims, settles = [], []
    while True:
        began = time.perf_counter()
        claimed, _ = claimer.claim(ROWS, uuid.uuid4())
        claims.append((time.perf_counter() - began) * 1000)
        if not claimed:
            break
        verdicts = [judge(one, _result(), rng) for one in claimed]
        began = time.perf_counter()
        settle.settle(verdicts, recorder, "bench")
        settles.append((time.perf_counter() - began) * 1000)
    return {
        "claim": statistics.median(claims[:-1]),
        "claim_p99": report.percentile(claims[:-1], 0.99),
        "claim_idle": claims[-1],
        "settle": statistics.median(settles),
        "settle_p99": report.percentile(settles, 0.99),
    }


def _result() -> object:
    from delivery.engine.slots import Request
    from delivery.engine.transfer import TransferResult

    return TransferResult(Request(""), 200, address="127.0.0.1", reused=True, first_byte_ms=1.0, total_ms=1.2)


def _pages(targets: list) -> dict[str, float]:
    """Median milliseconds of each page, asked of the API itself with a key."""
    from django.test import Client

    from delivery.models import Delivery
    from kernel.auth import Scope, create_key

    _, token = create_key("bench", [Scope.DELIVERIES_READ, Scope.TASKS_READ])
    client = Client(headers={"authorization": f"Bearer {token}", "host": "127.0.0.1"})
    newest = Delivery.objects.order_by("-id").values_list("id", flat=True)[0]
    found = {}
    for name, path in PAGES.items():
        where = path.format(endpoint=targets[7].pk, delivery=newest)
        found[name] = statistics.median(_timed(lambda where=where: _ask(client, where)) for _ in range(LOOKS))
    return found


def _ask(client: object, path: str) -> None:
    answer = client.get(path)  # type: ignore[attr-defined]
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}: {answer.content[:200]!r}")


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _print(measured: dict[int, dict[str, float]]) -> None:
    sizes = list(measured)
    first, last = sizes[0], sizes[-1]
    lines = [
        (name, *(shown(measured[size][name], 2) for size in sizes), shown(measured[last][name] / alone, 2))
        for name, alone in measured[first].items()
    ]
    report.table(
        f"Median ms; claim and settle of {ROWS} rows",
        ("what", *(f"{size:,} finished" for size in sizes), "last : first"),
        lines,
    )


def _figures(measured: dict[int, dict[str, float]], sizes: tuple[int, ...]) -> dict:
    first, last = measured[sizes[0]], measured[sizes[-1]]
    figures = {
        "ratio_claim_5m": ratio(last["claim"], first["claim"]),
        "ratio_settle_5m": ratio(last["settle"], first["settle"]),
        "list_5m_ms": round(last["list"], 1),
        "ms": {str(size): {name: round(value, 2) for name, value in each.items()} for size, each in measured.items()},
    }
    report.verdicts([("ratio_claim_5m", figures["ratio_claim_5m"], "<=", 1.5)])
    return {**figures, "machine": measure.machine()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="thousands instead of millions")


if __name__ == "__main__":
    bench.main(run, add_arguments)
