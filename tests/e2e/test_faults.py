"""Processes die and the broker forgets, in mid-batch: the work goes on without a hand, and nothing happens twice."""

import os
import signal
import time

import pytest

from tests.e2e.system import EXTERNAL, searches, wait_for
from tests.e2e.test_loop import everybody_told_once

pytestmark = pytest.mark.fault


def half_way(system, batch):
    def look():
        counts = system.get(f"/batches/{batch['id']}/")["counts"]
        return counts.get("succeeded", 0) >= 5

    wait_for(look, 40, "some tasks to succeed", every=0.1)


def one_job_each(system, batch):
    tasks = system.every(f"/batches/{batch['id']}/tasks/")
    assert len(tasks) == batch["total"]
    for task in tasks:
        rows = system.get(f"/tasks/{task['id']}/timeline/")
        jobs = {row["job_id"] for row in rows if row["type"] == "external_job"}
        assert len(jobs) == 1, rows


@pytest.mark.parametrize("role", ["worker-tasks", "worker-delivery"])
def test_a_worker_killed_in_mid_batch_costs_time_and_nothing_else(system, role):
    system.faults(min_ms=500, max_ms=3000)
    batch = system.submit("map_search", searches(80))
    half_way(system, batch)
    before = system.pids(role)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    wait_for(lambda: set(system.pids(role)) - set(before), 30, "another worker", every=0.1)
    system.end_leases(time.monotonic() - killed_at)
    found = system.finished(batch, 150)
    assert found["counts"] == {"succeeded": 80}
    everybody_told_once(system, batch["id"], 120)
    one_job_each(system, batch)
    assert set(system.pids(role)).isdisjoint(before)


def test_a_broker_that_forgets_everything_costs_time_and_nothing_else(system):
    system.faults(min_ms=500, max_ms=3000)
    batch = system.submit("map_search", searches(80))
    half_way(system, batch)
    system.forget_messages()
    found = system.finished(batch, 150)
    assert found["counts"] == {"succeeded": 80}
    everybody_told_once(system, batch["id"], 60)
    one_job_each(system, batch)


@pytest.mark.skipif(EXTERNAL, reason="the broker is not ours to stop")
def test_submitting_is_quick_while_the_broker_hangs(system):
    pid = system.pids("valkey")[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        batch = system.submit("scoring", [{"business": {"name": "While the broker slept"}}])
        took = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert took < 2
    assert system.finished(batch, 90)["counts"] == {"succeeded": 1}
