"""How many tasks a second go all the way round, and what does each cost us?

All processes as `bin/up` starts them, one delivery worker. One POST brings 10,000 `map_search` tasks; the sandbox
answers at once; each task's end comes by a webhook of its own, its result is fetched and judged, and its event
`task.succeeded` is delivered to a receiver. Then the same with webhooks that carry 100 jobs. The clock runs from the
POST to the last of the events at the receiver.

Keys: `tasks_per_s`, `cpu_ms_per_task` (`web_ms`, `tasks_worker_ms`, `delivery_ms`, `database_ms`),
`batch10000_done_s`, and the same of webhooks of 100 under `hundred_…`.
"""

from __future__ import annotations

import argparse
import json
import time

from roundtrip_up import process_table

import bench
from bench.harness import calling, measure, report
from bench.harness.receiving import Receiver, receiver
from bench.harness.run import database_cpu
from bench.submit import batch_of, headers

TASKS, QUICK_TASKS, PATIENCE_SECONDS = 10_000, 1_500, 600.0
AT_ONCE = {"min_ms": 0, "max_ms": 0, "calls_per_s": 0, "coalesce_ms": 20}
OURS = ("web", "worker-tasks", "worker-delivery-1", "beat")


def run(arguments: argparse.Namespace) -> dict:
    count = QUICK_TASKS if arguments.quick else TASKS
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        servers.start(servers.sandbox())
        for program in process_table.programs(servers.python, servers.addresses, 1, servers.env):
            servers.start(program)
        calling.wait_ready(servers.addresses.web, "/readyz")
        key = headers()
        _endpoint(receiving)
        _turn(servers, receiving, key, 50, 1)  # the sandbox loads its gazetteer
        legs = {prefix: _turn(servers, receiving, key, count, jobs) for prefix, jobs in (("", 1), ("hundred_", 100))}
    _print(legs, count)
    report.verdicts(
        [
            ("tasks_per_s", legs[""]["tasks_per_s"], ">=", 350),
            ("cpu_ms_per_task", legs[""]["cpu_ms_per_task"], "<=", 4),
        ]
    )
    figures = {f"{prefix}{name}": value for prefix, leg in legs.items() for name, value in leg.items()}
    return {**figures, "tasks": count, "machine": measure.machine()}


def _endpoint(receiving: Receiver) -> None:
    from delivery import endpoints

    endpoints.create(actor="bench", reason="a benchmark", url=f"{receiving.url}/ok/loop", event_types=["task.*"])


def _turn(servers: bench.Topology, receiving: Receiver, key: dict[str, str], count: int, jobs: int) -> dict:
    """One batch of so many, told by webhooks of so many jobs."""
    report.progress(f"{count} tasks, webhooks of {jobs}")
    faults = json.dumps({**AT_ONCE, "jobs_per_webhook": jobs}).encode()
    calling.send(servers.addresses.sandbox, [calling.request("POST", "/provider/_faults", faults)]).expect(200)
    receiving.reset(keep_raw=False)
    before, database = _cpu(servers), database_cpu(servers)
    began = time.monotonic()
    posted = calling.request("POST", "/api/v1/batches/", batch_of(count), key)
    answer = json.loads(calling.send(servers.addresses.web, [posted]).expect(202).last)
    accepted = time.monotonic() - began
    done = _wait(receiving, count, int(answer["id"]))
    spent = {name: (now - before[name]) / count * 1e3 for name, now in _cpu(servers).items()}
    return {
        "tasks_per_s": round(count / (receiving.span()[1] - began), 1),
        "cpu_ms_per_task": round(sum(spent.values()), 2),
        "batch10000_done_s": round(done - began, 2),
        "accepted_s": round(accepted, 2),
        "web_ms": round(spent["web"], 2),
        "tasks_worker_ms": round(spent["worker-tasks"], 2),
        "delivery_ms": round(spent["worker-delivery-1"], 2),
        "database_ms": round((database_cpu(servers) - database) / count * 1e3, 2),
    }


def _wait(receiving: Receiver, count: int, batch: int) -> float:
    """Until the batch is complete and every event has come; the moment at which the batch was seen complete."""
    from tasks.models import Batch

    ends, done = time.monotonic() + PATIENCE_SECONDS, 0.0
    while not done or receiving.count() < count:
        row = Batch.objects.get(pk=batch)
        if row.is_completed and not done:
            done = time.monotonic()
            if row.outcome != "all_succeeded":
                raise RuntimeError(f"not all succeeded: {row.counts}")
        if time.monotonic() > ends:
            raise RuntimeError(f"{receiving.count()} of {count} events came; the batch stands so: {row.counts}")
        time.sleep(0.1)
    return done


def _cpu(servers: bench.Topology) -> dict[str, float]:
    return {name: measure.cpu_seconds([servers.started[name].pid]) for name in OURS}


def _print(legs: dict[str, dict], count: int) -> None:
    columns = ("tasks_per_s", "cpu_ms_per_task", "web_ms", "tasks_worker_ms", "delivery_ms", "database_ms",
               "batch10000_done_s", "accepted_s")  # fmt: skip
    rows = [
        ("100 jobs a webhook" if prefix else "a webhook each", *(report.shown(leg[name], 2) for name in columns))
        for prefix, leg in legs.items()
    ]
    report.table(f"{count:,} tasks all the way round", ("how", *columns), rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TASKS} tasks instead of {TASKS}")


if __name__ == "__main__":
    bench.main(run, add_arguments)
