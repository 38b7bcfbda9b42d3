"""What is nested too deeply is refused at every door; a row stored before is shown, in task, list and page."""

import pytest
from django.db import connection
from django.urls import reverse

from tasks.engine import clock
from tasks.external import fetching
from tasks.models import ExternalJob, Task
from tasks.providers.base import BadAnswer, Unparseable
from tasks.providers.sandbox import payloads
from tasks.states import JobState, State
from tasks.submit import submit

SEARCH = {"trade": "bakery", "place": "Łódź"}
BODY = b'{"jobs": [{"job_id": "j", "status": "completed", "x": ' + b"[" * 200 + b"]" * 200 + b"}]}"


@pytest.fixture(params=[101, 940, 20_000])
def deep(request, db):
    """A task whose stored result is so deep; PostgreSQL takes it, at least up to its own stack."""
    task = submit("map_search", SEARCH, caller="t")
    text = "[" * min(request.param, 5_000) + "]" * min(request.param, 5_000)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_task SET result = %s::jsonb WHERE id = %s", [text, task.pk])
    return task


def test_a_deep_result_is_shown_in_the_task_and_in_the_list(client, deep):
    one = client.get(f"/api/v1/tasks/{deep.pk}/")
    assert one.status_code == 200 and "not shown" in one.content.decode()
    assert client.get("/api/v1/tasks/").status_code == 200


def test_a_deep_result_is_shown_in_the_admin(admin_client, deep):
    page = admin_client.get(reverse("admin:tasks_task_change", args=[deep.pk]))
    assert page.status_code == 200 and "not shown" in page.content.decode()


def test_an_input_nested_too_deeply_is_a_400(client, db):
    body = '{"kind": "map_search", "input": ' + "[" * 960 + "]" * 960 + "}"
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert answer.status_code == 400 and "at most 100" in answer.json()["detail"]


def test_a_schedule_with_an_input_nested_too_deeply_is_refused_in_the_form(admin_client, db):
    page = admin_client.post(reverse("admin:tasks_schedule_add"), {"name": "s", "input": "[" * 5_000})
    assert page.status_code == 200 and "valid JSON" in page.content.decode()


def test_a_deep_result_of_any_adapter_is_a_bad_answer_and_the_others_of_its_set_succeed(make_task, monkeypatch):
    class Deep:
        def result(self, job_id, _item):
            value = {"score": 1}
            for _ in range(965 if job_id == "j0" else 0):
                value = [value]
            return value

    monkeypatch.setattr("tasks.providers.get", lambda _name: Deep())
    tasks = [make_task(State.FETCHING, job=JobState.SUCCEEDED, job_id=f"j{n}") for n in range(3)]
    assert ExternalJob.objects.count() == 3
    fetches = fetching.claim("scoring", 5, clock.now())
    pairs = [(fetch, fetching.call(fetch)) for fetch in fetches]
    assert [type(fetched.error) for _, fetched in pairs] == [BadAnswer, type(None), type(None)]
    fetching.settle(pairs, clock.now())
    assert list(Task.objects.order_by("pk").values_list("state", flat=True)) == ["fetching", "succeeded", "succeeded"]
    tasks[0].refresh_from_db()
    assert "nested" in tasks[0].error_text


def test_a_callback_nested_too_deeply_is_cut_or_not_parseable():
    (update,) = payloads.parse(BODY).updates
    assert (update.job_id, update.problem) == ("j", "")
    with pytest.raises(Unparseable, match="nested too deeply"):
        payloads.parse(b"[" * 20_000)
