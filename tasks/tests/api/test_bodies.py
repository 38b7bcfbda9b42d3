"""Inputs and results: lists carry their sizes, a task the short ones, and a stream the rest."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from kernel.auth import create_key
from kernel.database import spools
from tasks.models import KeptAnswer, Task
from tasks.reading import bodies
from tasks.states import JobState, State
from tasks.tests.api.test_console_users import visitor

LONG = {"text": "é" * bodies.INLINE_BYTES, "n": [1, 2.5, None]}


@pytest.fixture
def done(make_task):
    return make_task(State.SUCCEEDED, result={"score": 40}, subscriber="acme", batch=None)


@pytest.fixture
def long(make_task):
    return make_task(State.SUCCEEDED, result=LONG, subscriber="acme")


def streamed(task, name, **headers):
    """What an ASGI server would send: the answer, and its parts."""
    _, token = create_key("reader", ["tasks:read"], subscriber=headers.pop("subscriber", ""))

    async def read():
        client = AsyncClient()
        answer = await client.get(f"/api/v1/tasks/{task.pk}/{name}/", headers={"authorization": f"Bearer {token}"})
        parts = [part async for part in answer.streaming_content] if answer.streaming else [answer.content]
        answer.close()
        await sync_to_async(connections.close_all)()
        return answer, parts

    return asyncio.run(read())


def test_a_task_shows_short_bodies_with_their_sizes_and_addresses(client, done):
    shown = client.get(f"/api/v1/tasks/{done.pk}/").json()
    assert (shown["input"], shown["result"]) == (done.input, {"score": 40})
    assert (shown["input_bytes"], shown["result_bytes"]) == (len(json.dumps(done.input)), len('{"score": 40}'))
    assert shown["result_url"].endswith(f"/api/v1/tasks/{done.pk}/result/")


def test_a_task_without_a_result_has_no_address_of_one(client, make_task):
    shown = client.get(f"/api/v1/tasks/{make_task().pk}/").json()
    assert (shown["result"], shown["result_bytes"], shown["result_url"]) == (None, None, None)


def test_a_long_result_is_not_read_to_show_its_task(client, long):
    with CaptureQueriesContext(connection) as queries:
        shown = client.get(f"/api/v1/tasks/{long.pk}/").json()
    assert shown["result"] is None and shown["result_bytes"] > bodies.INLINE_BYTES and shown["input"] == long.input
    assert not any('"tasks_task"."result"' in query["sql"] for query in queries)


LISTS = ["/api/v1/tasks/", "/api/v1/batches/{batch}/tasks/", "/api/v1/tasks/?payload=false"]


@pytest.mark.parametrize("path", LISTS)
def test_the_sql_of_a_list_does_not_fetch_bodies(client, make_batch, path):
    batch = make_batch(State.SUCCEEDED, State.SUCCEEDED, result={"score": 40})
    with CaptureQueriesContext(connection) as queries:
        rows = client.get(path.format(batch=batch.pk)).json()["results"]
    assert [(row["input"], row["result"], row["result_bytes"]) for row in rows] == [(None, None, 13)] * 2
    sql = " ".join(query["sql"] for query in queries)
    assert '"tasks_task"."result"' not in sql and '"tasks_task"."input"' not in sql
    assert '"tasks_task"."result_bytes"' in sql


@pytest.mark.parametrize("path", ["/api/v1/tasks/", "/api/v1/batches/{batch}/tasks/"])
def test_a_list_that_is_asked_for_bodies_gives_those_that_fit_in_one_more_query(
    client, make_batch, monkeypatch, django_assert_num_queries, path
):
    batch = make_batch(*[State.SUCCEEDED] * 4, result={"score": 40})
    batch.tasks.filter(position=1).update(result=LONG)
    each = sum(batch.tasks.filter(position=0).values_list("input_bytes", "result_bytes").get())
    monkeypatch.setattr(bodies, "LIST_BYTES", 2 * each)
    client.get("/api/v1/kinds/")  # a key's use is noted once a minute
    with django_assert_num_queries(4 if "batches" in path else 3):
        rows = client.get(path.format(batch=batch.pk) + "?payload=true").json()["results"]
    results = {row["position"]: row["result"] for row in rows}
    short = {"score": 40}
    newest_first = {3: short, 2: short, 1: None, 0: None}
    assert results == ({0: short, 1: None, 2: short, 3: None} if "batches" in path else newest_first)
    assert all(row["result_url"] for row in rows)


@pytest.mark.parametrize("word", ["", "maybe", "truely"])
def test_a_word_that_is_neither_is_refused(client, done, word):
    answer = client.get(f"/api/v1/tasks/?payload={word}")
    assert answer.status_code == 400 and answer.json()["errors"][0]["field"] == "payload"


def test_a_console_user_without_the_right_gets_no_body_in_any_way(done, make_task):
    user = visitor()
    rows = user.get("/api/v1/tasks/?payload=true").json()["results"]
    assert (rows[0]["input"], rows[0]["result"], rows[0]["result_bytes"]) == (None, None, 13)
    assert user.get(f"/api/v1/tasks/{done.pk}/").json()["result"] is None
    for name in ("input", "result", "kept-answer"):
        assert user.get(f"/api/v1/tasks/{done.pk}/{name}/").status_code == 403
    assert visitor("view_payload_task", name="ben").get(f"/api/v1/tasks/{done.pk}/").json()["result"] == {"score": 40}


def test_a_submitted_task_answers_with_its_input_in_no_more_queries_than_before(client, db):
    body = {"kind": "scoring", "input": {"business": {"name": "Bäckerei"}}}
    with CaptureQueriesContext(connection) as queries:
        shown = client.post("/api/v1/tasks/", body, format="json").json()
    assert shown["input"] == body["input"] and shown["input_bytes"] == len(
        '{"business": {"name": "Bäckerei"}}'.encode()
    )
    assert not any(query["sql"].startswith("SELECT") and '"input"' in query["sql"] for query in queries)


@pytest.mark.django_db(transaction=True)
def test_a_long_result_is_streamed_in_parts_from_a_file_with_its_length(long, monkeypatch):
    made = []
    spooled = bodies.spooled
    monkeypatch.setattr(bodies, "spooled", lambda *args: made.append(spooled(*args)) or made[-1])
    answer, parts = streamed(long, "result")
    whole = b"".join(parts)
    assert answer.status_code == 200 and json.loads(whole) == LONG
    size = Task.objects.values_list("result_bytes", flat=True).get()
    assert int(answer["Content-Length"]) == len(whole) == size
    assert max(map(len, parts)) <= spools.PART_BYTES and len(parts) > size // spools.PART_BYTES
    ((spool, _),) = made
    assert spool._rolled and spool.closed  # on disk while it was sent, and gone afterwards
    assert "attachment" in answer["Content-Disposition"] and answer["Content-Type"] == "application/json"


@pytest.mark.django_db(transaction=True)
def test_the_database_hands_a_body_out_in_parts_too(long, monkeypatch):
    fetched = []

    class Recording:
        def __init__(self, cursor):
            self.cursor = cursor

        def __enter__(self):
            self.inner = self.cursor.__enter__()
            return self

        def __exit__(self, *args):
            return self.cursor.__exit__(*args)

        def execute(self, *args):
            return self.inner.execute(*args)

        def fetchmany(self, size):  # and no other way to read
            rows = self.inner.fetchmany(size)
            fetched.append(sum(len(part) for (part,) in rows))
            return rows

    made = connection.chunked_cursor
    monkeypatch.setattr(connection, "chunked_cursor", lambda: Recording(made()))
    spool, length = bodies.spooled("result", long.pk)
    with spool:
        assert length == len(spool.read()) == sum(fetched) > 2_000_000
    assert max(fetched) == spools.PART_BYTES * spools.PARTS_AT_ONCE
    assert not connection.in_atomic_block


@pytest.mark.django_db(transaction=True)
def test_an_input_and_what_was_kept_are_streamed_alike(make_task):
    task = make_task(State.DEAD_LETTER, job=JobState.SUCCEEDED, job_id="j", error_code="result_unreadable")
    raw = bytes(range(256)) * 5
    KeptAnswer.objects.create(job=task.jobs.get(), body=raw, body_bytes=len(raw), note="Odd.")
    assert json.loads(b"".join(streamed(task, "input")[1])) == task.input
    answer, parts = streamed(task, "kept-answer")
    assert b"".join(parts) == raw and answer["Content-Type"] == "application/octet-stream"
    assert streamed(task, "result")[0].status_code == 404


def test_what_is_not_there_is_a_404_in_words(client, make_task):
    task = make_task(State.RUNNING)
    for name, code in (("result", "no_result"), ("kept-answer", "nothing_kept")):
        answer = client.get(f"/api/v1/tasks/{task.pk}/{name}/")
        assert (answer.status_code, answer.json()["code"]) == (404, code)


def test_a_bound_key_gets_only_its_own(client_with, long):
    other = client_with("tasks:read", subscriber="umbrella")
    for name in ("input", "result", "kept-answer"):
        assert other.get(f"/api/v1/tasks/{long.pk}/{name}/").status_code == 404
    assert APIClient().get(f"/api/v1/tasks/{long.pk}/result/").status_code == 401


def test_the_timeline_says_that_bytes_are_kept_and_not_which(client, make_task):
    task = make_task(State.DEAD_LETTER, job=JobState.SUCCEEDED, job_id="j", error_code="result_unreadable")
    KeptAnswer.objects.create(job=task.jobs.get(), body=b"sec\xffret", body_bytes=7, note="It is not UTF-8.")
    with CaptureQueriesContext(connection) as queries:
        entries = client.get(f"/api/v1/tasks/{task.pk}/timeline/").json()
    assert [row["detail"] for row in entries if "kept: 7 bytes" in row["text"]] == ["It is not UTF-8."]
    assert not any('"tasks_keptanswer"."body",' in query["sql"] for query in queries)
