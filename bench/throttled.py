"""Receivers that say "slow down": 120 events to one that takes one a second, and 100 such beside 100 healthy ones.

The one is nginx with `limit_req` where nginx is installed, else the bench's own receiver; it answers 429 with
`Retry-After: 2` beyond its limit. The healthy ones are offered 200 events a second, first alone, then beside the long
queues of the others: commit to first byte.

Keys: `seconds`, `answers_429`, `dead_letters`, `ratio_p95` (`alone_p95_ms`, `beside_p95_ms`).
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roundtrip_up import ports

import bench
from bench.harness import measure, report
from bench.harness.load import offered, offering
from bench.harness.receiving import Receiver, receiver
from bench.harness.report import percentiles, ratio
from bench.latency import waits

EVENTS, QUICK_EVENTS, WORKERS = 120, 10, 2
THROTTLED, BACKLOG, HEALTHY, PER_SECOND = 100, 200, 100, 200
FULL_SECONDS, QUICK_SECONDS, LEAD_SECONDS = 40.0, 5.0, 10.0
LIMIT = "/limit/1000"
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error crit; worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    limit_req_zone $uri zone=one:1m rate=1r/s;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            limit_req zone=one; limit_req_status 429; add_header Retry-After 2 always; proxy_pass {upstream};
        }}
    }}
}}
"""


def run(arguments: argparse.Namespace) -> dict:
    count, seconds = (QUICK_EVENTS, QUICK_SECONDS) if arguments.quick else (EVENTS, FULL_SECONDS)
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        one = _one(servers, receiving, count)
        alone = _offer(servers, receiving, 0, seconds)
        beside = _offer(servers, receiving, THROTTLED, seconds)
    report.table(
        f"Commit to first byte of the {HEALTHY} healthy at {PER_SECOND}/s, ms",
        ("run", "events", "p50", "p95", "p99", "most"),
        [("alone", *report.spread(alone)), (f"beside {THROTTLED} of one a second", *report.spread(beside))],
    )
    before, after = percentiles(alone)["p95"], percentiles(beside)["p95"]
    figures = {
        **one,
        "ratio_p95": ratio(after, before),
        "alone_p95_ms": round(before, 1),
        "beside_p95_ms": round(after, 1),
    }
    report.verdicts(
        [
            ("seconds", figures["seconds"], "<=", 150),
            ("answers_429", figures["answers_429"], "<=", 39),
            ("dead_letters", figures["dead_letters"], "<=", 0),
            ("ratio_p95", figures["ratio_p95"], "<=", 1.2),
        ]
    )
    return {**figures, "machine": measure.machine()}


def _one(servers: bench.Topology, receiving: Receiver, count: int) -> dict[str, float]:
    """One endpoint that takes one a second: how long `count` events take, and how often it says 429."""
    from bench.harness import rows
    from bench.harness.workers import workers
    from delivery import endpoints
    from delivery.models import Attempt

    rows.forget_all()
    receiving.reset(keep_raw=False)
    with limiting(receiving) as (url, name), workers(servers, WORKERS):
        report.progress(f"{count} events to {name}, one a second")
        endpoints.create(actor="bench", reason="a benchmark", url=url, subscriber="limited")
        target = rows.Target(0, "limited", "", "")
        began = time.monotonic()
        rows.record([target], count)
        rows.wait_delivered(receiving, count, 600)
        seconds = time.monotonic() - began
    told = Attempt.objects.filter(outcome="throttled").count()
    states = rows.states()
    report.table(
        f"{count} events to {name}",
        ("seconds", "delivered", "dead letters", "answers of 429"),
        [(report.shown(seconds, 1), states.get("delivered", 0), states.get("dead_letter", 0), told)],
    )
    return {"seconds": round(seconds, 1), "answers_429": told, "dead_letters": states.get("dead_letter", 0)}


@contextmanager
def limiting(receiving: Receiver) -> Iterator[tuple[str, str]]:
    """(URL, what it is) of something that lets one request a second pass."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not found:
        yield f"{receiving.url}{LIMIT}/one", "the bench's receiver"
        return
    with tempfile.TemporaryDirectory() as folder:
        port = ports.pick(set())
        configuration = Path(folder) / "nginx.conf"
        configuration.write_text(NGINX.format(folder=folder, port=port, upstream=receiving.url))
        process = subprocess.Popen([found, "-p", folder, "-c", str(configuration)])
        try:
            _wait(port, process)
            yield f"http://127.0.0.1:{port}/ok/one", "nginx"
        finally:
            process.terminate()
            process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("nginx did not start")


def _offer(servers: bench.Topology, receiving: Receiver, throttled: int, seconds: float) -> list[float]:
    """Milliseconds of the events of the healthy."""
    from bench.harness import rows
    from bench.harness.workers import workers

    report.progress(f"{PER_SECOND}/s for {seconds:.0f} s to {HEALTHY} endpoints, beside {throttled} throttled ones")
    rows.forget_all()
    receiving.reset(keep_raw=False)
    slow = rows.make_endpoints(receiving, throttled, LIMIT) if throttled else []
    healthy = [target.subscriber for target in rows.make_endpoints(receiving, HEALTHY)]
    with workers(servers, WORKERS):
        if slow:
            rows.record(slow, throttled * BACKLOG)
        rows.release()
        time.sleep(LEAD_SECONDS)
        with offering(servers.env, healthy, PER_SECOND, seconds, f"run{throttled}") as process:
            return waits(receiving, offered(process))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="10 events instead of 120, 5 s instead of 40")


if __name__ == "__main__":
    bench.main(run, add_arguments)
