"""POST /tasks/ and /batches/: durable and answered at once, or refused with the fields; never in between."""

import json
import threading

import pytest

from delivery.tests import wire
from kernel import wakeups
from kernel.wakeups import Wakeups
from tasks.models import Batch, Task, Transition

SEARCH = {"trade": "bakery", "place": "Łódź"}


def post(client, path, body, **headers):
    return client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", headers=headers)


def test_a_task_is_durable_when_answered(client):
    response = post(client, "/tasks/", {"kind": "map_search", "input": SEARCH, "subscriber": "acme", "reference": "r1"})
    assert response.status_code == 202
    task = Task.objects.get()
    assert response.json() | {"id": str(task.pk), "state": "queued", "final": False} == response.json()
    assert response.json()["url"] == f"http://testserver/api/v1/tasks/{task.pk}/"
    assert (task.kind, task.subscriber, task.reference) == ("map_search", "acme", "r1")
    assert task.input == {**SEARCH, "limit": 10}
    assert task.correlation_id == response.headers["x-correlation-id"]
    assert client.get(response.json()["url"]).json()["state"] == "queued"


def test_hyphens_slash_and_no_slash_are_the_same(client):
    response = post(client, "/tasks", {"kind": "map-search", "input": SEARCH})
    assert response.status_code == 202
    assert response.json()["kind"] == "map_search"


def test_a_later_task_is_scheduled(client):
    body = {"kind": "map_search", "input": SEARCH, "run_at": "2099-01-01T00:00:00+02:00"}
    response = post(client, "/tasks/", body)
    assert response.json()["state"] == "scheduled"
    assert response.json()["run_at"] == "2098-12-31T22:00:00Z"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"kind": "map_search"}, "input", "required"),
        ({"input": SEARCH}, "kind", "required"),
        ({"kind": "juggling", "input": SEARCH}, "kind", "unknown_kind"),
        ({"kind": "map_search", "input": {"trade": "bakery"}}, "input.place", "required"),
        ({"kind": "map_search", "input": {**SEARCH, "limit": 99}}, "input.limit", "too_large"),
        ({"kind": "map_search", "input": {**SEARCH, "plaice": 1}}, "input.plaice", "unknown_field"),
        ({"kind": "map_search", "input": "bakery"}, "input", "wrong_type"),
        ({"kind": "scoring", "input": {"business": {"name": ""}}}, "input.business.name", "too_short"),
        ({"kind": "map_search", "input": SEARCH, "runat": "2099-01-01"}, "runat", "unknown_field"),
        ({"kind": "map_search", "input": SEARCH, "run_at": "soon"}, "run_at", "invalid"),
        ({"kind": "map_search", "input": SEARCH, "reference": "r" * 201}, "reference", "max_length"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_stored(client, body, field, code):
    response = post(client, "/tasks/", body)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert {"field": field, "code": code} in [
        {"field": row["field"], "code": row["code"]} for row in response.json()["errors"]
    ]
    assert not Task.objects.exists()


def test_a_kind_without_provider_is_refused_with_what_to_do(client, settings):
    settings.SANDBOX_PROVIDER_URL = ""
    response = post(client, "/tasks/", {"kind": "map_search", "input": SEARCH})
    assert (response.status_code, response.json()["code"]) == (409, "no_provider")
    assert "docs/adding-a-provider.md" in response.json()["detail"]


def test_a_batch_of_ten_thousand(client):
    items = [{"input": {**SEARCH, "place": f"Place {n}"}, "reference": str(n)} for n in range(10_000)]
    response = post(client, "/batches/", {"kind": "map_search", "subscriber": "acme", "tasks": items})
    assert response.status_code == 202, response.content[:500]
    body = response.json()
    assert (body["state"], body["outcome"], body["total"]) == ("running", None, 10_000)
    assert body["counts"] == {"queued": 10_000}
    assert Task.objects.count() == Transition.objects.count() == 10_000
    first = client.get(body["url"] + "tasks/?limit=2").json()
    assert [row["reference"] for row in first["results"]] == ["0", "1"]
    assert [row["reference"] for row in client.get(first["next"]).json()["results"]] == ["2", "3"]


@pytest.mark.parametrize(
    ("tasks", "field"),
    [
        ([], "tasks"),
        ("x", "tasks"),
        ([{"input": SEARCH}] * 10_001, "tasks"),
        ([{"input": SEARCH}] * 3 + [{"input": {"trade": "bakery"}}], "tasks.3.input.place"),
        ([{"input": SEARCH}, 7], "tasks.1.input"),
        ([{"input": SEARCH, "referense": "x"}], "tasks.0.referense"),
        ([{"input": SEARCH, "reference": 5}], "tasks.0.reference"),
    ],
)
def test_a_batch_is_all_or_none(client, tasks, field):
    response = post(client, "/batches/", {"kind": "map_search", "tasks": tasks})
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == field
    assert not Task.objects.exists()
    assert not Batch.objects.exists()


def test_an_idempotency_key_makes_one_batch(client):
    body = {"kind": "map_search", "tasks": [{"input": SEARCH}]}
    first = post(client, "/batches/", body, **{"idempotency-key": "k1"})
    again = post(client, "/batches/", body, **{"idempotency-key": "k1"})
    assert first.json() == again.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Batch.objects.count() == 1
    other = post(client, "/batches/", {**body, "reference": "x"}, **{"idempotency-key": "k1"})
    assert other.status_code == 422


def test_a_body_past_the_limit_is_a_413(client, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
    response = post(client, "/batches/", {"kind": "map_search", "reference": "x" * 1024 * 1024, "tasks": []})
    assert (response.status_code, response.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"kind": "\\u0000"}', b'{"kind": "\\ud800"}', b"\xff\xfe", b"{"])
def test_hostile_json_is_a_400(client, body):
    response = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


def test_the_answer_does_not_wait_for_a_broker_that_hangs(
    client, settings, monkeypatch, django_capture_on_commit_callbacks
):
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"
    is_called, is_over = threading.Event(), threading.Event()
    published = []

    def publish(name):
        is_called.set()
        is_over.wait(60)
        published.append(name)
        return True

    monkeypatch.setattr(wakeups, "_wakeups", Wakeups(publish, "wake-under-test"))
    with django_capture_on_commit_callbacks(execute=True):
        answer = post(client, "/tasks/", {"kind": "map_search", "input": SEARCH})
    assert answer.status_code == 202 and Task.objects.count() == 1
    assert is_called.wait(10) and published == []
    is_over.set()
    wakeups._wakeups.let_out(10)
    assert published == ["tasks.start"]


def test_five_hundred_tasks_take_as_many_statements_as_two(client):
    def statements(count):
        with wire.counted() as sent:
            body = {"kind": "map_search", "tasks": [{"input": SEARCH}] * count}
            assert post(client, "/batches/", body).status_code == 202
        return sent.statements

    post(client, "/tasks/", {"kind": "map_search", "input": SEARCH})
    few = statements(2)
    assert statements(500) == few <= 14
