"""`python -m sandbox` as a process: configuration, ports, a quick and clean end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from sandbox import settings
from sandbox.tests.conftest import KEY, SECRET

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"PATH": os.environ["PATH"], "SANDBOX_PROVIDER_KEY": KEY, "SANDBOX_WEBHOOK_SECRET": SECRET}


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "sandbox", *arguments]
    return subprocess.Popen(
        argv, cwd=ROOT, env={**ENVIRONMENT, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def urls(process: subprocess.Popen[str]) -> dict[str, str]:
    line = process.stdout.readline()
    assert " sandbox ready " in line
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def test_two_ports_and_a_clean_end_with_work_in_the_air() -> None:
    process = start("--provider-port", "0", "--receiver-port", "0")
    try:
        found = urls(process)
        hanging = requests.post(f"{found['receiver']}/drip", stream=True, timeout=5)
        body = {"input": {"trade": "x", "place": "Zürich"}, "webhook_url": f"{found['receiver']}/slow/60000"}
        answer = requests.post(
            f"{found['provider']}/v1/map_search/jobs", json=body, headers={"authorization": f"Bearer {KEY}"}, timeout=5
        )
        assert answer.status_code == 201
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0  # and not when the slow answers are over
        hanging.close()
        output = process.stdout.read() + process.stderr.read()
        assert "Traceback" not in output
        assert KEY not in output
        assert output.rstrip().endswith("sandbox stopped")
    finally:
        process.kill()
        process.communicate()


def test_one_port_with_two_prefixes() -> None:
    process = start("--port", "0")
    try:
        found = urls(process)
        assert found["provider"].removesuffix("/provider") == found["receiver"].removesuffix("/receiver")
        assert requests.get(f"{found['provider']}/_stats", timeout=5).json()["jobs"] == 0
        answer = requests.get(f"{found['receiver']}/redirect/x", timeout=5)
        assert answer.url == f"{found['receiver']}/ok/x"
        entries = requests.get(f"{found['receiver']}/_journal", timeout=5).json()["entries"]
        assert [entry["path"] for entry in entries] == ["/redirect/x", "/ok/x"]
        base = found["provider"].removesuffix("/provider")
        assert requests.get(f"{base}/healthz", timeout=5).status_code == 200
        assert requests.get(f"{base}/elsewhere", timeout=5).status_code == 404
        assert requests.get(f"{base}/", timeout=5).status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=5)


def test_a_taken_port_is_one_line() -> None:
    first = start("--receiver-only", "--receiver-port", "0")
    try:
        port = urls(first)["receiver"].rsplit(":", 1)[1]
        second = start("--receiver-only", "--receiver-port", port)
        output, errors = second.communicate(timeout=10)
        assert second.returncode == 1
        assert "cannot_listen" in output
        assert "Traceback" not in errors
    finally:
        first.terminate()
        first.communicate(timeout=5)


@pytest.mark.parametrize("number", ["99999", "-1", "http"])
def test_a_port_that_is_none_is_refused(number: str) -> None:
    process = start("--provider-port", number)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 2
    assert f"a port is a number from 0 to 65535, not '{number}'" in errors


def test_what_is_missing_is_named() -> None:
    process = start(SANDBOX_PROVIDER_KEY="")
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 2
    assert errors == "sandbox: Set SANDBOX_PROVIDER_KEY, the API key that callers have to send.\n"


def test_settings_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk_file\n")
    environ = {"SANDBOX_PROVIDER_KEY_FILE": str(tmp_path / "key"), "SANDBOX_WEBHOOK_SECRET": SECRET,
               "SANDBOX_RECEIVER_SECRETS": f'{{"/ok": "{SECRET}"}}'}  # fmt: skip
    loaded = settings.load(environ=environ)
    assert (loaded.provider_key, loaded.receiver_secrets) == ("sk_file", {"/ok": SECRET})


@pytest.mark.parametrize(
    "wrong",
    [
        {"SANDBOX_WEBHOOK_SECRET": "hunter2"},
        {"SANDBOX_WEBHOOK_SECRET": "whsec_"},
        {"SANDBOX_WEBHOOK_SECRET": "whsec_%%%"},
        {"SANDBOX_PROVIDER_KEY_FILE": "/nowhere"},
        {"SANDBOX_RECEIVER_SECRETS": "[]"},
        {"SANDBOX_RECEIVER_SECRETS": '{"/ok": "hunter2"}'},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(settings.Misconfigured):
        settings.load(environ={**ENVIRONMENT, **wrong})
