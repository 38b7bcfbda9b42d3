"""One process's clock is off, by seconds to an hour: work flows, signatures hold, and an alert names host and process.

Two combinations run each time; all of them with `CLOCKS=all bin/test tests/e2e/test_clocks.py -s`.
"""

import os
import socket
import time
from datetime import UTC, datetime

import pytest
import requests
from standardwebhooks import Webhook

from tests.e2e import off_clock
from tests.e2e.system import searches, wait_for
from tests.e2e.test_loop import everybody_told_once

pytestmark = [pytest.mark.fault, pytest.mark.skipif(not off_clock.IS_THERE, reason=off_clock.WHY_NOT)]

ROLES = ("web", "worker-tasks", "worker-delivery", "beat")
SECONDS = (15, -15, 60, -60, 3600, -3600)
ALL = [(role, seconds) for role in ROLES for seconds in SECONDS]
PLAYED = ALL if os.environ.get("CLOCKS") == "all" else [("web", 3600), ("worker-delivery", -3600)]
EVALUATE = "from console.alerts import evaluate; from kernel import clock; evaluate.evaluate(clock.now())"


def alert_of(system, pid):
    """The open alert that names the process."""
    rows = system.every("/alerts/", state="open")
    return next((row for row in rows if row["rule"] == "clock_off" and f":{pid} (" in row["detail"]), None)


def submit_through(system, url):
    body = {"kind": "map_search", "tasks": [{"input": searches(1)[0]}]}
    answer = system.session.post(f"{url}/api/v1/batches/", json=body, timeout=30)
    assert answer.status_code == 202, answer.text
    return answer.json()


def inbound_is_verified(system, url):
    """A provider whose clock is right signs now: it is taken, whatever the web host's clock says."""
    at = time.time()
    secret = off_clock.environment_of(system.pids("web")[0])["SANDBOX_WEBHOOK_SECRET"]
    body = b'{"type": "job.unheard_of", "data": {}}'
    headers = {
        "webhook-id": f"msg_{int(at)}",
        "webhook-timestamp": str(int(at)),
        "webhook-signature": Webhook(secret).sign(f"msg_{int(at)}", datetime.fromtimestamp(at, UTC), body.decode()),
        "content-type": "application/json",
    }
    answer = requests.post(f"{url}/webhooks/sandbox/", data=body, headers=headers, timeout=30)
    assert answer.status_code < 300, answer.text


@pytest.mark.parametrize(("role", "seconds"), PLAYED)
def test_with_one_clock_off_the_work_flows_and_an_alert_names_the_host(system, role, seconds):
    with off_clock.off_by(system, role, seconds) as (pid, port):
        off_clock.is_seen(system, pid)
        url = f"http://127.0.0.1:{port}" if role == "web" else system.url
        if role == "web":
            inbound_is_verified(system, url)
        began = time.monotonic()
        batch = submit_through(system, url)
        assert system.finished(batch, 60)["counts"] == {"succeeded": 1}
        everybody_told_once(system, batch["id"], 30)
        took = time.monotonic() - began
        system.manage("shell", "-c", EVALUATE)
        alert = wait_for(lambda: alert_of(system, pid), 40, "the alert clock_off")
        assert socket.gethostname() in alert["title"] and alert["title"].endswith("ahead" if seconds > 0 else "behind")
        assert "clock_off" in system.session.get(f"{url}/readyz", timeout=10).json()["checks"]["clocks"]["detail"]
        print(f"{role} {seconds:+d} s: submitted, done and told in {took:.1f} s; {alert['title']}")
    # A process that ends in order takes its heartbeat along, and the next look at the rules ends the alert.
    assert not off_clock.is_alive(system, pid)
    system.manage("shell", "-c", EVALUATE)
    wait_for(lambda: alert_of(system, pid) is None, 10, "the alert to be over")
