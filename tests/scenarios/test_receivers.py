"""The receivers that docs/receiving.md shows, each a process of its own, sent to by the real engine over real HTTP."""

import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from delivery import endpoints, events
from delivery.models import Attempt, Delivery
from delivery.policy import signing
from delivery.tests.engine.conftest import LOOPBACK
from tests.e2e.system import ROOT, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

FOLDER = ROOT / "examples" / "receiving"
OLDEST_NODE = 18


def node() -> str:
    """The path of a Node.js that is new enough; the test is skipped, with a word, where there is none."""
    path = shutil.which("node")
    if path is None:
        pytest.skip(f"there is no Node.js here; the example in JavaScript needs {OLDEST_NODE} or later")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"Node.js here is {version}; the example in JavaScript needs {OLDEST_NODE} or later")
    return path


class Running:
    """A receiver with these secrets; `handled` are the lines it printed for events that it took."""

    def __init__(self, name: str, folder: Path, *secrets: str) -> None:
        program = node() if name.endswith(".mjs") else sys.executable
        environment = {**os.environ, "WEBHOOK_SECRET": " ".join(secrets), "PORT": "0"}
        self.said: list[str] = []
        self._process = subprocess.Popen(
            [program, str(FOLDER / name)],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()
        self.url = wait_for(self._address, 30, f"{name} to listen")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())

    def _address(self) -> str:
        return next((line.removeprefix("listening on ") for line in self.said if line.startswith("listening on ")), "")

    @property
    def handled(self) -> list[str]:
        return [line for line in self.said if line.startswith("handled ")]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)


@pytest.fixture(params=["receiver.py", "receiver_standardwebhooks.py", "receiver.mjs"])
def start(request, tmp_path) -> Iterator[object]:
    running: list[Running] = []

    def run(*secrets: str) -> Running:
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(Running(request.param, folder, *secrets))
        return running[-1]

    yield run
    for one in running:
        one.close()


def statuses() -> list[int | None]:
    return list(Attempt.objects.order_by("started_at").values_list("status_code", flat=True))


def test_what_is_signed_with_its_secret_is_taken_and_what_another_signed_is_not(start, make_endpoint, drain):
    secret = signing.new_secret()[0]
    receiver = start(secret)
    make_endpoint(receiver.url, secret=secret)
    make_endpoint(receiver.url, secret=signing.new_secret()[0], subscriber="other")
    events.record("order.paid", {"sum": "12.50", "who": "Zoë"}, subscriber="acme")
    events.record("order.paid", {}, subscriber="other")
    drain()
    states = dict(Delivery.objects.values_list("endpoint__subscriber", "state"))
    assert states == {"acme": "delivered", "other": "dead_letter"}
    assert sorted(statuses()) == [204, 401]
    wait_for(lambda: receiver.handled, 10, "its line")
    assert len(receiver.handled) == 1
    assert receiver.handled[0].startswith("handled order.paid")
    assert "12.50" in receiver.handled[0]


def test_a_repetition_is_acknowledged_and_handled_once(start, make_endpoint, drain):
    secret = signing.new_secret()[0]
    receiver = start(secret)
    endpoint = make_endpoint(receiver.url, secret=secret)
    event = events.record("order.paid", {}, subscriber="acme")
    drain()
    endpoints.replay(endpoint, event_ids=[event.pk], actor="test", reason="again")
    drain()
    assert statuses() == [204, 204]
    events.record("order.sent", {}, subscriber="acme")
    drain()
    wait_for(lambda: len(receiver.handled) == 2, 10, "both lines")
    assert [line.split()[1] for line in receiver.handled] == ["order.paid", "order.sent"]


@pytest.mark.parametrize("seconds", [-600, 600])
def test_what_was_signed_too_long_ago_or_for_later_is_refused(start, seconds):
    secret = signing.new_secret()[0]
    receiver = start(secret)
    body, moment = b'{"type":"order.paid","data":{}}', int(time.time()) + seconds
    signed = signing.sign([secret], "evt_1", moment, body)
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(moment), "webhook-signature": signed.signature}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(receiver.url, body, headers), timeout=10)
    assert refused.value.code == 401
    assert receiver.handled == []


def test_during_a_rotation_old_and_new_secret_are_good_and_afterwards_only_the_new_one(
    start, make_endpoint, drain, settings
):
    settings.DELIVERY_ALLOWED_NETWORKS = LOOPBACK
    before, after = signing.new_secret()[0], signing.new_secret()[0]
    endpoint = make_endpoint("http://127.0.0.1:9/", secret=before)
    endpoints.rotate_secret(endpoint, actor="test", secret=after, overlap=timedelta(hours=1))

    def answer_of(receiver: Running) -> int | None:
        endpoints.update(endpoint, {"url": receiver.url}, actor="test")
        events.record("order.paid", {}, subscriber="acme")
        drain()
        return statuses()[-1]

    old, new, both = start(before), start(after), start(before, after)
    assert [answer_of(one) for one in (old, new, both)] == [204, 204, 204]
    endpoints.end_secret(endpoint, signing.load_key(before).key_id, actor="test")
    assert [answer_of(one) for one in (new, both, old)] == [204, 204, 401]


def checked(url: str, secret: str) -> tuple[int, list[str]]:
    """The exit status of check.py and its lines."""
    command = [sys.executable, str(FOLDER / "check.py"), url]
    environment = {**os.environ, "WEBHOOK_SECRET": secret}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines()


def test_the_check_passes_them_and_its_event_is_handled_once(start):
    secret = signing.new_secret()[0]
    receiver = start(secret)
    status, lines = checked(receiver.url, secret)
    assert (status, [line.split()[0] for line in lines]) == (0, ["ok"] * 9)
    wait_for(lambda: receiver.handled, 10, "its line")
    assert len(receiver.handled) == 1


def test_the_check_finds_one_with_another_secret_and_one_that_takes_anything(start, sink):
    secret = signing.new_secret()[0]
    status, lines = checked(start(signing.new_secret()[0]).url, secret)
    assert (status, [line.split()[0] for line in lines]) == (1, ["WRONG"] * 3 + ["ok"] * 6)
    status, lines = checked(sink.url, secret)
    assert (status, [line.split()[0] for line in lines]) == (1, ["ok"] * 3 + ["WRONG"] * 6)


def test_the_check_says_what_it_needs_and_when_nobody_answers():
    secret = signing.new_secret()[0]
    assert checked("http://127.0.0.1:9/", "")[0] == 2
    status, lines = checked("http://127.0.0.1:9/", secret)
    assert (status, len(lines)) == (2, 1)
    assert lines[0].endswith("Start the receiver, or correct the address.")


def test_the_one_in_javascript_verifies_with_a_public_key_too(tmp_path, make_endpoint, drain):
    secret, public = signing.new_secret("v1a")
    receiver = Running("receiver.mjs", tmp_path, public)
    try:
        make_endpoint(receiver.url, secret=secret, signature_scheme="v1a", public_key=public)
        make_endpoint(receiver.url, secret=signing.new_secret("v1a")[0], signature_scheme="v1a", subscriber="other")
        events.record("order.paid", {}, subscriber="acme")
        events.record("order.paid", {}, subscriber="other")
        drain()
        assert dict(Delivery.objects.values_list("endpoint__subscriber", "state")) == {
            "acme": "delivered",
            "other": "dead_letter",
        }
    finally:
        receiver.close()
