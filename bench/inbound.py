"""How many signed webhooks a second are taken, beside a bare view, and what does one with 1,000 jobs cost?

One web process as `bin/up` starts it, no worker. Each single event says of one running job that it is completed, so
that it is stored, judged, moves its task, and the answer says so; 16 connections. Beside it, in turn, a DRF view that
reads the body and answers 200, on the same server with the same requests. A batch's event says the same of 1,000 jobs.

Keys: `single_ratio_bare` (`single_per_s`, `bare_per_s`), `single_p50_ms`, `single_p95_ms`, `batch1000_p50_ms`,
`batch1000_queries` (`batch100_queries`: the same, or they depend on the size), `cpu_ms_per_event`
(`bare_cpu_ms_per_event`: on a machine that others use, the ratio of the two says more than that of the rates).
"""

from __future__ import annotations

import argparse
import json
from datetime import timedelta

from roundtrip_up import ports, process_table
from roundtrip_up.folders import ROOT
from roundtrip_up.process import Program

import bench
from bench.harness import calling, measure, report
from bench.harness.report import percentile, ratio
from sandbox.signing import secret_bytes

EVENTS, QUICK_EVENTS, ROUNDS, CONNECTIONS, WARMING = 4_000, 800, 3, 16, 100
BATCH, BATCHES, QUICK_BATCHES = 1_000, 15, 5
ADDRESS, KIND = "/webhooks/sandbox/", "map_search"


def run(arguments: argparse.Namespace) -> dict:
    events, batches = (QUICK_EVENTS, QUICK_BATCHES) if arguments.quick else (EVENTS, BATCHES)
    with bench.topology() as servers:
        servers.set_up_django()
        web = _start_web(servers)
        bare_port = ports.pick({servers.addresses.web})
        bare = servers.start(_bare(servers, bare_port)).pid
        calling.wait_ready(bare_port, ADDRESS)
        calling.wait_ready(servers.addresses.web, "/healthz")
        key = secret_bytes(servers.env["SANDBOX_WEBHOOK_SECRET"])
        singles = _singles(servers.addresses.web, bare_port, key, events, (web, bare))
        batch = _batches(servers.addresses.web, key, batches)
    figures = {**singles, **batch}
    report.verdicts(
        [
            ("single_ratio_bare", figures["single_ratio_bare"], "<=", 2),
            ("batch1000_p50_ms", figures["batch1000_p50_ms"], "<=", 150),
            ("queries more for 1,000 than for 100", batch["batch1000_queries"] - batch["batch100_queries"], "<=", 0),
        ]
    )
    return {**figures, "machine": measure.machine()}


def _start_web(servers: bench.Topology) -> int:
    web, *_ = process_table.programs(servers.python, servers.addresses, 1, servers.env)
    return servers.start(web).pid


def _bare(servers: bench.Topology, port: int) -> Program:
    argv = (
        str(servers.python), "-m", "uvicorn", "bench.baselines.bare_view:application",
        "--http", "httptools", "--host", "127.0.0.1", "--port", str(port),
        "--no-access-log", "--log-level", "warning", "--lifespan", "off",
    )  # fmt: skip
    env = {name: value for name, value in servers.env.items() if name != "DJANGO_SETTINGS_MODULE"}
    return Program("bare", argv, env=env, cwd=ROOT)


