"""Sets the contestants up and runs them: what is installed, filled and started for each, and what it is called."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roundtrip_up.process import Program

from bench import ROOT, Topology
from bench.baselines import queue
from bench.harness import run
from bench.harness.receiving import Receiver
from bench.harness.run import Result

ENDPOINTS = 50
SITE = Path(__file__).parent / "published"
PUBLISHED = "django-webhook==0.0.15"
PUBLISHED_NEEDS = ("django==5.2.*", "celery[redis]", "psycopg[binary]")
INSTALL_SECONDS = 180
CELERY = ("-m", "celery")


class NotRun(RuntimeError):
    """A contestant that cannot take part, and why."""


def bare(servers: Topology, receiver: Receiver, count: int, body_bytes: int) -> Result:
    """One process of `bare`; on the way the receiver's own CPU for each request, which is its ceiling."""
    receiver.reset()
    before = receiver.cpu_seconds()
    command = ("-m", "bench.baselines.bare", "--url", f"{receiver.url}/ok", "--secret", queue.SECRET)
    done = subprocess.run(
        [sys.executable, *command, "--count", str(count), "--bytes", str(body_bytes)],
        cwd=ROOT, env=servers.env, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    figures = json.loads(done.stdout)
    own_us = (receiver.cpu_seconds() - before) / count * 1e6
    note = f"nothing stored; the receiver itself takes {own_us:.0f} µs a request, {1e6 / own_us:,.0f}/s at most"
    return Result("(a) bare libcurl loop, 1 process", count, count / figures["seconds"],
                  figures["cpu_seconds"] / count * 1e6, note=note)  # fmt: skip


def spec_worker(servers: Topology, receiver: Receiver, path: str, count: int, body_bytes: int) -> Result:
    """Three processes of `spec_worker`, as described."""
    return _spec_worker("(b) the specification's worker, 3 processes", (), servers, receiver, path, count, body_bytes)


def kind_spec_worker(servers: Topology, receiver: Receiver, path: str, count: int, body_bytes: int) -> Result:
    """The same with health rows outside of the batch's transaction."""
    name = "(b') the same, health on a connection of its own"
    return _spec_worker(name, ("--health-apart",), servers, receiver, path, count, body_bytes)


def _spec_worker(
    name: str, options: tuple[str, ...], servers: Topology, receiver: Receiver, path: str, count: int, body_bytes: int
) -> Result:
    secrets = queue.fill(f"{receiver.url}{path}", ENDPOINTS, count, body_bytes)
    programs = [_python(servers, f"spec-worker-{n}", "-m", "bench.baselines.spec_worker", *options) for n in range(3)]
    result = run.run(name, programs, servers, receiver, count, is_done=lambda: not queue.left())
    return _checked(result, receiver, secrets)


def task_per_delivery(servers: Topology, receiver: Receiver, path: str, count: int, body_bytes: int) -> Result:
    """One Celery worker with two processes."""
    secrets = queue.fill(f"{receiver.url}{path}", ENDPOINTS, count, body_bytes)
    module = "bench.baselines.task_per_delivery"
    subprocess.run([sys.executable, "-m", module, str(count)], cwd=ROOT, env=servers.env, check=True, timeout=120)
    result = run.run(
        "(c) a Celery task per delivery, 2 processes",
        [_python(servers, "task-per-delivery", *CELERY, "-A", module, "worker", "-c", "2", "--loglevel", "ERROR",
                 DATABASE_POOL_SIZE="0")],
        servers, receiver, count,
    )  # fmt: skip
    return _checked(result, receiver, secrets)


def _checked(result: Result, receiver: Receiver, secrets: dict[str, str]) -> Result:
    seen = receiver.check(secrets)
    if not (seen["valid"] == seen["requests"] and seen["distinct"] == result.deliveries):
        raise RuntimeError(f"{result.name}: the receiver saw {seen}")
    if again := seen["requests"] - seen["distinct"]:
        result.note = f"{again} were sent twice, after deadlocks"
    return result


def _python(servers: Topology, name: str, *argv: str, **env: str) -> Program:
    return Program(name, (sys.executable, *argv), env={**servers.env, **env}, cwd=ROOT)


# --- the published package ------------------------------------------------------------------------------------------


def published(servers: Topology, receiver: Receiver, path: str, count: int, note_bytes: int) -> Result:
    """django-webhook with a Celery worker of two processes. Raises NotRun where it cannot be installed or started."""
    with _installed() as python:
        env = {**servers.env, "DJANGO_SETTINGS_MODULE": "settings"}
        with queue.connect() as connection:
            connection.execute("DROP DATABASE IF EXISTS bench_published")
            connection.execute("CREATE DATABASE bench_published")
        _run([str(python), "package_site.py", f"{receiver.url}{path}", str(ENDPOINTS), str(count // ENDPOINTS),
              str(note_bytes)], env, SITE)  # fmt: skip
        argv = (str(python), "-m", "celery", "-A", "package_site", "worker", "-c", "2", "--loglevel", "ERROR")
        worker = Program("published", argv, env=env, cwd=SITE)
        result = run.run("(d) django-webhook 0.0.15, 2 processes", [worker], servers, receiver, count)
    if receiver.check({})["distinct_bodies"] != count:
        raise RuntimeError("django-webhook: not every body came")
    result.note = "no timeout, no breaker; Celery opens a database connection for each task"
    return result


@contextmanager
def _installed() -> Iterator[Path]:
    """A venv of its own with the package, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="roundtrip-bench-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PUBLISHED,
              *PUBLISHED_NEEDS], None, Path(folder))  # fmt: skip
        yield python


def _run(argv: list[str], env: dict[str, str] | None, folder: Path) -> None:
    try:
        done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRun(f"{type(error).__name__}") from error
    if done.returncode:
        raise NotRun((done.stderr.strip() or done.stdout.strip() or "it failed").splitlines()[-1][:150])
