"""A worker that is killed at any step of a start: the job ends right, and is started once where one can ask."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tasks.engine import clock, faults
from tasks.external import adoption, unanswered
from tasks.models import ExternalJob, Task
from tasks.providers.sandbox import SandboxProvider
from tasks.states import JobState, State
from tasks.submit import submit
from tasks.tests import drive
from tasks.tests.conftest import KEY, SECRET, Sandbox

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[3]
SCORE = {"business": {"name": "Bar"}}
BEFORE, AFTER = ("start.claimed", "start.before_call"), ("start.after_call", "start.before_settle", "start.in_settle")


Die = Callable[[str], None]


@pytest.fixture(scope="module")
def process(sandbox_process: Sandbox, django_db_setup: None) -> Iterator[subprocess.Popen[str]]:
    database = connection.settings_dict
    where = f"{database['HOST'] or '127.0.0.1'}:{database['PORT'] or 5432}/{database['NAME']}"
    env = {
        **os.environ,
        "ROUNDTRIP_ENV": "test",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": f"postgresql://{database['USER']}:{database['PASSWORD']}@{where}",
        "SANDBOX_PROVIDER_URL": sandbox_process.url,
        "SANDBOX_PROVIDER_KEY": KEY,
        "SANDBOX_WEBHOOK_SECRET": SECRET,
        "PROVIDER_ALLOWED_NETWORKS": "127.0.0.0/8",
        "CELERY_BROKER_URL": "",
    }
    command = [sys.executable, "-m", "tasks.tests.external.dying_worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=env, cwd=ROOT, text=True, **pipes) as running:
        yield running
        running.stdin.close()


@pytest.fixture
def die_at(process: subprocess.Popen[str]) -> Die:
    """A real process starts what is due, and is killed by signal 9 at a point."""

    def die(point: str) -> None:
        process.stdin.write(f"{point}\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == "-9"

    return die


def looked_for() -> Task:
    """As the sweep would, until the lease is over."""
    now = clock.now()
    for seconds in (31, 60, 92):
        adoption.adopt(now + timedelta(seconds=seconds))
    return Task.objects.get()


@pytest.mark.parametrize("point", [*BEFORE, *AFTER])
def test_a_worker_killed_at_any_step_of_a_start_starts_nothing_twice(sandbox: Sandbox, die_at: Die, point: str) -> None:
    submit("scoring", SCORE, caller="t")
    die_at(point)
    job = ExternalJob.objects.get()
    assert (job.state, job.job_id, Task.objects.get().state) == (JobState.SUBMITTING, "", State.RUNNING)
    assert sandbox.stats()["jobs"] == (1 if point in AFTER else 0)
    task = looked_for()
    assert task.state == (State.RUNNING if point in AFTER else State.RETRYING) or task.state == State.FETCHING
    Task.objects.update(next_attempt_at=clock.now())  # back from the time that we were ahead
    drive.until(drive.all_final)
    task.refresh_from_db()
    assert (task.state, task.attempt_count) == (State.SUCCEEDED, 1)
    assert sandbox.stats()["jobs"] == 1 and sandbox.stats()["repeated_references"]["count"] == 0


@pytest.mark.parametrize("point", ["start.before_call", "start.after_call"])
def test_where_nobody_can_be_asked_a_killed_workers_task_waits_for_a_person(
    sandbox: Sandbox, die_at: Die, point: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(SandboxProvider, "finds_references", False)
    submit("scoring", SCORE, caller="t")
    die_at(point)
    task = looked_for()
    assert (task.state, task.error_code, unanswered.waiting().count()) == (State.RUNNING, "start_unanswered", 1)
    assert drive.start_due(0.5) == 0 and ExternalJob.objects.count() == 1
    assert sandbox.stats()["jobs"] == (1 if point == "start.after_call" else 0)


def test_a_point_is_none_outside_of_tests(monkeypatch: Any) -> None:
    heard: list[str] = []
    monkeypatch.setattr(faults, "listener", heard.append)
    faults.reached("here")
    monkeypatch.setattr(settings, "TESTING", False)
    faults.reached("there")
    assert heard == ["here"]
