"""The loop, played against the real processes: commands, jobs, webhooks, polls, events and what the receiver got."""

import json
import math
import time
from collections import Counter

import pytest
import requests
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from tests.e2e.system import ROOT, searches, wait_for

TOKYO = (35.6895, 139.69171)
BACKWARD = {
    ("succeeded", "*"),
    ("fetching", "running"),
    ("fetching", "queued"),
    ("running", "queued"),
    ("cancelled", "*"),
}


def kilometres(a, b):
    (lat1, lon1), (lat2, lon2) = ([math.radians(value) for value in point] for point in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 6371 * 2 * math.asin(math.sqrt(h))


def told(system, batch_id):
    """task id → set of webhook ids, of the `task.succeeded` events at the receiver, for the tasks of one batch."""
    tasks = {task["id"] for task in system.every(f"/batches/{batch_id}/tasks/")}
    found: dict[str, set[str]] = {task: set() for task in tasks}
    for entry in system.journal(path="/ok"):
        body = json.loads(entry["body"])
        if body["type"] == "task.succeeded" and body["data"]["task_id"] in tasks:
            found[body["data"]["task_id"]].add(entry["webhook_id"])
    return found


def everybody_told_once(system, batch_id, seconds=30):
    def look():
        found = told(system, batch_id)
        return found if all(found.values()) else None

    found = wait_for(look, seconds, "every task.succeeded to arrive")
    assert {len(ids) for ids in found.values()} == {1}


def no_step_back(system, tasks):
    for task in tasks:
        timeline = system.get(f"/tasks/{task['id']}/timeline/")
        steps = [row for row in timeline if row["type"] == "transition"]
        assert steps
        for step in steps:
            pair = (step["from_state"], step["to_state"])
            assert pair not in BACKWARD and (pair[0], "*") not in BACKWARD, timeline


def test_real_searches_from_a_csv_file_all_succeed_near_their_places(system):
    done = system.manage("submit", "examples/searches.csv", "--kind", "map_search", "--wait", "--json")
    batch = json.loads(done.stdout.strip().splitlines()[-1])
    total = len(searches())
    assert total >= 200
    found = system.get(f"/batches/{batch['id']}/")
    assert (found["counts"], found["outcome"], found["total"]) == ({"succeeded": total}, "all_succeeded", total)
    tasks = system.every(f"/batches/{batch['id']}/tasks/", payload="true")
    with_places = [task for task in tasks if task["result"]["places"]]
    assert len(with_places) >= 0.95 * total
    in_tokyo = [place for task in tasks if task["input"]["place"] == "東京" for place in task["result"]["places"]]
    assert in_tokyo
    assert max(kilometres(TOKYO, (place["lat"], place["lon"])) for place in in_tokyo) < 50
    everybody_told_once(system, batch["id"])


def test_three_batches_in_a_chain_agree_to_the_row(system):
    first = system.finished(system.submit("map_search", searches(20)))
    second = json.loads(
        system.manage("submit", "--from-batch", first["id"], "--kind", "email_generation", "--wait", "--json")
        .stdout.strip()
        .splitlines()[-1]
    )
    third = json.loads(
        system.manage("submit", "--from-batch", second["id"], "--kind", "scoring", "--wait", "--json")
        .stdout.strip()
        .splitlines()[-1]
    )
    counts = [system.get(f"/batches/{batch['id']}/")["counts"] for batch in (first, second, third)]
    searches_done = system.every(f"/batches/{first['id']}/tasks/", payload="true")
    places = sum(len(task["result"]["places"]) for task in searches_done)
    assert counts == [{"succeeded": 20}, {"succeeded": places}, {"succeeded": places}]
    scores = [task["result"]["score"] for task in system.every(f"/batches/{third['id']}/tasks/", payload="true")]
    assert all(0 <= score <= 100 for score in scores)
    everybody_told_once(system, third["id"], 60)


def test_with_faults_everywhere_all_succeed_and_each_is_told_once(system):
    system.faults(
        duplicate=0.2,
        reorder=0.2,
        delay=0.5,
        delay_ms=3000,
        drop=0.2,
        server_error=0.05,
        rate_limited=0.05,
        seed=7,
        jobs_per_webhook=1,  # the dice are thrown for each message: many small ones leave nothing to luck
    )
    batch = system.submit("map_search", searches(60))

    def nudge():
        system.manage(
            "reconcile", check=False
        )  # exit 1 where the provider answers 500 or 429: the next round asks again
        found = system.get(f"/batches/{batch['id']}/")
        return found if found["state"] == "completed" else None

    time.sleep(5)
    found = wait_for(nudge, 90, "the batch to complete with faults", every=3)
    assert found["counts"] == {"succeeded": 60}
    everybody_told_once(system, batch["id"])
    no_step_back(system, system.every(f"/batches/{batch['id']}/tasks/"))

    def ignored_ones():
        return [row for row in system.every("/inbound-events/") if row["outcome"] == "ignored"]

    ignored = wait_for(ignored_ones, 30, "a late or doubled event to be ignored", every=1)
    assert all(row["reason"] for row in ignored), Counter(row["reason"] for row in ignored)


def test_without_a_single_webhook_the_poll_finishes_and_the_console_says_so(system, page):
    system.faults(drop=1.0)
    batch = system.submit("scoring", [{"business": {"name": f"Bäckerei {n}", "rating": 4.1}} for n in range(10)])
    time.sleep(3)
    for _ in range(20):
        system.manage("reconcile")
        if system.get(f"/batches/{batch['id']}/")["state"] == "completed":
            break
        time.sleep(1)
    assert system.get(f"/batches/{batch['id']}/")["counts"] == {"succeeded": 10}
    page.goto(f"{system.url}/batches/{batch['id']}/")
    assert "poll" in page.inner_text("main, body").lower()


def test_a_changed_byte_an_old_timestamp_or_a_wrong_secret_is_a_401_that_changes_nothing(system):
    secret = next(
        line.partition("=")[2]
        for line in (system.data / "roundtrip.env").read_text().splitlines()
        if line.startswith("SANDBOX_WEBHOOK_SECRET=")
    )
    body = json.dumps({"job_id": "none", "status": "completed"})
    now = time.time()

    def send(payload, key, at):
        from datetime import UTC, datetime

        signature = Webhook(key).sign("msg_x1", datetime.fromtimestamp(at, UTC), body)
        headers = {"webhook-id": "msg_x1", "webhook-timestamp": str(int(at)), "webhook-signature": signature}
        return requests.post(f"{system.url}/webhooks/map-search/", data=payload, headers=headers, timeout=5)

    before = system.get("/stats/")["tasks"]
    assert send(body + " ", secret, now).status_code == 401
    assert send(body, secret, now - 600).status_code == 401
    assert send(body, "whsec_" + "A" * 44, now).status_code == 401
    right = send(body, secret, now)
    assert (right.status_code, right.json()["reason"]) == (200, "task_not_found")
    assert system.get("/stats/")["tasks"] == before


def test_what_the_receiver_got_verifies_with_the_reference_library(system):
    endpoint = system.post(
        "/endpoints/", {"url": f"{system.demo['receiver_url']}/ok/verify", "event_types": ["verify.*"]}, 201
    )
    for number in range(5):
        system.post("/events/", {"type": "verify.me", "data": {"n": number, "word": "Łódź"}}, 202)
    entries = wait_for(
        lambda: rows if len(rows := system.journal(path="/ok/verify")) == 5 else None, 20, "five deliveries"
    )
    for entry in entries:
        Webhook(endpoint["secret"]).verify(entry["body"], entry["headers"])
        with pytest.raises(WebhookVerificationError, match="signature"):
            Webhook(endpoint["secret"]).verify(entry["body"] + " ", entry["headers"])


def test_one_grep_shows_one_journey(system):
    correlation_id = f"journey-{int(time.time())}"
    batch = system.post(
        "/batches/",
        {"kind": "map_search", "tasks": [{"input": searches(1)[0]}]},
        202,
        headers={"x-correlation-id": correlation_id},
    )
    system.finished(batch)
    everybody_told_once(system, batch["id"])
    lines = [line for line in system.logs().splitlines() if correlation_id in line]
    seen = {
        name for name in ("web", "worker-tasks", "worker-delivery", "sandbox") if any(name in line for line in lines)
    }
    assert lines
    assert any(entry["correlation_id"] == correlation_id for entry in system.journal(path="/ok")), seen


def test_payloads_and_urls_stay_out_of_the_logs(system):
    system.post(
        "/endpoints/", {"url": f"{system.demo['receiver_url']}/ok/leak?token=sesame", "event_types": ["leak.*"]}, 201
    )
    system.post("/events/", {"type": "leak.test", "data": {"click_id": "klick-4711"}}, 202)
    wait_for(lambda: system.journal(path="/ok/leak"), 20, "the delivery")
    logs = system.logs()
    assert "klick-4711" not in logs
    assert "sesame" not in logs


def test_the_readme_and_the_pages_are_served_without_the_internet(system):
    docs = system.session.get(f"{system.url}/api/v1/docs/", timeout=10)
    assert docs.status_code == 200
    assert "cdn." not in docs.text
    schema = system.session.get(f"{system.url}/api/v1/schema/", headers={"Accept": "application/json"}, timeout=20)
    assert schema.status_code == 200
    assert ROOT.joinpath("README.md").exists()


def test_the_doctor_proves_the_round_trip_with_the_real_workers_and_leaves_nothing(system):
    report = json.loads(system.manage("doctor", "--json").stdout)
    checks = report["checks"]
    assert {name for name, check in checks.items() if not check["ok"]} == set()
    tried = {"event", "queue_default", "queue_delivery", "queue_tasks", "channel_layer_trip", "provider_sandbox"}
    assert tried <= set(checks) and not tried & set(report["not_tried"])
    assert "it came in and verified" in checks["event"]["detail"]
    assert [row["name"] for row in system.every("/endpoints/") if row["subscriber"] == "roundtrip-doctor"] == []
    assert system.every("/events/", subscriber="roundtrip-doctor") == []
