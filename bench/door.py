"""Does the door stay open while strangers stand in it? Signed inbound webhooks beside all that can be done to it.

All processes as `bin/up` starts them, one web process. At once and all the time: log-ins with wrong passwords, bodies
that drip a byte a second, heads that never end, sockets that say nothing. Beside them signed webhooks of the
sandbox's provider come in, for jobs that are known and for strangers' ones, and `/readyz` is asked. Each log-in comes
from an address of its own, so that the bound of one address does not spare us the hash. Waits run from the moment at
which a webhook was meant to leave, so that one that holds up the next is not forgiven.

Keys: `p50_ms`, `p95_ms`, `p99_ms`, `max_ms`, `statuses`, `readyz`, `quiet_p95_ms`, `log_ins`, `cut`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count as numbers

from roundtrip_up import process_table

import bench
from bench.harness import measure, report
from bench.harness.load import moments
from sandbox.signing import secret_bytes, sign

FULL_SECONDS, QUICK_SECONDS, QUIET_SECONDS, START_SECONDS = 30.0, 5.0, 5.0, 90.0
PER_SECOND, KNOWN_JOBS = 20, 300
LOG_INS, DRIPS, HEADS, SILENT = 20, 200, 100, 50
ANSWER_SECONDS = 15.0


@dataclass(slots=True)
class Seen:
    """What came of it."""

    waits_ms: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    readyz: Counter[str] = field(default_factory=Counter)
    log_ins: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)  # connections of strangers that the server ended


class Door:
    """Everybody who comes to it. Each caller is one coroutine with connections of its own."""

    def __init__(self, port: int, key: bytes, jobs: list[str]) -> None:
        self._port, self._key, self._jobs = port, key, jobs
        self._numbers = numbers()
        self.seen = Seen()

    async def genuine(self, seconds: float) -> None:
        began, sent = time.monotonic(), []
        for at, number in moments(PER_SECOND, seconds):
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            sent += [asyncio.create_task(self._webhook(began + at)) for _ in range(number)]
        await asyncio.gather(*sent)

    async def _webhook(self, due: float) -> None:
        number = next(self._numbers)
        known = number % 2 and number < 2 * len(self._jobs)
        job = self._jobs[number // 2] if known else f"stranger-{secrets.token_hex(6)}"
        body = json.dumps({"job_id": job, "status": "running", "progress": 50}).encode()
        name, now = f"bench-{secrets.token_hex(8)}".encode(), str(int(time.time())).encode()
        head = {"content-type": b"application/json", "webhook-id": name, "webhook-timestamp": now,
                "webhook-signature": sign(self._key, name, now, body)}  # fmt: skip
        status = await self._ask("POST", "/webhooks/sandbox/", head, body)
        self.seen.statuses[status] += 1
        self.seen.waits_ms.append((time.monotonic() - due) * 1e3)

    async def probe(self) -> None:
        while True:
            self.seen.readyz[await self._ask("GET", "/readyz", {}, b"")] += 1
            await asyncio.sleep(0.5)

    async def log_in(self) -> None:
        """As a browser would: a token of one's own, and the wrong password."""
        token = secrets.token_hex(16)
        while True:
            form = f"csrfmiddlewaretoken={token}&username=nobody-{secrets.token_hex(3)}&password=wrong".encode()
            address = ".".join(str(secrets.randbelow(200) + 20) for _ in range(4))
            head = {"content-type": b"application/x-www-form-urlencoded", "cookie": f"csrftoken={token}".encode(),
                    "x-forwarded-for": address.encode()}  # fmt: skip
            status = await self._ask("POST", "/admin/login/", head, form)
            self.seen.log_ins[status] += 1
            await asyncio.sleep(0.05)

    async def drip(self) -> None:
        await self._hold(
            "drip", b"POST /webhooks/sandbox/ HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n", b"x"
        )

    async def head(self) -> None:
        await self._hold("head", b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"x-a: " + b"b" * 4000 + b"\r\n")

    async def silence(self) -> None:
        await self._hold("silent", b"", b"")

    async def _hold(self, who: str, first: bytes, again: bytes) -> None:
        """Keep a connection as long as the server lets us, and come back."""
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(first)
                answer = asyncio.ensure_future(reader.read(100))
                while not (await asyncio.wait({answer}, timeout=1.0))[0]:
                    writer.write(again)
                self.seen.cut[f"{who} {_status(answer.result())}"] += 1
                writer.close()
            except OSError as error:
                self.seen.cut[f"{who} {type(error).__name__}"] += 1
                await asyncio.sleep(0.2)

    async def _ask(self, method: str, path: str, head: dict[str, bytes], body: bytes) -> str:
        lines = b"".join(b"%b: %b\r\n" % (name.encode(), value) for name, value in head.items())
        text = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(text.encode() + lines + b"\r\n" + body)
                answer = await reader.read()
                writer.close()
                return _status(answer)
        except (OSError, TimeoutError) as error:
            return type(error).__name__


