"""The real process, with the emulated providers and a receiver for their webhooks, once for this folder."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from sandbox.tests.conftest import until

ROOT = Path(__file__).parents[3]
KEY = "sk_emulated"
SECRET = "whsec_" + base64.b64encode(b"emulated-secret-of-the-tests-0000").decode()


class Process:
    """Where it is, and what its receiver was sent."""

    def __init__(self, urls: dict[str, str]) -> None:
        self.provider, self.receiver = urls["provider"], urls["receiver"]

    def faults(self, **wanted: Any) -> None:
        assert requests.post(f"{self.provider}/_faults", json=wanted, timeout=5).ok

    def told(self, path: str, number: int = 1) -> list[dict[str, Any]]:
        """So many webhooks that came to a path, as soon as they have come."""

        def entries() -> list[dict[str, Any]]:
            answer = requests.get(f"{self.receiver}/_journal", params={"path": path}, timeout=5)
            return answer.json()["entries"]

        return until(lambda: len(found := entries()) >= number and found)

    def expire(self, provider: str, name: str) -> None:
        assert requests.post(f"{self.provider}/{provider}/_expire/{name}", timeout=5).ok

    def reset(self) -> None:
        assert requests.post(f"{self.provider}/_reset", timeout=5).ok
        requests.delete(f"{self.receiver}/_journal", timeout=5)
        self.faults(min_ms=0, max_ms=20)


@pytest.fixture(scope="session")
def emulated_process() -> Iterator[Process]:
    env = {**os.environ, "SANDBOX_PROVIDER_KEY": KEY, "SANDBOX_WEBHOOK_SECRET": SECRET}
    command = [sys.executable, "-m", "sandbox", "--provider-port", "0", "--receiver-port", "0"]
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Process(dict(word.split("=", 1) for word in line.split() if "=" in word))
        process.terminate()


@pytest.fixture
def emulated(emulated_process: Process) -> Process:
    emulated_process.reset()
    return emulated_process


def body(entry: dict[str, Any]) -> dict[str, Any]:
    return json.loads(entry["body"])