def _singles(port: int, bare_port: int, key: bytes, events: int, pids: tuple[int, int]) -> dict[str, float | None]:
    """Ours and the bare view in turn, so that both see the same machine; the median of the rounds' ratios."""
    ours, bare, ratios, waits, cpu = [], [], [], [], [0.0, 0.0]
    for number in range(ROUNDS + 1):
        count = events if number else WARMING
        said = [calling.webhook(ADDRESS, key, _completed([job])) for job in running_jobs(f"single{number}", count)]
        before = [measure.cpu_seconds([pid]) for pid in pids]
        mine = calling.send(port, said, CONNECTIONS).expect(200)
        theirs = calling.send(bare_port, said, CONNECTIONS).expect(200)
        _all_applied(mine.last, 1)
        if number:
            ours, bare, waits = [*ours, mine.per_s()], [*bare, theirs.per_s()], waits + mine.waits_ms
            ratios.append(theirs.per_s() / mine.per_s())
            cpu = [
                so_far + measure.cpu_seconds([pid]) - was for so_far, pid, was in zip(cpu, pids, before, strict=True)
            ]
    report.table(
        f"Signed single events, {CONNECTIONS} connections",
        ("round", "Roundtrip/s", "bare view/s", "ratio"),
        [(n + 1, *(report.shown(v, 2) for v in row)) for n, row in enumerate(zip(ours, bare, ratios, strict=True))],
    )
    return {
        "single_ratio_bare": ratio(percentile(ratios, 0.5), 1),
        "single_per_s": round(percentile(ours, 0.5), 1),
        "bare_per_s": round(percentile(bare, 0.5), 1),
        "single_p50_ms": round(percentile(waits, 0.5), 1),
        "single_p95_ms": round(percentile(waits, 0.95), 1),
        "cpu_ms_per_event": round(cpu[0] / (events * ROUNDS) * 1e3, 2),
        "bare_cpu_ms_per_event": round(cpu[1] / (events * ROUNDS) * 1e3, 2),
    }


def _batches(port: int, key: bytes, count: int) -> dict[str, float]:
    said = [calling.webhook(ADDRESS, key, _completed(running_jobs(f"batch{n}", BATCH))) for n in range(count + 1)]
    calling.send(port, said[:1]).expect(200)
    sent = calling.send(port, said[1:]).expect(200)
    _all_applied(sent.last, BATCH)
    queries = {size: _queries(key, size) for size in (100, BATCH)}
    report.table(
        f"Signed events of {BATCH:,} jobs, ms until they are answered, applied",
        ("events", "p50", "p95", "p99", "most"),
        [report.spread(sent.waits_ms)],
    )
    return {
        "batch1000_p50_ms": round(percentile(sent.waits_ms, 0.5), 1),
        "batch1000_queries": queries[BATCH],
        "batch100_queries": queries[100],
    }


def _queries(key: bytes, size: int) -> int:
    """How many statements such an event takes, counted in this process by the same application."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    raw = calling.webhook(ADDRESS, key, _completed(running_jobs(f"counted{size}", size)))
    head, _, body = raw.partition(b"\r\n\r\n")
    headers = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n")[1:])
    client = Client(headers={name: value for name, value in headers.items() if name.startswith(("webhook-", "host"))})
    with CaptureQueriesContext(connection) as caught:
        answer = client.post(ADDRESS, body, content_type="application/json")
    _all_applied(answer.content, size)
    return len(caught)


def _completed(jobs: list[str]) -> dict:
    return {"jobs": [{"job_id": job, "status": "completed", "progress": 100} for job in jobs]}


def _all_applied(answer: bytes, count: int) -> None:
    """RuntimeError unless the answer says that every job's word was taken."""
    results = json.loads(answer)["results"]
    if len(results) != count or {result["status"] for result in results} != {"accepted"}:
        raise RuntimeError(f"not all {count} were applied: {answer[:300]!r}")


def running_jobs(mark: str, count: int) -> list[str]:
    """Job ids of so many tasks that wait for their provider's word, as one batch: no worker runs here."""
    from django.utils import timezone

    from tasks.models import Batch, ExternalJob, Task
    from tasks.states import JobState, State

    now = timezone.now()
    batch = Batch.objects.create(kind=KIND, correlation_id="c0ffee00c0ffee00", total=count, counts={"running": count})
    tasks = [
        Task(
            kind=KIND, batch=batch, position=number, input={"trade": "bakery", "place": "Bergen"}, attempt_count=1,
            correlation_id=batch.correlation_id, state=State.RUNNING, run_at=now, next_attempt_at=now,
            deadline_at=now + timedelta(hours=1),
        )
        for number in range(count)
    ]  # fmt: skip
    Task.objects.bulk_create(tasks, batch_size=1_000)
    jobs = [
        ExternalJob(task=task, provider="sandbox", attempt=1, job_id=f"{mark}-{task.pk}", state=JobState.SUBMITTED)
        for task in tasks
    ]
    ExternalJob.objects.bulk_create(jobs, batch_size=1_000)
    return [job.job_id for job in jobs]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_EVENTS} events a round instead of {EVENTS}")


if __name__ == "__main__":
    bench.main(run, add_arguments)
