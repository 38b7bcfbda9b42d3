"""Broker and database fail under load, on a whole running system: callers are answered, nothing is lost."""

import os
import signal
import time

import psycopg
import pytest

from tests.e2e.system import EXTERNAL, wait_for
from tests.scenarios.load import PATH, Caller, all_arrived, endpoint, settled

pytestmark = pytest.mark.fault
CAP = 10
OURS = pytest.mark.skipif(EXTERNAL, reason="the broker is not ours to kill")


def accepted(caller: Caller, count: int) -> None:
    wait_for(lambda: len(caller.accepted) >= count, 60, f"{count} accepted events", every=0.02)


def kill_broker(system) -> None:
    (before,) = system.pids("valkey")
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: system.pids("valkey") not in ([], [before]), 40, "the broker to come back", every=0.1)


@pytest.mark.parametrize("fault", ["flushed", pytest.param("killed", marks=OURS)])
def test_a_broker_lost_under_load_costs_time_and_nothing_else(system, fault):
    name = f"broker_{fault}"
    to = endpoint(system, name, max_concurrency=CAP)
    caller = Caller(system, name, 1500)
    caller.start()
    accepted(caller, 300)
    if fault == "flushed":
        system.forget_messages()
    else:
        kill_broker(system)
    caller.join(120)
    assert len(caller.accepted) == 1500
    found = all_arrived(system, f"{PATH}/{name}", caller.accepted)
    settled(system, to["id"])
    assert set(found.values()) == {1}  # the broker says only "look"; its loss repeats nothing


def test_ten_thousand_due_and_a_broker_that_forgot_them_are_found_by_the_beat(system):
    to = endpoint(system, "forgotten", max_concurrency=100)
    system.post(f"/endpoints/{to['id']}/pause/", {"reason": "not yet"}, 200)
    caller = Caller(system, "forgotten", 10_000, batch=1000, pause=0)
    caller.run()
    with psycopg.connect(system.demo["database_url"], autocommit=True) as database:
        # By hand, so that nobody is told: only looking finds them.
        database.execute(
            "UPDATE delivery_endpoint SET paused_at = NULL, version = version + 1 WHERE id = %s", [to["id"]]
        )
    system.forget_messages()
    found = all_arrived(system, f"{PATH}/forgotten", caller.accepted)
    settled(system, to["id"])
    assert set(found.values()) == {1}


@OURS
def test_an_event_is_accepted_within_two_seconds_while_the_broker_hangs(system):
    endpoint(system, "hanging_broker")
    (pid,) = system.pids("valkey")
    os.kill(pid, signal.SIGSTOP)
    took = []
    try:
        for n in range(3):
            began = time.monotonic()
            body = {"type": "a.b", "subscriber": "hanging_broker", "data": {"n": n}, "uid": f"hanging_{n}"}
            assert system.post("/events/", body, 202)["deliveries"] == 1
            took.append(time.monotonic() - began)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert max(took) < 2
    all_arrived(system, f"{PATH}/hanging_broker", [f"hanging_{n}" for n in range(3)])


def test_a_database_crash_under_load_loses_no_accepted_event_and_needs_no_hand(system):
    """Immediate mode: every session is cut, and recovery starts from the log."""
    to = endpoint(system, "crash", max_concurrency=CAP, timeout_ms=2000)
    caller = Caller(system, "crash", 1500)
    caller.start()
    crashes = 2
    for n in range(crashes):
        accepted(caller, 300 + 600 * n)
        system.crash_database()
    caller.join(180)
    assert len(caller.accepted) == 1500
    found = all_arrived(system, f"{PATH}/crash", caller.accepted)
    settled(system, to["id"])
    assert set(found) == set(caller.accepted)
    assert max(found.values()) <= 1 + crashes
    assert sum(found.values()) - len(found) <= crashes * CAP  # at most what was in the air or not yet settled
    assert not system.every("/deliveries/", endpoint=to["id"], state="dead_letter")
    wait_for(system._is_ready, 60, "/readyz")
    assert system.manage("account").returncode == 0
