"""How many deliveries a second, at what cost, beside four others on the same receiver in the same run.

50,000 events of 700 bytes for 50 endpoints, recorded by `delivery.events.record_many`, sent by two workers, once to a
receiver that answers at once and once to one that answers after 50 ms. Others run fewer, since they are slow.

Keys: `deliveries_per_s`, `bare_per_s`, `ratio_bare`, `spec_worker_per_s`, `ratio_spec_worker`,
`ratio_spec_worker_50ms`, `task_per_delivery_per_s`, `ratio_task_per_delivery`, `cpu_us_per_delivery`,
`database_us_per_delivery`, `worker_rss_mb`.
"""

from __future__ import annotations

import argparse
import statistics
import time

import bench
from bench.baselines import contestants
from bench.baselines.contestants import NotRun
from bench.harness import measure, report
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import ratio, shown
from bench.harness.run import Result, database_cpu

ENDPOINTS, WORKERS, SLOW = 50, 2, "/slow/50"
LIMIT_SECONDS = 180.0
FULL = {"ours": 50_000, "ours_50ms": 30_000, "bare": 50_000, "others": 3_000, "spec_50ms": 600}
CONTESTANTS = {
    "spec": contestants.spec_worker,
    "kind_spec": contestants.kind_spec_worker,
    "task": contestants.task_per_delivery,
}
QUICK = {"ours": 3_000, "ours_50ms": 2_000, "bare": 5_000, "others": 300, "spec_50ms": 60}


def run(arguments: argparse.Namespace) -> dict:
    counts = QUICK if arguments.quick else FULL
    idle = measure.Idle.since_now()
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        instant = [_round(servers, receiving, counts) for _ in range(1 if arguments.quick else arguments.rounds)]
        bares, ours = [pair[0] for pair in instant], [pair[1] for pair in instant]
        slow = _ours(servers, receiving, SLOW, counts["ours_50ms"])
        others = _others(servers, receiving, counts)
        durable = _durable()
    return _report(_median(bares), _median(ours), slow, others, durable, idle)


def _round(servers: bench.Topology, receiving: Receiver, counts: dict[str, int]) -> tuple[Result, Result]:
    """The bare loop and ours, one right after the other: what else the machine does then weighs on both."""
    from bench.harness.rows import BODY_BYTES

    report.progress("bare libcurl loop")
    bare = contestants.bare(servers, receiving, counts["bare"], BODY_BYTES)
    return bare, _ours(servers, receiving, "/ok", counts["ours"])


def _ours(servers: bench.Topology, receiving: Receiver, path: str, count: int) -> Result:
    """Record, start the workers, let go; from the release to the last settle, by the database's clock."""
    from bench.harness import rows
    from bench.harness.workers import workers

    report.progress(f"{count:,} deliveries to {path}")
    rows.forget_all()
    targets = rows.make_endpoints(receiving, ENDPOINTS, path)
    rows.hold()
    recording = rows.record(targets, count)
    rows.settle_down()
    with workers(servers, WORKERS) as running:
        receiving.reset()
        cpu, database = running.cpu_seconds(), database_cpu(servers)
        began = rows.release()
        rows.wait_delivered(receiving, count, LIMIT_SECONDS)
        time.sleep(0.2)
        cpu, database = running.cpu_seconds() - cpu, database_cpu(servers) - database
        peak = running.peak_rss_mb()
    seconds = (rows.last_delivered_at() - began).total_seconds()
    _check(receiving, rows.secrets_of(targets), count, rows.attempts(), rows.states())
    note = f"distinct ids and valid signatures: all; attempt rows: all; recorded at {count / recording:,.0f}/s"
    return Result(
        f"Roundtrip, {WORKERS} workers", count, count / seconds, cpu / count * 1e6, database / count * 1e6, peak, note
    )


def _check(receiving: Receiver, secrets: dict[str, str], count: int, attempts: int, states: dict[str, int]) -> None:
    seen = receiving.check(secrets)
    if not seen["distinct"] == seen["valid"] == attempts == count or states != {"delivered": count}:
        raise RuntimeError(f"the run is not honest: receiver {seen}, attempts {attempts}, rows {states}")


