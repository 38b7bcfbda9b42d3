"""Each fault does what it says, at a rate of 1, and nothing else."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
import requests

from sandbox.provider.faults import BadFault, Faults
from sandbox.tests.conftest import Running, until


def test_drop(sandbox: Running) -> None:
    sandbox.faults(drop=1)
    sandbox.finished(sandbox.start())
    time.sleep(0.1)
    assert sandbox.journal() == []
    hooks = sandbox.webhooks()
    assert hooks["dropped"] == hooks["messages"] > 0
    assert hooks["attempts"] == 0


def test_duplicate(sandbox: Running) -> None:
    sandbox.faults(duplicate=1)
    sandbox.finished(sandbox.start())
    messages = until(lambda: (h := sandbox.webhooks())["delivered"] == 2 * h["messages"] and h)["messages"]
    ids = [entry["webhook_id"] for entry in sandbox.journal()]
    assert len(ids) == 2 * len(set(ids)) == 2 * messages


def test_reorder(sandbox: Running) -> None:
    sandbox.faults(reorder=0.5, seed=3, min_ms=400, max_ms=400)
    jobs = [sandbox.start() for _ in range(12)]
    until(lambda: all(len(sandbox.told(job)) == 3 for job in jobs))
    orders = {tuple(sandbox.told(job)) for job in jobs}
    assert ("processing", "processing", "completed") in orders
    assert any(order[-1] == "processing" for order in orders)  # after completed


def test_delay(sandbox: Running) -> None:
    sandbox.faults(delay=1, delay_ms=1000, seed=3)
    jobs = [sandbox.start() for _ in range(6)]
    ends = [datetime.fromisoformat(sandbox.finished(job)["finished_at"]) for job in jobs]
    until(lambda: all("completed" in sandbox.told(job) for job in jobs))
    last = max(datetime.fromisoformat(entry["at"]) for entry in sandbox.journal())
    assert last - max(ends) >= timedelta(milliseconds=200)  # each waits for up to a second
    hooks = sandbox.webhooks()
    assert hooks["delayed"] == hooks["messages"]


def test_unknown_status(sandbox: Running) -> None:
    sandbox.faults(unknown_status=1, min_ms=400, max_ms=400)
    job = sandbox.start()
    until(lambda: sandbox.job(job)["status"] == "warming_up")
    until(lambda: "completed" in sandbox.told(job))
    assert sandbox.told(job) == ["processing", "warming_up", "completed"]


def test_not_found_after_completion(sandbox: Running) -> None:
    sandbox.faults(not_found_after_completion=1, not_found_ms=300)
    job = sandbox.start()
    until(lambda: "completed" in sandbox.told(job))
    for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/result"):
        assert sandbox.call("GET", path).status_code == 404
    assert sandbox.call("GET", "/v1/jobs").json()["jobs"] == []
    until(lambda: sandbox.call("GET", f"/v1/jobs/{job}/result").status_code == 200)


@pytest.mark.parametrize(("fault", "status", "code"), [("rate_limited", 429, "rate_limited"),
                                                       ("server_error", 500, "internal")])  # fmt: skip
def test_refused_calls_start_nothing(sandbox: Running, fault: str, status: int, code: str) -> None:
    sandbox.faults(**{fault: 1})
    body = {"input": {"trade": "x", "place": "Zürich"}}
    answer = sandbox.call("POST", "/v1/map_search/jobs", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers.get("retry-after") == ("1" if status == 429 else None)
    sandbox.faults(**{fault: 0})
    assert sandbox.call("GET", "/v1/jobs").json()["jobs"] == []


def test_slow(sandbox: Running) -> None:
    sandbox.faults(slow=1, slow_ms=200)
    began = time.monotonic()
    assert sandbox.call("GET", "/v1/jobs").status_code == 200
    assert time.monotonic() - began >= 0.2


def test_start_timeout_has_started_and_can_be_adopted(sandbox: Running) -> None:
    sandbox.faults(start_timeout=1, hang_ms=200)
    with pytest.raises(requests.ConnectionError):
        sandbox.start(reference="orphan")
    (job,) = sandbox.call("GET", "/v1/jobs", params={"reference": "orphan"}).json()["jobs"]
    assert sandbox.finished(job["job_id"])["status"] == "completed"


def test_fail(sandbox: Running) -> None:
    sandbox.faults(fail=1)
    job = sandbox.start()
    failed = sandbox.finished(job)
    assert failed["status"] == "failed"
    assert set(failed["error"]) == {"code", "message"}
    until(lambda: sandbox.told(job)[-1:] == ["failed"])
    assert '"error":{"code"' in sandbox.journal()[-1]["body"]
    answer = sandbox.call("GET", f"/v1/jobs/{job}/result")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "job_failed")


def test_lose(sandbox: Running) -> None:
    sandbox.faults(lose=1)
    job = sandbox.start()
    until(lambda: sandbox.call("GET", f"/v1/jobs/{job}").status_code == 404)
    time.sleep(0.1)
    assert "completed" not in sandbox.told(job)
    assert sandbox.call("POST", f"/v1/jobs/{job}/cancel").status_code == 404


def test_faults_are_shown_and_reset(sandbox: Running) -> None:
    sandbox.faults(drop=0.2, seed=7)
    shown = requests.get(f"{sandbox.provider}/_faults", timeout=5).json()
    assert (shown["drop"], shown["seed"], shown["duplicate"]) == (0.2, 7, 0)
    assert requests.delete(f"{sandbox.provider}/_faults", timeout=5).json()["drop"] == 0


@pytest.mark.parametrize("wanted", [{"drop": 20}, {"drop": "0.2"}, {"dorp": 0.2}, {"drop": True},
                                    {"min_ms": 500, "max_ms": 100}, {"slow_ms": -1}])  # fmt: skip
def test_a_wrong_fault_changes_nothing(sandbox: Running, wanted: dict[str, object]) -> None:
    answer = requests.post(f"{sandbox.provider}/_faults", json={"fail": 1, **wanted}, timeout=5)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_fault")
    assert requests.get(f"{sandbox.provider}/_faults", timeout=5).json()["fail"] == 0


def test_a_seed_makes_the_dice_repeatable() -> None:
    def throws() -> list[bool]:
        faults = Faults()
        faults.set({"drop": 0.5, "seed": 11})
        return [faults.strikes("drop") for _ in range(50)]

    assert throws() == throws()
    assert len(set(throws())) == 2
    with pytest.raises(BadFault):
        Faults().set({"nope": 1})
