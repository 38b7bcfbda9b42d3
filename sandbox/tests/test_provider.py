"""The job API: life of a job, batches, lists, refusals, signed webhooks."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests
from standardwebhooks import Webhook

from sandbox.tests.conftest import SECRET, Running, until


def test_a_job_lives_and_its_result_can_be_fetched(sandbox: Running) -> None:
    job_id = sandbox.start("map_search", reference="task-1")
    early = sandbox.call("GET", f"/v1/jobs/{job_id}/result")
    assert (early.status_code, early.json()["error"]["code"]) == (409, "not_ready")
    job = sandbox.finished(job_id, seconds=30)
    assert (job["status"], job["progress"], job["reference"], job["error"]) == ("completed", 100, "task-1", None)
    result = sandbox.call("GET", f"/v1/jobs/{job_id}/result").json()
    assert result["query"] == {"trade": "piekarnia", "place": "Łódź"}
    assert result["place"]["name"] == "Łódź"
    assert result["places"]


def test_each_change_is_told_in_order_and_signed(sandbox: Running) -> None:
    requests.post(f"{sandbox.receiver}/_secrets", json={"path": "/ok", "secret": SECRET}, timeout=5)
    sandbox.faults(min_ms=300, max_ms=300)
    job_id = sandbox.start()
    until(lambda: sandbox.told(job_id)[-1:] == ["completed"])
    assert sandbox.told(job_id) == ["processing", "processing", "completed"]
    for entry in sandbox.journal():
        headers = {name: entry["headers"][name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
        Webhook(SECRET).verify(entry["body"], headers)  # raises where it does not hold
        assert entry["signature"] == "valid"
    assert len({entry["webhook_id"] for entry in sandbox.journal()}) == 3


def test_the_correlation_id_of_the_start_comes_back(sandbox: Running) -> None:
    sandbox.session.headers["x-correlation-id"] = "corr-42"
    try:
        job_id = sandbox.start()
    finally:
        del sandbox.session.headers["x-correlation-id"]
    until(lambda: "completed" in sandbox.told(job_id))
    assert {entry["correlation_id"] for entry in sandbox.journal()} == {"corr-42"}


def test_a_batch_is_started_at_once_and_told_together(sandbox: Running) -> None:
    sandbox.faults(min_ms=100, max_ms=400, coalesce_ms=50)
    batch = sandbox.start_batch(60)
    assert [job["reference"] for job in batch["jobs"]] == [f"ref-{n}" for n in range(60)]
    done = until(
        lambda: (b := sandbox.call("GET", f"/v1/batches/{batch['batch_id']}").json())["status"] == "completed" and b
    )
    assert done["counts"]["completed"] == done["total"] == 60
    until(lambda: all(sandbox.told(job["job_id"])[-1:] == ["completed"] for job in batch["jobs"][-5:]))
    entries = sandbox.journal()
    assert len(entries) < 60  # many in one
    assert all(f'"batch_id":"{batch["batch_id"]}"' in entry["body"] for entry in entries)


def test_ten_thousand_jobs_in_one_call(sandbox: Running) -> None:
    sandbox.faults(min_ms=20, max_ms=40, concurrency=10_000)
    batch = sandbox.start_batch(10_000, webhook_url="")
    until(lambda: sandbox.call("GET", f"/v1/batches/{batch['batch_id']}").json()["status"] == "completed", 15)
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = sandbox.call(
            "GET", "/v1/jobs", params={"batch_id": batch["batch_id"], "limit": 1000, "cursor": cursor}
        ).json()
        seen += [job["job_id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
    assert seen == [job["job_id"] for job in batch["jobs"]]


def test_concurrency_is_bounded(sandbox: Running) -> None:
    sandbox.faults(min_ms=400, max_ms=400, concurrency=3)
    batch = sandbox.start_batch(10)
    time.sleep(0.25)
    counts = sandbox.call("GET", f"/v1/batches/{batch['batch_id']}").json()["counts"]
    assert (counts["processing"], counts["queued"]) == (3, 7)


def test_jobs_are_listed_by_id_reference_time_and_status(sandbox: Running) -> None:
    def listed(**query: Any) -> list[str]:
        return [job["job_id"] for job in sandbox.call("GET", "/v1/jobs", params=query).json()["jobs"]]

    first, second = sandbox.start(reference="a"), sandbox.start(reference="b")
    updated = [sandbox.finished(job_id)["updated_at"] for job_id in (first, second)]
    third = sandbox.start(reference="a")
    sandbox.finished(third)
    assert listed() == [first, second, third]
    assert listed(ids=f"{third},job_nope,{first}") == [first, third]
    assert listed(reference="a") == [first, third]
    assert third in listed(since=max(updated))
    assert listed(since=time.time() + 5) == []
    assert listed(status="completed", kind="scoring") == [first, second, third]
    assert listed(status="failed") == listed(kind="map-search") == listed(batch_id="batch_nope") == []


def test_a_cancelled_job_stays_cancelled_and_a_finished_one_finished(sandbox: Running) -> None:
    sandbox.faults(min_ms=3000, max_ms=3000)
    job_id = sandbox.start()
    answer = sandbox.call("POST", f"/v1/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    until(lambda: sandbox.told(job_id) == ["cancelled"])
    refused = sandbox.call("GET", f"/v1/jobs/{job_id}/result")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "job_cancelled")
    sandbox.faults()
    done = sandbox.start()
    sandbox.finished(done)
    assert sandbox.call("POST", f"/v1/jobs/{done}/cancel").json()["status"] == "completed"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/jobs/job_nope", None, 404, "job_not_found"),
        ("GET", "/v1/jobs/job_nope/result", None, 404, "job_not_found"),
        ("GET", "/v1/batches/batch_nope", None, 404, "batch_not_found"),
        ("POST", "/v1/mining/jobs", {"input": {}}, 404, "unknown_kind"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("POST", "/v1/map_search/jobs", {"input": {"trade": "x"}}, 422, "invalid_input"),
        ("POST", "/v1/map_search/batches", {"jobs": []}, 422, "invalid_input"),
        ("POST", "/v1/map_search/batches", {"jobs": [{"input": {}}]}, 422, "invalid_input"),
        ("GET", "/v1/jobs?limit=many", None, 422, "invalid_parameter"),
        ("GET", "/v1/jobs?since=yesterday", None, 422, "invalid_parameter"),
    ],
)
def test_refusals(sandbox: Running, method: str, path: str, body: Any, status: int, code: str) -> None:
    answer = sandbox.call(method, path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_one_bad_job_starts_none_of_its_batch(sandbox: Running) -> None:
    jobs = [{"input": {"trade": "x", "place": "Zürich"}}, {"input": {"trade": "x", "limit": 3}}]
    answer = sandbox.call("POST", "/v1/map_search/batches", json={"jobs": jobs})
    assert answer.json()["error"]["field"] == "jobs[1].input.place"
    assert sandbox.call("GET", "/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("key", ["", "Bearer", "Bearer wrong", "sk_test"])
def test_without_the_key_nothing_is_said(sandbox: Running, key: str) -> None:
    answer = requests.get(f"{sandbox.provider}/v1/jobs", headers={"authorization": key}, timeout=5)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


def test_too_many_calls_are_told_when_to_come_back(sandbox: Running) -> None:
    sandbox.faults(calls_per_s=2)
    answers = [sandbox.call("GET", "/v1/jobs") for _ in range(8)]
    limited = [answer for answer in answers if answer.status_code == 429]
    assert limited
    assert limited[-1].headers["retry-after"] == "1"


def test_a_webhook_that_is_refused_comes_again_with_the_same_id(sandbox: Running) -> None:
    behaviour = {"path": "/ok/hooks", "as": "/status/503"}
    requests.post(f"{sandbox.receiver}/_behaviour", json=behaviour, timeout=5)
    job_id = sandbox.start()
    first = until(lambda: sandbox.journal())[0]
    requests.delete(f"{sandbox.receiver}/_behaviour", timeout=5)
    until(lambda: any(e["status"] == 200 and e["webhook_id"] == first["webhook_id"] for e in sandbox.journal()))
    again = sandbox.journal(webhook_id=first["webhook_id"])
    assert [entry["status"] for entry in again] == [503, 200]
    assert again[0]["body"] == again[1]["body"]
    assert job_id in first["body"]
    assert sandbox.webhooks()["retried"] >= 1


def test_stats_count_one_job_for_each_reference(sandbox: Running) -> None:
    sandbox.start(reference="task-1")
    sandbox.start_batch(3)
    stats = requests.get(f"{sandbox.provider}/_stats", timeout=5).json()
    assert stats["kinds"]["scoring"]["jobs"]["started"] == stats["jobs"] == 4
    assert stats["repeated_references"] == {"count": 0, "examples": {}}
    sandbox.start(reference="task-1")
    stats = requests.get(f"{sandbox.provider}/_stats", timeout=5).json()
    assert stats["repeated_references"] == {"count": 1, "examples": {"task-1": 2}}
    assert requests.get(f"{sandbox.provider}/healthz", timeout=5).status_code == 200
