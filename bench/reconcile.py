"""How long does a round of the poll take over 100,000 open jobs, and what does it hold?

100,000 jobs at an account with a listing of many, 2 % of them done without a word to us; 5,000 at one that is asked
about each job by itself. The provider is a process of its own, and so is each round; the rows are laid by bulk_create.

Keys: `bulk_s`, `bulk_calls`, `single_s`, `rss_mb`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import bench
from bench.harness import measure, report
from bench.harness.job_provider import DRIFTED_EACH

BULK, SINGLE = 100_000, 5_000
CHUNK = 5_000
ROUND_MOST_SECONDS, RSS_MOST_MB = 60, 300


def run(arguments: argparse.Namespace) -> dict:
    share = 20 if arguments.quick else 1
    with _provider() as url, bench.topology() as servers:
        servers.set_up_django()
        seen = {}
        for name, adapter, number in (("bulk", "sandbox", BULK), ("single", "one_by_one", SINGLE)):
            report.progress(f"{name}: {number // share:,} rows")
            _lay(name, adapter, url, number // share)
            report.progress(f"{name}: the round")
            seen[name] = _round(servers, url, name, number // share)
    figure = report.shown
    rows = [
        (name, figure(one["asked"]), figure(one["http"]), figure(one["seconds"], 1), figure(one["cpu"], 1),
         figure(one["rss_mb"]))
        for name, one in seen.items()
    ]  # fmt: skip
    report.table("One round of the poll", ("account", "jobs", "calls", "seconds", "our CPU s", "peak MB"), rows)
    figures = {
        "bulk_s": round(seen["bulk"]["seconds"], 1),
        "bulk_calls": seen["bulk"]["http"],
        "single_s": round(seen["single"]["seconds"], 1),
        "rss_mb": round(max(one["rss_mb"] for one in seen.values())),
    }
    report.verdicts(
        [
            ("bulk_s", figures["bulk_s"], "<=", ROUND_MOST_SECONDS),
            ("single_s", figures["single_s"], "<=", ROUND_MOST_SECONDS),
            ("rss_mb", figures["rss_mb"], "<=", RSS_MOST_MB),
        ]
    )
    return {**figures, "machine": measure.machine()}


@contextmanager
def _provider() -> Iterator[str]:
    command = [sys.executable, "-m", "bench.harness.job_provider"]
    with subprocess.Popen(command, cwd=bench.ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _calls(url: str) -> int:
    with urllib.request.urlopen(f"{url}/_calls", timeout=10) as answer:
        return int(json.load(answer)["calls"])


def _lay(name: str, adapter: str, url: str, number: int) -> None:
    """Running tasks whose jobs are due to be asked about."""
    from django.utils import timezone

    from tasks.models import ExternalJob, ProviderAccount, Task

    now = timezone.now()
    ProviderAccount.objects.create(name=name, adapter=adapter, base_url=url, api_key="bench")
    for start in range(0, number, CHUNK):
        made = Task.objects.bulk_create(
            Task(
                kind="scoring", input={"business": {"name": f"Bar {at}"}}, correlation_id="c0ffee00c0ffee00",
                state="running", attempt_count=1, run_at=now, next_attempt_at=now, started_at=now,
                deadline_at=now + timedelta(hours=1),
            ) for at in range(start, min(start + CHUNK, number))
        )  # fmt: skip
        ExternalJob.objects.bulk_create(
            ExternalJob(
                task=task, provider=name, attempt=1, job_id=f"{name}-{start + at}", state="submitted",
                provider_status="processing", submitted_at=now - timedelta(minutes=5),
                next_poll_at=now - timedelta(seconds=5),
            ) for at, task in enumerate(made)
        )  # fmt: skip


def _round(servers: bench.Topology, url: str, name: str, number: int) -> dict[str, Any]:
    """A round; raises where it did not do all that it had to."""
    from django.db import connection

    from tasks.models import Task

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    before = _calls(url)
    command = [str(servers.python), "-m", "bench.harness.poll_round"]
    done = subprocess.run(command, cwd=bench.ROOT, env=servers.env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the round broke:\n{done.stderr[-3000:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    drifted = Task.objects.filter(state="fetching", fetch_account=name).count()
    if (said["asked"], said["changed"], drifted) != (number, number // DRIFTED_EACH, number // DRIFTED_EACH):
        raise RuntimeError(f"the round did not do its work: {said}, {drifted} of {number // DRIFTED_EACH} fetching")
    return {**said, "http": _calls(url) - before}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="5,000 and 250 jobs")


if __name__ == "__main__":
    bench.main(run, add_arguments)
