"""Priority, expiry, unique keys by the API; why a task waits; and repeatable calls, whose keys outlive a redrive."""

import json
from datetime import timedelta

import pytest

from kernel import clock
from tasks.engine import lifecycle
from tasks.models import KindPolicy, Task
from tasks.reading import waiting
from tasks.states import Priority, State, Waiting

SEARCH = {"trade": "bakery", "place": "Łódź"}


@pytest.fixture(autouse=True)
def _a_worker_lives(monkeypatch):
    monkeypatch.setattr(waiting, "_count_workers", lambda: 1)


def post(client, path, body, **headers):
    return client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=headers)


def test_the_terms_of_a_task_are_stored_and_shown(client):
    later = (clock.now() + timedelta(hours=1)).isoformat()
    terms = {"priority": "high", "expires_at": later, "unique_key": "k", "unique_while": "succeeded"}
    body = post(client, "/tasks/", {"kind": "map_search", "input": SEARCH, **terms}).json()
    assert (body["priority"], body["unique_key"], body["unique_while"]) == ("high", "k", "succeeded")
    task = Task.objects.get()
    assert (task.priority, task.expires_at.isoformat()) == (Priority.HIGH, later)


@pytest.mark.parametrize(
    ("terms", "field", "code"),
    [
        ({"priority": "urgent"}, "priority", "invalid_choice"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at", "too_early"),
        ({"expires_at": "soon"}, "expires_at", "invalid"),
        ({"run_at": "2099-01-02T00:00:00Z", "expires_at": "2099-01-01T00:00:00Z"}, "expires_at", "too_early"),
        ({"unique_key": "k" * 201}, "unique_key", "max_length"),
        ({"unique_while": "always"}, "unique_while", "invalid_choice"),
    ],
)
def test_bad_terms_are_named_and_nothing_is_stored(client, terms, field, code):
    response = post(client, "/tasks/", {"kind": "map_search", "input": SEARCH, **terms})
    assert response.status_code == 400
    assert (response.json()["errors"][0]["field"], response.json()["errors"][0]["code"]) == (field, code)
    assert not Task.objects.exists()


def test_a_taken_key_is_a_409_with_the_other_tasks_id(client):
    body = {"kind": "map_search", "input": SEARCH, "unique_key": "k"}
    first = post(client, "/tasks/", body).json()["id"]
    response = post(client, "/tasks/", body)
    assert (response.status_code, response.json()["code"]) == (409, "unique_taken")
    assert response.json()["errors"][0]["task"] == first
    items = [{"input": SEARCH, "unique_key": key} for key in ("free", "k")]
    response = post(client, "/batches/", {"kind": "map_search", "tasks": items})
    assert response.status_code == 409
    assert [(row["field"], row["task"]) for row in response.json()["errors"]] == [("tasks.1.unique_key", first)]
    assert Task.objects.count() == 1


def test_a_batch_has_terms_and_its_items_may_have_their_own(client):
    items = [{"input": SEARCH}, {"input": SEARCH, "priority": "high", "unique_key": "k"}]
    assert post(client, "/batches/", {"kind": "map_search", "priority": "low", "tasks": items}).status_code == 202
    rows = Task.objects.order_by("position").values_list("priority", "unique_key")
    assert list(rows) == [(Priority.LOW, ""), (Priority.HIGH, "k")]
    response = post(client, "/batches/", {"kind": "map_search", "tasks": [{"input": SEARCH, "priority": "x"}]})
    assert response.json()["errors"][0]["field"] == "tasks.0.priority"


def test_a_redrive_against_a_taken_key_names_who_has_it(client):
    body = {"kind": "map_search", "input": SEARCH, "unique_key": "k"}
    dead = post(client, "/tasks/", body).json()["id"]
    Task.objects.filter(pk=dead).update(state=State.DEAD_LETTER, finished_at=clock.now())
    other = post(client, "/tasks/", body).json()["id"]
    response = post(client, f"/tasks/{dead}/redrive/", {})
    assert (response.status_code, response.json()["errors"][0]["task"]) == (409, other)


def test_an_idempotency_key_outlives_a_redrive(client):
    body = {"kind": "map_search", "input": SEARCH}
    first = post(client, "/tasks/", body, **{"idempotency-key": "k1"})
    pk = int(first.json()["id"])
    Task.objects.filter(pk=pk).update(state=State.DEAD_LETTER, finished_at=clock.now())
    assert lifecycle.redrive([pk], actor="me", reason="") == {pk}
    again = post(client, "/tasks/", body, **{"idempotency-key": "k1"})
    assert again.headers["Idempotent-Replayed"] == "true" and again.json() == first.json()
    assert Task.objects.count() == 1


def why(client, pk):
    body = client.get(f"/api/v1/tasks/{pk}/").json()
    return body["waiting_reason"], body["waiting_words"]


def test_every_waiting_task_says_why(client, monkeypatch):
    pk = post(client, "/tasks/", {"kind": "map_search", "input": SEARCH, "subscriber": "acme"}).json()["id"]
    assert why(client, pk)[0] == Waiting.NEXT
    policy = KindPolicy.objects.filter(kind="map_search")

    def with_policy(**fields):
        policy.update(**fields)
        return why(client, pk)

    now = clock.now()
    running = Task.objects.create(
        kind="map_search", input={}, correlation_id="c", run_at=now, next_attempt_at=now, state=State.RUNNING,
        subscriber="acme",
    )  # fmt: skip
    reason, words = with_policy(subscriber_concurrency=1)
    assert reason == Waiting.SUBSCRIBER_FULL and "1 tasks of acme run" in words
    reason, words = with_policy(concurrency=1)
    assert reason == Waiting.LIMIT_FULL and "1 of its kind run" in words
    monkeypatch.setattr(waiting, "_count_workers", lambda: 0)
    assert why(client, pk)[0] == Waiting.NO_WORKER
    reason, words = with_policy(is_paused=True)
    assert reason == Waiting.KIND_PAUSED and "Resume it" in words
    Task.objects.filter(pk=pk).update(state=State.RETRYING, next_attempt_at=now + timedelta(hours=1))
    assert why(client, pk)[0] == Waiting.RETRY_AT
    Task.objects.filter(pk=pk).update(expires_at=now)
    assert why(client, pk)[0] == Waiting.EXPIRED
    assert why(client, running.pk) == (None, None)


def test_a_page_of_waiting_tasks_costs_no_more_than_one(client, django_assert_max_num_queries):
    items = [{"input": SEARCH}] * 20
    post(client, "/batches/", {"kind": "map_search", "tasks": items})
    with django_assert_max_num_queries(16):
        rows = client.get("/api/v1/tasks/?limit=20").json()["results"]
    assert {row["waiting_reason"] for row in rows} == {"next"} and len(rows) == 20
