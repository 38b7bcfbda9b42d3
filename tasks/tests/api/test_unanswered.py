"""Unanswered starts over the API."""

from typing import Any

import pytest

from tasks.engine import clock
from tasks.models import ExternalJob, Task
from tasks.states import JobState, State
from tasks.tests.conftest import Sandbox, start_elsewhere

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(sandbox: Sandbox, make_task: Any) -> Task:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING, subscriber="acme", error_code="start_unanswered")
    ExternalJob.objects.update(unanswered_at=clock.now(), next_poll_at=None)
    return task


def test_they_are_found_by_state_and_error_code(client: Any, waiting: Task, make_task: Any) -> None:
    make_task(State.RUNNING)
    rows = client.get("/api/v1/tasks/?state=running&error_code=start_unanswered").json()["results"]
    assert [row["id"] for row in rows] == [str(waiting.pk)]


def test_a_job_is_named_and_a_wrong_one_is_a_409_in_words(client: Any, waiting: Task) -> None:
    path = f"/api/v1/tasks/{waiting.pk}/adopt/"
    wrong = client.post(path, {"job_id": "nosuch"}, format="json")
    assert (wrong.status_code, wrong.json()["code"]) == (409, "not_adopted") and "nosuch" in wrong.json()["detail"]
    assert client.post(path, {}, format="json").status_code == 400
    job_id = start_elsewhere("x")
    right = client.post(path, {"job_id": job_id, "reason": "seen"}, format="json")
    assert right.status_code == 202 and right.json()["error_code"] in ("", None)
    assert waiting.jobs.get().job_id == job_id
    assert client.post(path, {"job_id": job_id}, format="json").status_code == 409


def test_it_is_started_again_once(client: Any, waiting: Task) -> None:
    path = f"/api/v1/tasks/{waiting.pk}/start-again/"
    first = client.post(path, {"reason": "not there"}, format="json")
    assert (first.status_code, first.json()["state"]) == (202, "retrying")
    again = client.post(path, {}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    assert waiting.transitions.count() == 1


@pytest.mark.parametrize("verb", ["adopt", "start-again"])
def test_neither_is_for_readers_nor_for_other_subscribers(client_with: Any, waiting: Task, verb: str) -> None:
    path = f"/api/v1/tasks/{waiting.pk}/{verb}/"
    assert client_with("tasks:read").post(path, {"job_id": "j"}, format="json").status_code == 403
    other = client_with("tasks:read", "tasks:write", subscriber="other")
    assert other.post(path, {"job_id": "j"}, format="json").status_code == 404
    assert waiting.jobs.get().job_id == "" and not waiting.transitions.exists()
