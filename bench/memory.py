"""What do the processes hold with the largest things that may come, and with larger ones that were stored before?

Each step is done several times at once, through the real web process and one real delivery worker; told is the peak of
each process after the step. Rows of 20 MB are laid by hand: no door takes them in today.

Keys: `web_mb`, `worker_mb`, `web_start_mb`, `worker_start_mb`.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import http.client
import json
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from roundtrip_up import process_table

import bench
from bench.harness import measure, report
from bench.harness.receiving import receiver
from bench.harness.workers import wait_ready

LARGE_EVENTS, LARGE_TASKS, LARGE_BYTES = 30, 8, 20 * 1024 * 1024
AT_ONCE = 8
WEB_MOST_MB, WORKER_MOST_MB = 500, 300
PATIENCE_SECONDS = 180.0


def run(arguments: argparse.Namespace) -> dict:
    size = LARGE_BYTES // (10 if arguments.quick else 1)
    with receiver() as receiving, bench.topology() as servers:
        servers.set_up_django()
        receiving.reset(keep_raw=False)
        token, endpoints = _scenery(size), _endpoints(receiving.url)
        programs = process_table.programs(servers.python, servers.addresses, 1, servers.env)
        pids = {one.name: servers.start(one).pid for one in programs}
        wait_ready(2)
        client = _Client(servers.addresses.web, token, servers.settings["SANDBOX_WEBHOOK_SECRET"])
        rows = [("at the start", "", *_peaks(pids))]
        for name, step in _steps(client, endpoints, size):
            report.progress(name)
            rows.append((name, _told(step()), *_peaks(pids)))
    report.table("Peak memory after each step, MB", ("step", "answers", "web", "worker"), rows)
    figures = {
        "web_start_mb": rows[0][2],
        "worker_start_mb": rows[0][3],
        "web_mb": rows[-1][2],
        "worker_mb": rows[-1][3],
    }
    report.verdicts(
        [("web_mb", figures["web_mb"], "<=", WEB_MOST_MB), ("worker_mb", figures["worker_mb"], "<=", WORKER_MOST_MB)]
    )
    return {**figures, "machine": measure.machine()}


def _peaks(pids: dict[str, int]) -> tuple[int, int]:
    return round(measure.peak_rss_mb(pids["web"])), round(measure.peak_rss_mb(pids["worker-delivery-1"]))


def _told(statuses: Sequence[int]) -> str:
    return ", ".join(f"{statuses.count(status)} × {status}" for status in sorted(set(statuses)))


def _scenery(size: int) -> str:
    """Large rows as an earlier release took them in, and a key that may do everything."""
    from django.utils import timezone

    from delivery import events
    from delivery.models import Event
    from kernel.auth import Scope, create_key
    from tasks.models import Task

    moment, text = timezone.now(), "y" * size
    made = events.record_many([events.NewEvent("large.stored", {"x": "small"}, "") for _ in range(LARGE_EVENTS)])
    for event in made:
        payload = b'{"type":"large.stored","timestamp":"2026-11-29T12:00:00Z","data":{"x":"%b"}}' % text.encode()
        Event.objects.filter(pk=event.pk).update(payload=payload)
    for number in range(LARGE_TASKS):
        Task.objects.create(
            kind="map_search", correlation_id="c" * 32, state="succeeded", input={"trade": "a", "place": "b"},
            result={"places": [text]}, run_at=moment, next_attempt_at=moment, finished_at=moment, position=number,
        )  # fmt: skip
    return create_key("memory", list(Scope.values))[1]


def _endpoints(url: str) -> list[int]:
    """Two for every event, and one that renders the largest postback it may."""
    from delivery import endpoints

    postback = {
        "request_form": "postback",
        "method": "POST",
        "body_template": "{data.x}",
        "body_content_type": "text/plain",
    }
    forms: list[dict[str, Any]] = [{}, {}, postback]
    return [
        endpoints.create(actor="bench", url=f"{url}/ok/{number}", event_types=["*"], **form).pk
        for number, form in enumerate(forms)
    ]


class _Client:
    """Calls of a customer and of a provider; answers are read in parts and thrown away."""

    def __init__(self, port: int, token: str, secret: str) -> None:
        self._port, self._token, self._secret = port, token, secret

    def call(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> int:
        calling = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
        mine = {"authorization": f"Bearer {self._token}", "content-type": "application/json"} | (headers or {})
        try:
            calling.request(method, path, body or None, mine)
            answer = calling.getresponse()
            while answer.read(65_536):
                pass
            return answer.status
        finally:
            calling.close()

    def api(self, method: str, path: str, body: Any = None) -> int:
        return self.call(method, f"/api/v1{path}", b"" if body is None else json.dumps(body).encode())

    def webhook(self, body: bytes) -> int:
        name, moment = f"msg_{secrets.token_hex(12)}", str(int(time.time()))
        said = f"{name}.{moment}.".encode() + body
        signature = hmac.new(b64decode(self._secret.removeprefix("whsec_")), said, hashlib.sha256).digest()
        signed = {
            "webhook-id": name, "webhook-timestamp": moment, "webhook-signature": f"v1,{b64encode(signature).decode()}"
        }  # fmt: skip
        return self.call("POST", "/webhooks/sandbox/", body, signed)


def _steps(client: _Client, endpoints: list[int], size: int) -> list[tuple[str, Callable[[], list[int]]]]:
    from delivery.models import Event
    from tasks.models import Task

    large = list(Event.objects.filter(type="large.stored").values_list("pk", flat=True))
    tasks = list(Task.objects.values_list("pk", flat=True))
    since = {"since": "2020-01-01T00:00:00Z", "reason": "bench"}
    event = {"type": "bench.large", "data": {"x": "z" * 250_000}}
    template = {"event": str(large[0]), "body_template": "{data.x}" * 800, "url": "http://127.0.0.1/{uid}"}
    batch = {"kind": "scoring", "tasks": [{"input": {"business": {"name": "b" * 490}}}] * 10_000}
    too_much = {"x": "y" * 34_000_000}
    ids = {"verb": "redrive_deliveries", "filter": {"ids": ["x" * 6] * 20_000}, "reason": "bench"}

    def each(method: str, paths: Sequence[str], body: Any = None) -> list[int]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda path: client.api(method, path, body), paths))

    def webhooks() -> list[int]:
        body = b'{"job_id": "j", "status": "completed", "x": "%b"}' % (b"w" * 4_900_000)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(client.webhook, [body] * 16))

    def replays() -> list[int]:
        told = each("POST", [f"/endpoints/{pk}/replay/" for pk in endpoints], since)
        return told + [200] * _settled()

    return [
        ("replay 30 stored events of 20 MB to 3 endpoints, and send them", replays),
        ("lists of events, tasks with payloads, dead letters", lambda: each(
            "GET", ["/events/?limit=200", "/tasks/?limit=200&payload=true", "/dead-letters/?limit=200"] * AT_ONCE)),
        ("8 results of 20 MB, one task each, then downloaded", lambda: each(
            "GET", [f"/tasks/{pk}/" for pk in tasks] + [f"/tasks/{pk}/result/" for pk in tasks])),
        ("32 of the largest single events", lambda: each("POST", ["/events/"] * 32, event)),
        ("8 of the largest bulks", lambda: each("POST", ["/events/bulk/"] * 8, {"events": [event] * 16})),
        ("previews of a large template with a large event", lambda: each(
            "POST", [f"/endpoints/{endpoints[2]}/preview-postback/"] * AT_ONCE, template)),
        ("2 MB of wrong ids", lambda: each("POST", ["/operations/"] * AT_ONCE, ids)),
        ("3 batches of 10,000 tasks", lambda: each("POST", ["/batches/"] * 3, batch)),
        ("bodies beyond every cap", lambda: each("POST", ["/events/", "/tasks/", "/batches/"], too_much)),
        ("16 of the largest webhooks", webhooks),
        ("what is left is sent", lambda: [200] * _settled()),
    ]  # fmt: skip


def _settled() -> int:
    """Waits until the worker has nothing more to do; how many deliveries there are then."""
    from delivery.engine.wake import wake
    from delivery.models import Delivery

    deadline = time.monotonic() + PATIENCE_SECONDS
    while Delivery.objects.filter(state__in=["pending", "in_flight"], endpoint__is_held=False).exists():
        if time.monotonic() > deadline:
            raise RuntimeError("deliveries are still waiting")
        wake()
        time.sleep(0.5)
    return Delivery.objects.count()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="stored rows of 2 MB instead of 20")


if __name__ == "__main__":
    bench.main(run, add_arguments)
