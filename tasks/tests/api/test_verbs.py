"""Cancel, redrive, discard and the timeline over the API."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delivery.models import Endpoint, EndpointHealth
from tasks.engine import clock, lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import ExternalJob, Task
from tasks.states import Cause, JobState
from tasks.submit import submit, submit_batch

SEARCH = {"trade": "bakery", "place": "Łódź"}


def begun(task: Task) -> Task:
    with UnitOfWork.opened(cause=Cause.WORKER, now=clock.now()) as unit:
        (locked,) = unit.lock([task.pk])
        lifecycle.start(unit, locked, deadline=timezone.now() + timedelta(hours=1))
    return task


def buried(task: Task) -> Task:
    begun(task)
    with UnitOfWork.opened(cause=Cause.WORKER, now=clock.now()) as unit:
        (locked,) = unit.lock([task.pk])
        lifecycle.fail(unit, locked, code="rejected_by_provider", text="no such place", permanent=True)
    return task


@pytest.fixture
def task(db) -> Task:
    return submit("map_search", SEARCH, caller="t", subscriber="acme")


def test_a_queued_task_is_cancelled_at_once(client, task):
    response = client.post(f"/api/v1/tasks/{task.pk}/cancel/", {"reason": "typo"}, format="json")
    assert (response.status_code, response.json()["state"]) == (202, "cancelled")
    step = task.transitions.order_by("-id").first()
    assert (step.to_state, step.cause, step.detail, step.actor[:4]) == ("cancelled", "api", "typo", "key:")


def test_a_running_task_waits_for_the_provider(client, task):
    response = client.post(f"/api/v1/tasks/{begun(task).pk}/cancel")
    assert (response.status_code, response.json()["state"]) == (202, "running")
    assert response.json()["cancel_requested_at"]


@pytest.mark.parametrize("verb", ["cancel", "redrive", "discard"])
def test_a_verb_in_the_wrong_state_is_a_409_with_the_state(client, task, verb):
    lifecycle.cancel([task.pk], actor="t", reason="")
    response = client.post(f"/api/v1/tasks/{task.pk}/{verb}/", {}, format="json")
    assert (response.status_code, response.json()["code"]) == (409, "wrong_state")
    assert "cancelled" in response.json()["detail"]


def test_a_dead_letter_is_redriven_or_discarded(client, task):
    path = f"/api/v1/tasks/{buried(task).pk}/"
    assert client.get(path).json()["error_code"] == "rejected_by_provider"
    redriven = client.post(f"{path}redrive/", {"reason": "place added"}, format="json")
    assert (redriven.status_code, redriven.json()["state"], redriven.json()["redrive_count"]) == (202, "queued", 1)
    buried(task)
    assert client.post(f"{path}discard/", {}, format="json").json()["state"] == "cancelled"


def test_a_batch_is_cancelled(client, db):
    batch = submit_batch("map_search", [{"input": SEARCH}] * 3, caller="t")
    begun(batch.tasks.first())
    response = client.post(f"/api/v1/batches/{batch.pk}/cancel/", {"reason": "wrong file"}, format="json")
    shown = response.json()
    assert (response.status_code, shown["cancelled"], shown["cancelling"], shown["refused"]) == (202, 2, 1, 0)
    assert shown["batch"]["counts"] == {"cancelled": 2, "running": 1}


def test_the_timeline_tells_steps_jobs_events_and_deliveries(client, task, django_assert_num_queries):
    endpoint = Endpoint.objects.create(
        subscriber="acme", url="http://127.0.0.1:9/hook", host="127.0.0.1:9", event_types=[]
    )
    EndpointHealth.objects.get_or_create(endpoint=endpoint)
    ExternalJob.objects.create(
        task=begun(task),
        provider="sandbox",
        attempt=1,
        job_id="j1",
        state=JobState.FAILED,
        submitted_at=timezone.now(),
        finished_at=timezone.now(),
        finished_by="poll",
    )
    with UnitOfWork.opened(cause=Cause.POLL, now=clock.now()) as unit:
        (locked,) = unit.lock([task.pk])
        lifecycle.fail(unit, locked, code="upstream_failed", text="out of luck", permanent=True)
    path = f"/api/v1/tasks/{task.pk}/timeline/"
    client.get(path)
    with django_assert_num_queries(6):  # key, task, and the four of the timeline
        rows = client.get(path).json()
    assert [row["type"] for row in rows].count("transition") == 3
    assert {row["type"] for row in rows} == {"transition", "external_job", "event", "delivery"}
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    told = next(row for row in rows if row["type"] == "event")
    assert told["event_type"] == "task.dead_lettered"
    delivery = next(row for row in rows if row["type"] == "delivery")
    assert (delivery["event"], delivery["endpoint"], delivery["state"]) == (told["event"], str(endpoint.pk), "pending")
    assert "hook" not in str(rows)
