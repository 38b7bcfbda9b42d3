"""How many internal tasks a second, beside plain Celery with results and procrastinate, in the same run.

50,000 tasks that do nothing, through two worker processes each. Ours leave behind, for every task, its row with the
result, three transitions, the batch's counters and an event for whoever subscribes to it; procrastinate its job row and
events; Celery a result that expires, and nothing that outlives its broker. All rows or messages are there before the
clock starts, and nobody pays for the start of its processes.

Keys: `tasks_per_s`, `celery_per_s`, `procrastinate_per_s`, `ratio_celery`, `ratio_procrastinate`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from roundtrip_up.process import Program

import bench
from bench import ROOT
from bench.harness import report
from bench.harness.report import ratio, shown

FULL, QUICK, WARM = 50_000, 2_000, 200
BATCH = 10_000
LIMIT_SECONDS = 600.0
SETTINGS = "bench.baselines.noop.settings"


def run(arguments: argparse.Namespace) -> dict:
    count = QUICK if arguments.quick else FULL
    with bench.topology() as servers:
        servers.env["DJANGO_SETTINGS_MODULE"] = SETTINGS
        servers.set_up_django()
        ours = _ours(servers, count)
        celery = _celery(servers, count)
        procrastinate = _procrastinate(servers, count)
    return _report(count, ours, celery, procrastinate)


# --- ours -----------------------------------------------------------------------------------------------------------


def _ours(servers: bench.Topology, count: int) -> float:
    from tasks.engine import policies
    from tasks.models import KindPolicy

    report.progress(f"{count:,} tasks of ours: submitted while their kind is paused")
    KindPolicy.objects.create(kind="noop", concurrency=100_000)
    programs = [_tasks_worker(servers, number) for number in (1, 2)]
    with _running(servers, programs):
        _submit(WARM)
        _until(lambda: _finished() == WARM)
        policies.pause_kind("noop", actor="bench")
        _submit(count)
        report.progress("released")
        return _timed(count, lambda: _finished() - WARM, lambda: policies.resume_kind("noop", actor="bench"))


def _tasks_worker(servers: bench.Topology, number: int) -> Program:
    argv = ("celery", "-q", "-A", "config", "worker", "-n", f"bench-tasks-{number}@%h", "-Q", "tasks")
    more = ("-P", "threads", "-c", "2", "--without-gossip", "--without-mingle", "--without-heartbeat")
    return _python(servers, f"tasks-{number}", "-m", *argv, *more, "--loglevel", "WARNING")


def _submit(count: int) -> None:
    from tasks.submit import submit_batch

    for start in range(0, count, BATCH):
        items = [{"input": {"n": n}} for n in range(start, min(count, start + BATCH))]
        submit_batch("noop", items, caller="bench")


def _finished() -> int:
    """By the batches' counters: counting fifty thousand rows again and again would be felt."""
    from tasks.models import Batch

    return sum(counts.get("succeeded", 0) for counts in Batch.objects.values_list("counts", flat=True))


# --- the others -----------------------------------------------------------------------------------------------------


def _celery(servers: bench.Topology, count: int) -> float:
    import redis

    from bench.baselines.noop import with_celery

    report.progress(f"{count:,} messages for plain Celery")
    _do(servers, "-m", "bench.baselines.noop.with_celery", str(count))
    results = redis.Redis.from_url(f"{servers.env['CELERY_BROKER_URL'].rsplit('/', 1)[0]}/{with_celery.RESULTS_DB}")
    argv = ("-m", "celery", "-A", "bench.baselines.noop.with_celery", "worker", "-c", "2", "--loglevel", "ERROR")
    with _running(servers, [_python(servers, "celery", *argv)]):
        return _timed(count, lambda: int(results.dbsize()))


def _procrastinate(servers: bench.Topology, count: int) -> float:
    import psycopg

    report.progress(f"{count:,} jobs for procrastinate")
    ours = servers.env["DATABASE_URL"]
    with psycopg.connect(ours, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bench_procrastinate")
    where = psycopg.conninfo.make_conninfo(ours, dbname="bench_procrastinate")
    servers.env["BENCH_PROCRASTINATE"] = where
    # Not as the main module: the workers must know the task by the module it stands in.
    _do(servers, "-c", f"from bench.baselines.noop import with_procrastinate as w; w.asyncio.run(w.fill({count}))")
    argv = ("-m", "procrastinate", "--app", "bench.baselines.noop.with_procrastinate.app", "worker")
    programs = [_python(servers, f"procrastinate-{n}", *argv, "--concurrency", "10") for n in (1, 2)]
    with psycopg.connect(where, autocommit=True) as connection, _running(servers, programs):
        sql = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
        return _timed(count, lambda: int(connection.execute(sql).fetchone()[0]))


# --- measuring ------------------------------------------------------------------------------------------------------


def _timed(count: int, done: Callable[[], int], release: Callable[[], object] = lambda: None) -> float:
    """Tasks a second, from the first that is seen done to the last."""
    release()
    _until(lambda: done() > 0)
    first, began = done(), time.monotonic()
    _until(lambda: done() >= count)
    return (count - first) / (time.monotonic() - began)


def _until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > ends:
            raise RuntimeError("it did not come to an end")
        time.sleep(0.05)


@contextmanager
def _running(servers: bench.Topology, programs: list[Program]) -> Iterator[None]:
    for program in programs:
        servers.start(program)
    try:
        yield
    except Exception:
        for program in programs:
            report.progress(f"{program.name} said:\n{servers.log_of(program.name)[-3_000:]}")
        raise
    finally:
        for program in programs:
            servers.stop(program.name)


def _python(servers: bench.Topology, name: str, *argv: str) -> Program:
    return Program(name, (sys.executable, *argv), env=dict(servers.env), cwd=ROOT)


def _do(servers: bench.Topology, *argv: str) -> None:
    subprocess.run([sys.executable, *argv], cwd=ROOT, env=servers.env, check=True, timeout=LIMIT_SECONDS)


def _report(count: int, ours: float, celery: float, procrastinate: float) -> dict:
    rows = [
        ("Roundtrip, 2 workers with a child each", shown(count), shown(ours), "row, result, transitions, event"),
        ("plain Celery, 2 processes, results kept", shown(count), shown(celery), "nothing outlives the broker"),
        ("procrastinate, 2 processes", shown(count), shown(procrastinate), "job row and its events; no result"),
    ]
    report.table("Tasks that do nothing", ("who", "tasks", "per s", "what is left"), rows)
    figures = {
        "tasks_per_s": round(ours),
        "celery_per_s": round(celery),
        "procrastinate_per_s": round(procrastinate),
        "ratio_celery": ratio(ours, celery),
        "ratio_procrastinate": ratio(ours, procrastinate),
    }
    report.verdicts(
        [
            ("ratio_celery", figures["ratio_celery"], ">=", 2),
            ("ratio_procrastinate", figures["ratio_procrastinate"], ">=", 3),
        ]
    )
    return figures


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="2,000 tasks: whether it runs, not how fast")


if __name__ == "__main__":
    bench.main(run, _arguments)
