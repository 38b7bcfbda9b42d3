"""bin/up as a whole, with the product in it: kill -9 and recovery, data that stays, processes that come back."""

import json
import os
import signal
import stat
import time

import pytest
import requests

from tests.e2e.system import System, wait_for
from tests.frame.conftest import is_alive

pytestmark = pytest.mark.fault
NAMES = {"postgres", "valkey", "sandbox", "web", "worker-delivery-1", "worker-delivery-2", "worker-tasks", "beat"}


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    system = System(tmp_path_factory.mktemp("up") / "a data folder")
    system.start()
    yield system
    assert system.stop() == 0


def children(system: System) -> dict[str, int]:
    rows = json.loads((system.data / "processes.json").read_text())
    return {name: row["pid"] for name, row in rows.items()}


def test_every_process_of_the_table_runs_once(system):
    assert set(children(system)) == NAMES
    assert stat.S_IMODE((system.data / "demo.json").stat().st_mode) == 0o600


def test_the_demos_key_makes_endpoints_of_the_operators_at_the_sandbox_and_no_customers(system):
    """As the README's first five minutes do; what answers at a private address is for the console alone."""
    url = f"{system.demo['receiver_url']}/status/418/demo"
    made = system.post("/endpoints/", {"url": url, "event_types": ["demo.*"]}, 201)
    system.post("/events/", {"type": "demo.hello", "data": {"n": 1}}, 202)

    def dead():
        return system.get("/deliveries/", endpoint=made["id"], state="dead_letter")["results"]

    (delivery,) = wait_for(dead, 30, "the dead letter")
    (attempt,) = system.get(f"/deliveries/{delivery['id']}/attempts/")["results"]
    assert (attempt["status_code"], attempt["response_head"], attempt["address"]) == (418, None, "")
    refused = system.post("/endpoints/", {"url": url, "subscriber": "acme"}, 400)
    assert [row["code"] for row in refused["errors"]] == ["loopback"]


def test_a_killed_process_comes_back_with_a_line(system):
    before = children(system)["beat"]
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: children(system).get("beat", before) != before, 20, "beat to come back")
    assert "beat was ended by SIGKILL; starting it again in 1 s" in system.log.read_text()


def test_web_answers_again_after_postgres_was_killed(system):
    before = children(system)["postgres"]
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: children(system).get("postgres", before) != before, 20, "postgres to come back")
    wait_for(system._is_ready, 30, "/readyz")
    assert system.get("/stats/")


def test_after_kill_9_the_next_start_recovers_and_keeps_the_data(system):
    before = children(system)
    key = system.demo["api_key"]
    endpoints = len(system.every("/endpoints/"))
    system.process.kill()
    system.process.wait()
    began = time.monotonic()
    system.start()
    assert time.monotonic() - began < 40
    now = children(system)
    assert set(now) == NAMES
    assert not [name for name, pid in before.items() if is_alive(pid) and pid not in now.values()]
    assert system.demo["api_key"] == key
    assert len(system.every("/endpoints/")) == endpoints


def test_a_clean_stop_leaves_nothing_and_the_next_start_is_quick(system):
    before = children(system)
    began = time.monotonic()
    assert system.stop() == 0
    assert time.monotonic() - began < 30
    assert not [name for name, pid in before.items() if is_alive(pid)]
    assert not (system.data / "processes.json").exists()
    with pytest.raises(requests.ConnectionError):
        requests.get(system.url, timeout=2)
    system.start()
    assert system.get("/stats/")
