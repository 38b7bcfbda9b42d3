"""Fixtures: the real sandbox process behind the real adapter, and rows in any state."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import requests

from kernel.network.openings import parse_openings
from tasks.engine import clock
from tasks.models import Batch, ExternalJob, Task
from tasks.providers.base import NewJob, ProviderCall
from tasks.providers.sandbox import SandboxProvider
from tasks.states import FINAL_STATES, JobState, State

KEY = "sk_tests"
SECRET = "whsec_dGVzdHMtb25seS10ZXN0cy1vbmx5LXRlc3RzLW9ubHk="


class Sandbox:
    """The sandbox's control side, for tests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def faults(self, **wanted: Any) -> None:
        assert requests.post(f"{self.url}/_faults", json=wanted, timeout=5).ok

    def stats(self) -> dict[str, Any]:
        return requests.get(f"{self.url}/_stats", timeout=5).json()

    def reset(self) -> None:
        assert requests.post(f"{self.url}/_reset", timeout=5).ok
        self.faults(min_ms=0, max_ms=20)


@pytest.fixture(scope="session")
def sandbox_process() -> Iterator[Sandbox]:
    env = {**os.environ, "SANDBOX_PROVIDER_KEY": KEY, "SANDBOX_WEBHOOK_SECRET": SECRET}
    command = [sys.executable, "-m", "sandbox", "--provider-only", "--provider-port", "0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = next(word.removeprefix("provider=") for word in line.split() if word.startswith("provider="))
        yield Sandbox(url)
        process.terminate()


@pytest.fixture
def sandbox(sandbox_process: Sandbox, settings: Any) -> Sandbox:
    """A running provider, configured, empty and quick; no callback URL unless a test sets one."""
    settings.SANDBOX_PROVIDER_URL = sandbox_process.url
    settings.SANDBOX_PROVIDER_KEY = KEY
    settings.SANDBOX_WEBHOOK_SECRET = SECRET
    settings.PUBLIC_BASE_URL = ""
    settings.PROVIDER_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    sandbox_process.reset()
    return sandbox_process


@pytest.fixture
def unreachable_sandbox(settings: Any) -> None:
    """A configured provider where nothing listens."""
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.SANDBOX_PROVIDER_KEY = KEY
    settings.SANDBOX_WEBHOOK_SECRET = SECRET
    settings.PUBLIC_BASE_URL = ""


@pytest.fixture
def now(db: None) -> datetime:
    return clock.now()


MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(now: datetime) -> MakeTask:
    """A task in a state, with what belongs to that state: lease, job, end."""

    def make(state: State = State.QUEUED, *, job: JobState | None = None, job_id: str = "", **fields: Any) -> Task:
        values = {
            "kind": "scoring",
            "input": {"business": {"name": "Bar"}},
            "correlation_id": "c" * 32,
            "run_at": now,
            "next_attempt_at": now,
            "state": state,
            "finished_at": now if state in FINAL_STATES else None,
            "attempt_count": 0 if state in (State.QUEUED, State.SCHEDULED) else 1,
            "deadline_at": now + timedelta(hours=1) if state == State.RUNNING else None,
        }
        task = Task.objects.create(**{**values, **fields})
        if job is not None:
            ExternalJob.objects.create(
                task=task,
                provider="sandbox",
                attempt=1,
                state=job,
                job_id=job_id,
                submitted_at=now,
                finished_at=None if job in (JobState.SUBMITTING, JobState.SUBMITTED) else now,
                next_poll_at=now if job in (JobState.SUBMITTING, JobState.SUBMITTED) else None,
            )
        return task

    return make


@pytest.fixture
def make_batch(now: datetime, make_task: MakeTask) -> Callable[..., Batch]:
    """A batch whose tasks are in the given states, counted."""

    def make(*states: State, **fields: Any) -> Batch:
        counts: dict[str, int] = {}
        for state in states:
            counts[state.value] = counts.get(state.value, 0) + 1
        is_done = all(state in FINAL_STATES for state in states)
        batch = Batch.objects.create(
            kind="scoring",
            correlation_id="b" * 32,
            total=len(states),
            counts=counts,
            is_completed=is_done,
            revision=int(is_done),
            completed_at=now if is_done else None,
        )
        for position, state in enumerate(states):
            make_task(state, batch=batch, position=position, **fields)
        return batch

    return make


def start_elsewhere(reference: str, name: str = "Bar") -> str:
    """Start a job at the sandbox behind our back, as a call would whose answer was lost; returns its id."""
    provider = SandboxProvider.from_settings()
    return provider.start("scoring", NewJob(reference, {"business": {"name": name}}), ProviderCall()).job_id
