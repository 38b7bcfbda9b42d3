"""Calls that came before their start call's answer are looked at as soon as the job ids are known."""

import pytest

from kernel import wakeups
from tasks.engine import clock
from tasks.external import starting
from tasks.models import ExternalJob, Task
from tasks.providers.base import NewJob, ProviderCall, StartedJob
from tasks.states import JobState, State

pytestmark = pytest.mark.django_db


def test_a_start_that_is_answered_wakes_the_inbox(monkeypatch, django_capture_on_commit_callbacks):
    rung: list[str] = []
    monkeypatch.setattr(wakeups, "_ring", rung.append)
    now = clock.now()
    task = Task.objects.create(
        kind="scoring",
        input={"business": {"name": "Bar"}},
        correlation_id="c" * 32,
        run_at=now,
        next_attempt_at=now,
        state=State.RUNNING,
        attempt_count=1,
        deadline_at=now,
    )
    job = ExternalJob.objects.create(task=task, provider="sandbox", attempt=1, state=JobState.SUBMITTING)
    job.refresh_from_db()
    token = str(job.start_token)
    start = starting.Start("scoring", "sandbox", (NewJob(token, task.input),), (task.pk,), ProviderCall(), False)
    with django_capture_on_commit_callbacks(execute=True):
        starting.settle(start, {token: StartedJob(token, "job-1", "", "")}, now)
    assert "webhooks.sweep_inbox" in rung