def _others(servers: bench.Topology, receiving: Receiver, counts: dict[str, int]) -> dict[str, Result]:
    from bench.harness.rows import BODY_BYTES

    some, few = counts["others"], counts["spec_50ms"]
    found = {}
    for name, contestant in CONTESTANTS.items():
        for suffix, path, count in (("", "/ok", some), ("_50ms", SLOW, few)):
            report.progress(f"{contestant.__name__}, {count:,} to {path}")
            found[name + suffix] = contestant(servers, receiving, path, count, BODY_BYTES)
    report.progress("django-webhook: install, fill, run")
    try:
        found["published"] = contestants.published(servers, receiving, "/ok", some, BODY_BYTES - 150)
    except NotRun as reason:
        found["published"] = Result("(d) django-webhook 0.0.15", note=f"could not be run: {reason}")
    return found


def _durable() -> dict[str, str]:
    from bench.harness.rows import is_durable

    return is_durable()


def _median(results: list[Result]) -> Result:
    """Each figure's median over the rounds."""
    middle = results[-1]
    for name in ("per_s", "cpu_us", "database_us", "rss_mb"):
        setattr(middle, name, statistics.median(getattr(result, name) for result in results))
    return middle


def _report(
    bare: Result, ours: Result, slow: Result, others: dict[str, Result], durable: dict[str, str], idle: measure.Idle
) -> dict:
    headers = ("who", "deliveries", "per s", "CPU µs each", "database µs each", "peak MB", "note")
    instant = [ours, bare, *(others[name] for name in (*CONTESTANTS, "published"))]
    report.table("The receiver answers at once", headers, [_line(result) for result in instant])
    late = [slow, *(others[f"{name}_50ms"] for name in CONTESTANTS)]
    report.table("The receiver answers after 50 ms", headers, [_line(result) for result in late])
    free, stolen = idle.shares()
    print(f"PostgreSQL: {durable}. Of the machine, {free:.0%} stood idle and {stolen:.0%} was taken by its host.")
    figures = _figures(bare, ours, slow, others)
    report.verdicts(
        [
            ("deliveries_per_s", figures["deliveries_per_s"], ">=", 8_000),
            ("ratio_bare", figures["ratio_bare"], ">=", 0.15),
            ("ratio_spec_worker", figures["ratio_spec_worker"], ">=", 12),
            ("ratio_task_per_delivery", figures["ratio_task_per_delivery"], ">=", 12),
            ("ratio_spec_worker_50ms", figures["ratio_spec_worker_50ms"], ">=", 100),
            ("worker_rss_mb", figures["worker_rss_mb"], "<=", 200),
        ]
    )
    return figures


def _figures(bare: Result, ours: Result, slow: Result, others: dict[str, Result]) -> dict:
    return {
        "deliveries_per_s": round(ours.per_s),
        "bare_per_s": round(bare.per_s),
        "ratio_bare": ratio(ours.per_s, bare.per_s, 3),
        "spec_worker_per_s": round(others["spec"].per_s),
        "ratio_spec_worker": ratio(ours.per_s, others["spec"].per_s, 1),
        "deliveries_50ms_per_s": round(slow.per_s),
        "spec_worker_50ms_per_s": round(others["spec_50ms"].per_s, 1),
        "ratio_spec_worker_50ms": ratio(slow.per_s, others["spec_50ms"].per_s, 1),
        "ratio_kind_spec_worker": ratio(ours.per_s, others["kind_spec"].per_s, 1),
        "ratio_kind_spec_worker_50ms": ratio(slow.per_s, others["kind_spec_50ms"].per_s, 1),
        "task_per_delivery_per_s": round(others["task"].per_s),
        "ratio_task_per_delivery": ratio(ours.per_s, others["task"].per_s, 1),
        "ratio_task_per_delivery_50ms": ratio(slow.per_s, others["task_50ms"].per_s, 1),
        "published": others["published"].note if others["published"].per_s != others["published"].per_s
        else round(others["published"].per_s),
        "cpu_us_per_delivery": round(ours.cpu_us),
        "database_us_per_delivery": round(ours.database_us),
        "worker_rss_mb": round(ours.rss_mb),
        "machine": measure.machine(),
    }  # fmt: skip


def _line(result: Result) -> tuple[object, ...]:
    return (
        result.name, shown(result.deliveries), shown(result.per_s), shown(result.cpu_us), shown(result.database_us),
        shown(result.rss_mb), result.note,
    )  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all?")
    parser.add_argument("--rounds", type=int, default=3, help="of the bare loop and ours; medians are told (default 3)")


if __name__ == "__main__":
    bench.main(run, add_arguments)
