"""A caller that publishes through the API while things break, and repeats what was not answered."""

from __future__ import annotations

import threading
import time
from collections import Counter

import requests

from tests.e2e.system import System, wait_for

BATCH = 50
PATH = "/status/200"  # not /ok, where the tests of the loop read everything


class Caller(threading.Thread):
    """Publishes `count` events in batches; `accepted` holds the uids that were answered with 202."""

    def __init__(self, system: System, name: str, count: int, batch: int = BATCH, pause: float = 0.05) -> None:
        super().__init__(name="caller", daemon=True)
        self.name_, self._count, self._batch, self._pause = name, count, batch, pause
        self._url = f"{system.url}/api/v1/events/bulk/"
        self._headers = {"Authorization": f"Bearer {system.demo['api_key']}"}
        self.accepted: list[str] = []
        self.repeated = 0

    def run(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.headers.update(self._headers)
            for start in range(0, self._count, self._batch):
                numbers = range(start, min(self._count, start + self._batch))
                while not self._publish(session, numbers):
                    self.repeated += 1
                    time.sleep(0.2)
                time.sleep(self._pause)

    def _publish(self, session: requests.Session, numbers: range) -> bool:
        uids = [f"{self.name_}_{n}" for n in numbers]
        events = [
            {"type": f"{self.name_}.happened", "subscriber": self.name_, "uid": uid, "data": {"n": uid}} for uid in uids
        ]
        try:
            answer = session.post(self._url, json={"events": events}, timeout=20)
        except requests.RequestException:
            return False
        if answer.status_code != 202:
            assert answer.status_code >= 500, answer.text[:500]
            return False
        self.accepted += uids
        return True


def endpoint(system: System, name: str, path: str = PATH, **policy: object) -> dict:
    """An endpoint of a subscriber of its own at the sandbox's receiver."""
    url = f"{system.demo['receiver_url']}{path}/{name}"
    return system.post("/endpoints/", {"url": url, "subscriber": name, **policy}, 201)


def arrived(system: System, path: str) -> Counter[str]:
    """How often each webhook-id was answered with a 2xx on this path."""
    found: Counter[str] = Counter()
    offset = 0
    while True:
        entries = system.journal(path=path, limit=5000, offset=offset)
        found.update(entry["webhook_id"] for entry in entries if 200 <= entry["status"] < 300)
        if len(entries) < 5000:
            return found
        offset += len(entries)


def all_arrived(system: System, path: str, uids: list[str], seconds: float = 180) -> Counter[str]:
    """Waits until each of them was answered with a 2xx; returns how often each was."""

    def look() -> Counter[str] | None:
        found = arrived(system, path)
        return found if found.keys() >= set(uids) else None

    return wait_for(look, seconds, f"{len(uids)} deliveries on {path}", every=1)


def settled(system: System, endpoint_id: str, seconds: float = 120) -> None:
    """Until nothing of this endpoint waits or is in the air."""

    def look() -> bool:
        return not any(
            system.get("/deliveries/", endpoint=endpoint_id, state=state, limit=1)["results"]
            for state in ("in_flight", "pending", "failed")
        )

    wait_for(look, seconds, f"endpoint {endpoint_id} to be done", every=0.5)
