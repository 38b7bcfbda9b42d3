"""One bad entry in what a provider says keeps no other job from its news, and never makes a second paid one."""

import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tasks.engine import clock
from tasks.external import adoption, starting
from tasks.external.reconcile import reconcile
from tasks.models import ExternalJob, Task
from tasks.providers.base import BadAnswer, NewJob, ProviderCall, Unparseable
from tasks.providers.sandbox import SandboxProvider, payloads
from tasks.states import JobState, JobStatus, State
from tasks.submit import submit_batch
from tasks.tests.conftest import KEY, SECRET

pytestmark = pytest.mark.django_db
BAD = [
    {"status": "completed", "error": {"message": "a\0b"}},
    {"status": None},
    {"status": "completed", "error": {"message": "\ud800"}},
    {"status": "completed", "progress": float("nan")},
]


@pytest.fixture
def provider(sandbox: Any, settings: Any) -> Any:
    """A provider that answers what a test says: `answers[path]`, a document or a function of the query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            split = urlsplit(self.path)
            said = answers[split.path]
            said = said(parse_qs(split.query)) if callable(said) else said
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    answers: dict[str, Any] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.SANDBOX_PROVIDER_URL = f"http://127.0.0.1:{server.server_port}"
    yield answers
    server.shutdown()
    server.server_close()


def running(make_task: Any, *ids: str) -> list[Task]:
    return [make_task(State.RUNNING, job=JobState.SUBMITTED, job_id=job_id) for job_id in ids]


@pytest.mark.parametrize("bad", [*BAD, {"job_id": "x" * 300, "status": "completed"}, 7])
def test_the_poll_takes_the_others_of_a_listing_with_a_bad_entry(provider: Any, make_task: Any, bad: Any) -> None:
    tasks = running(make_task, "j0", "j1", "j2")
    entry = {"job_id": "j1", **bad} if isinstance(bad, dict) else bad
    good = [{"job_id": job_id, "status": "completed"} for job_id in ("j0", "j2")]
    provider["/v1/jobs"] = {"jobs": [good[0], entry, good[1]]}
    report = reconcile(clock.now())
    assert not report.unreachable and report.changed >= 2
    for task in tasks:
        task.refresh_from_db()
    assert (tasks[0].state, tasks[2].state) == (State.FETCHING, State.FETCHING)


def test_an_entry_without_a_status_is_shown_with_its_reason(provider: Any, make_task: Any) -> None:
    (task,) = running(make_task, "j1")
    provider["/v1/jobs"] = {"jobs": [{"job_id": "j1", "status": None}]}
    assert reconcile(clock.now()).lost == 0
    assert "has no status" in task.jobs.get().error_text and task.jobs.get().poll_misses == 0


def test_orphans_are_adopted_beside_a_bad_entry_and_one_that_cannot_be_is_not_started_again(
    provider: Any, make_task: Any
) -> None:
    tasks = [make_task(State.RUNNING, job=JobState.SUBMITTING) for _ in range(4)]
    tokens = [str(task.jobs.get().start_token) for task in tasks]
    entries = [
        {"reference": tokens[0], "job_id": "j0", "status": "processing"},
        {"reference": tokens[1], "job_id": "x" * 300, "status": "processing"},
        {"reference": tokens[2], "job_id": "j0", "status": "processing"},
        {"reference": tokens[3], "job_id": 3, "status": None},
        {"reference": "not ours", "job_id": "j9", "status": "processing"},
    ]
    provider["/v1/jobs"] = {"jobs": entries}
    for seconds in (1, 100, 200, 300):
        adoption.adopt(clock.now() + timedelta(seconds=seconds))
    jobs = [task.jobs.get() for task in tasks]
    assert [(job.state, job.job_id) for job in jobs] == [
        ("submitted", "j0"), ("submitting", ""), ("submitting", ""), ("submitted", "3"),
    ]  # fmt: skip
    assert "cannot be read" in jobs[1].error_text and "another one" in jobs[2].error_text
    assert set(Task.objects.values_list("state", flat=True)) == {State.RUNNING}


def test_a_batch_start_keeps_the_jobs_that_its_answer_names_well(provider: Any) -> None:
    submit_batch("scoring", [{"input": {"business": {"name": f"B{n}"}}} for n in range(4)], caller="t")
    (start,) = starting.claim("scoring", 1, clock.now())
    refs = [job.reference for job in start.jobs]
    ids = ["a", None, "a", 4]
    said = [{"reference": ref, "job_id": job_id} for ref, job_id in zip(refs, ids, strict=True)]
    provider["/v1/scoring/batches"] = {"batch_id": "b", "jobs": [*said, 7]}
    starting.settle(start, starting.call(start), clock.now())
    assert list(ExternalJob.objects.order_by("pk").values_list("job_id", "state")) == [
        ("a", "submitted"), ("", "submitting"), ("", "submitting"), ("4", "submitted"),
    ]  # fmt: skip


def test_a_callback_with_a_bad_entry_is_answered_entry_by_entry() -> None:
    body = json.dumps({"jobs": [{"job_id": "j0", "status": "completed"}, {"job_id": 1, "status": "completed"}, 7,
                                {"job_id": "j2", "status": None}]}).encode()  # fmt: skip
    found = payloads.parse(body).updates
    assert [(update.job_id, update.status) for update in found] == [
        ("j0", JobStatus.SUCCEEDED), ("1", JobStatus.SUCCEEDED), ("", JobStatus.UNKNOWN), ("j2", JobStatus.UNKNOWN),
    ]  # fmt: skip
    assert found[2].problem == "jobs[2] is not an object" and "no status" in found[3].problem
    with pytest.raises(Unparseable):
        payloads.parse(b'{"jobs": [7, {"status": "completed"}]}')


def test_a_listing_that_does_not_end_is_a_bad_answer_and_loses_no_job(provider: Any, make_task: Any) -> None:
    tasks = running(make_task, "j0", "j1")
    job = {"job_id": "j0", "status": "completed"}
    provider["/v1/jobs"] = {"jobs": [job], "next_cursor": "again"}
    report = reconcile(clock.now())
    assert report.unreachable == {"sandbox": "bad_answer"} and report.not_found == 0
    provider["/v1/jobs"] = {"jobs": [job, {"job_id": "j1", "status": "completed"}], "next_cursor": "again"}
    assert reconcile(clock.now() + timedelta(minutes=1)).changed == 2
    tasks[0].refresh_from_db()
    assert tasks[0].state == State.FETCHING


def test_a_job_id_with_a_comma_is_found(provider: Any, make_task: Any) -> None:
    (task,) = running(make_task, "a,b")
    provider["/v1/jobs/a%2Cb"] = {"job_id": "a,b", "status": "completed"}
    assert reconcile(clock.now()).changed == 1
    task.refresh_from_db()
    assert task.state == State.FETCHING


def test_misses_count_only_a_minute_apart(provider: Any, make_task: Any) -> None:
    running(make_task, "j0")
    provider["/v1/jobs"] = {"jobs": []}
    start = clock.now() + timedelta(minutes=2)
    lost = [reconcile(start + timedelta(seconds=seconds), force=True).lost for seconds in (0, 14, 28, 42)]
    assert lost == [0, 0, 0, 0] and ExternalJob.objects.get().poll_misses == 1
    assert [reconcile(start + timedelta(seconds=seconds), force=True).lost for seconds in (60, 120)] == [0, 1]


def test_a_start_whose_answer_has_no_usable_id_is_a_bad_answer(provider: Any, settings: Any) -> None:
    provider["/v1/scoring/jobs"] = {"job_id": "x" * 300}
    client = SandboxProvider(settings.SANDBOX_PROVIDER_URL, KEY, SECRET)
    with pytest.raises(BadAnswer):
        client.start("scoring", NewJob("r", {}), ProviderCall())
