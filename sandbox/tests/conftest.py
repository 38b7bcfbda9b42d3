"""A sandbox of its own for each test module: real sockets, a loop in a thread, no Django."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from sandbox.process import Sandbox
from sandbox.settings import Settings

KEY = "sk_test"
SECRET = "whsec_" + base64.b64encode(b"provider-secret-of-the-tests-000").decode()
INPUTS = {
    "scoring": {"business": {"name": "Piekarnia Żukowski", "place": "Łódź"}},
    "map_search": {"trade": "piekarnia", "place": "Łódź"},  # loads the gazetteer, so only where it matters
}


class Running:
    """The sandbox as a caller sees it, and the caller's habits."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.provider, self.receiver = urls["provider"], urls["receiver"]
        self.session = requests.Session()
        self.session.headers["authorization"] = f"Bearer {KEY}"

    def call(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        return self.session.request(method, self.provider + path, timeout=10, **kwargs)

    def faults(self, **rates: Any) -> None:
        answer = requests.post(f"{self.provider}/_faults", json={"min_ms": 40, "max_ms": 80, **rates}, timeout=5)
        assert answer.status_code == 200, answer.text

    def start(self, kind: str = "scoring", **more: Any) -> str:
        body = {"input": INPUTS[kind], "webhook_url": f"{self.receiver}/ok/hooks", **more}
        answer = self.call("POST", f"/v1/{kind}/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["job_id"]

    def start_batch(self, count: int, **more: Any) -> dict[str, Any]:
        jobs = [{"input": INPUTS["scoring"], "reference": f"ref-{n}"} for n in range(count)]
        body = {"jobs": jobs, "webhook_url": f"{self.receiver}/ok/hooks", **more}
        answer = self.call("POST", "/v1/scoring/batches", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def job(self, job_id: str) -> dict[str, Any]:
        return self.call("GET", f"/v1/jobs/{job_id}").json()

    def finished(self, job_id: str, seconds: float = 30.0) -> dict[str, Any]:
        return until(lambda: (job := self.job(job_id)).get("finished_at") and job, seconds)

    def journal(self, **query: Any) -> list[dict[str, Any]]:
        answer = requests.get(f"{self.receiver}/_journal", params={"limit": 1000, **query}, timeout=5)
        return answer.json()["entries"]

    def told(self, job_id: str) -> list[str]:
        """The statuses that webhooks reported for a job, in order of arrival."""
        reports = [report for entry in self.journal() for report in _json(entry["body"])["jobs"]]
        return [report["status"] for report in reports if report["job_id"] == job_id]

    def webhooks(self, kind: str = "scoring") -> dict[str, int]:
        stats = requests.get(f"{self.provider}/_stats", timeout=5).json()
        return stats["kinds"][kind]["webhooks"]

    def reset(self) -> None:
        requests.post(f"{self.provider}/_reset", timeout=5)
        for path in ("/_journal", "/_behaviour", "/_secrets"):
            requests.delete(self.receiver + path, timeout=5)


def _json(text: str) -> Any:
    import json

    return json.loads(text)


def until(probe: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What the probe gives as soon as it gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing within {seconds} s")


@pytest.fixture(scope="module")
def _running() -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    box = Sandbox(Settings(provider_key=KEY, webhook_secret=SECRET, journal_entries=2000, journal_bytes=4 * 1024**2))
    ports = {"provider": 0, "receiver": 0}
    urls = asyncio.run_coroutine_threadsafe(box.start("127.0.0.1", ports), loop).result(10)
    yield Running(urls)
    asyncio.run_coroutine_threadsafe(box.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


@pytest.fixture
def sandbox(_running: Running) -> Running:
    _running.reset()
    _running.faults()
    return _running