def _status(answer: bytes) -> str:
    return answer[9:12].decode("ascii", "replace") if answer.startswith(b"HTTP/1.") else "closed"


def run(arguments: argparse.Namespace) -> dict:
    seconds = QUICK_SECONDS if arguments.quick else FULL_SECONDS
    with bench.topology() as servers:
        servers.set_up_django()
        env = {**servers.env, "TRUSTED_PROXIES": "127.0.0.0/8"}
        process, *_ = [servers.start(one) for one in process_table.programs(servers.python, servers.addresses, 1, env)]
        jobs = _known_jobs()
        key = secret_bytes(servers.env["SANDBOX_WEBHOOK_SECRET"])
        quiet, crowded = asyncio.run(_play(servers.addresses.web, key, jobs, seconds))
        if process.poll() is not None:
            raise RuntimeError(f"the web process ended:\n{servers.log_of('web')[-3000:]}")
        return _report(quiet, crowded, measure.peak_rss_mb(process.pid))


async def _play(port: int, key: bytes, jobs: list[str], seconds: float) -> tuple[Seen, Seen]:
    """The same webhooks twice: alone, and among the crowd."""
    door = Door(port, key, jobs)
    ends = time.monotonic() + START_SECONDS
    while await door._ask("GET", "/readyz", {}, b"") != "200":
        if time.monotonic() > ends:
            raise RuntimeError("/readyz did not become 200")
        await asyncio.sleep(0.2)
    report.progress("alone")
    await door.genuine(QUIET_SECONDS)
    quiet, door.seen = door.seen, Seen()
    report.progress("among the crowd")
    crowd = [asyncio.create_task(door.probe())]
    for act, many in ((door.log_in, LOG_INS), (door.drip, DRIPS), (door.head, HEADS), (door.silence, SILENT)):
        crowd += [asyncio.create_task(act()) for _ in range(many)]
    await asyncio.sleep(1.0)
    await door.genuine(seconds)
    broken = [task for task in crowd if task.done()]
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    if broken:
        raise RuntimeError(f"a caller broke off: {broken[0].exception()!r}")
    return quiet, door.seen


def _known_jobs() -> list[str]:
    """Tasks that wait for a provider's word, as rows: no worker runs here."""
    from django.utils import timezone

    from tasks.models import ExternalJob, Task
    from tasks.states import JobState, State

    now = timezone.now()
    ids = []
    for number in range(KNOWN_JOBS):
        task = Task.objects.create(
            kind="scoring", input={}, correlation_id="c0ffee00c0ffee00", state=State.RUNNING, run_at=now,
            next_attempt_at=now, deadline_at=now + timedelta(hours=1),
        )  # fmt: skip
        ids.append(f"known-{number}")
        ExternalJob.objects.create(task=task, provider="sandbox", attempt=1, job_id=ids[-1], state=JobState.SUBMITTED)
    return ids


def _report(quiet: Seen, crowded: Seen, rss_mb: float) -> dict:
    rows = [("alone", *report.spread(quiet.waits_ms)), ("among the crowd", *report.spread(crowded.waits_ms))]
    report.table("Signed webhooks, ms from when they were due", ("how", "calls", "p50", "p95", "p99", "most"), rows)
    print(f"webhooks {dict(crowded.statuses)}, readyz {dict(crowded.readyz)}")
    print(f"log-ins {dict(crowded.log_ins)}, strangers ended {dict(crowded.cut)}, web's peak {rss_mb:.0f} MB")
    others = sum(number for status, number in crowded.statuses.items() if status != "200")
    not_ready = sum(number for status, number in crowded.readyz.items() if status != "200")
    figures = {f"{name}_ms": round(value, 1) for name, value in report.percentiles(crowded.waits_ms).items()}
    report.verdicts(
        [("p95_ms", figures["p95_ms"], "<=", 500), ("not 200", others, "<=", 0), ("not ready", not_ready, "<=", 0)]
    )
    return {
        **figures,
        "max_ms": round(max(crowded.waits_ms), 1),
        "quiet_p95_ms": round(report.percentile(quiet.waits_ms, 0.95), 1),
        "statuses": dict(crowded.statuses),
        "readyz": dict(crowded.readyz),
        "log_ins": dict(crowded.log_ins),
        "cut": dict(crowded.cut),
        "web_peak_mb": round(rss_mb),
        "machine": measure.machine(),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="5 seconds instead of 30")


if __name__ == "__main__":
    bench.main(run, add_arguments)
