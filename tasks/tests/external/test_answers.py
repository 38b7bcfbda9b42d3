"""What becomes of a task when its provider answers strangely: nothing is lost, and nothing is paid for twice."""

import functools
import threading
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tasks import providers
from tasks.engine import clock, lifecycle
from tasks.external import adoption, fetching, starting
from tasks.external.reconcile import time_out
from tasks.models import ExternalJob, KeptAnswer, KindPolicy, Task
from tasks.providers.sandbox import client
from tasks.states import Cause, JobState, State
from tasks.submit import submit, submit_batch
from tasks.tests import drive
from tasks.tests.conftest import KEY, SECRET

pytestmark = pytest.mark.django_db
SCORE = {"business": {"name": "Bar"}}
RESULT = "/v1/jobs/j1/result"
GOOD = b'{"score": 40, "passed": true}'


class Scripted:
    """`says[path]` is what it answers: (status, headers, body), one after the other; the last one stays."""

    def __init__(self) -> None:
        self.says: dict[str, list[tuple[int, dict[str, str], bytes]]] = {}
        self.calls: Counter[str] = Counter()

    def answer(self, path: str, *answers: Any) -> None:
        self.says[path] = [(one if isinstance(one, tuple) else (200, {}, one)) for one in answers]

    def next(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.calls[path] += 1
        left = self.says[path]
        return left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture
def provider(sandbox: Any, settings: Any) -> Any:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = scripted.next(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    scripted = Scripted()
    scripted.answer("/v1/jobs", b'{"jobs": []}')
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.SANDBOX_PROVIDER_URL = f"http://127.0.0.1:{server.server_port}"
    yield scripted
    server.shutdown()
    server.server_close()


def started(now: Any = None) -> None:
    moment = now or clock.now()
    (start,) = starting.claim("scoring", 1, moment)
    starting.settle(start, starting.call(start), moment)


def fetched(task: Task, times: int = 1) -> Task:
    """Fetch so often, each time when it is due."""
    now = clock.now()
    for _ in range(times):
        now += timedelta(seconds=1)
        Task.objects.filter(pk=task.pk).update(next_attempt_at=now)
        if fetches := fetching.claim("scoring", 5, now):
            fetching.settle([(fetch, fetching.call(fetch)) for fetch in fetches], now)
    task.refresh_from_db()
    return task


@pytest.fixture
def finished(make_task: Any) -> Task:
    """A task whose job is finished upstream; its result is to be fetched."""
    return make_task(State.FETCHING, job=JobState.SUCCEEDED, job_id="j1")


# --- starts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 409, 410, 413, 415, 422])
def test_a_start_refused_for_good_is_a_dead_letter(provider: Any, status: int) -> None:
    provider.answer("/v1/scoring/jobs", (status, {}, b"{}"))
    task = submit("scoring", SCORE, caller="t")
    started()
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "rejected_by_provider")
    assert KindPolicy.objects.get(kind="scoring").held_until is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [(status, "provider_unavailable") for status in (301, 307, 405, 421, 423, 425, 426, 500, 503)]
    + [(status, "provider_denied") for status in (401, 402, 403, 407, 451)]
    + [(429, "provider_throttled")],
)
def test_a_start_that_was_not_taken_waits_uncharged_and_its_kind_is_held(
    provider: Any, status: int, reason: str
) -> None:
    provider.answer("/v1/scoring/jobs", (status, {"location": "/elsewhere"}, b"{}"))
    task = submit("scoring", SCORE, caller="t")
    started()
    task.refresh_from_db()
    assert (task.state, task.attempt_count, task.error_code) == (State.RETRYING, 0, reason)
    assert KindPolicy.objects.get(kind="scoring").hold_reason == reason
    assert not ExternalJob.objects.exists()


@pytest.mark.parametrize("status", [302, 303, 408, 499, 502, 504, 520, 524])
def test_a_start_that_may_have_been_obeyed_is_looked_for_and_its_kind_is_held(provider: Any, status: int) -> None:
    provider.answer("/v1/scoring/jobs", (status, {}, b""))
    task = submit("scoring", SCORE, caller="t")
    started()
    task.refresh_from_db()
    assert (task.state, task.error_code, task.lease_token) == (State.RUNNING, "outcome_unknown", None)
    assert task.jobs.get().state == JobState.SUBMITTING
    policy = KindPolicy.objects.get(kind="scoring")
    assert policy.hold_reason == "outcome_unknown" and policy.held_until > clock.now() - timedelta(seconds=1)


def test_a_start_that_hangs_is_looked_for_and_its_kind_is_held(sandbox: Any, monkeypatch: Any) -> None:
    sandbox.faults(start_timeout=1.0, hang_ms=3000)
    hasty = client.SandboxProvider(sandbox.url, KEY, SECRET, call_seconds=0.3)
    task = submit("scoring", SCORE, caller="t")
    with monkeypatch.context() as patch:
        patch.setattr(providers, "get", lambda _name: hasty)
        started()
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RUNNING, "outcome_unknown")
    assert KindPolicy.objects.get(kind="scoring").hold_reason == "outcome_unknown"


def unanswered_round(now: Any) -> Any:
    """One start without a clear answer, and the looks that find nothing. Returns when that was over."""
    KindPolicy.objects.update(held_until=None)
    Task.objects.update(next_attempt_at=now)
    started(now)
    ExternalJob.objects.filter(state="submitting").update(created_at=now)
    for seconds in (10, 60, 91):
        adoption.adopt(now + timedelta(seconds=seconds))
    return now + timedelta(seconds=100)


def test_a_gateway_that_answers_for_a_provider_that_is_down_poisons_nobody(provider: Any) -> None:
    provider.answer("/v1/scoring/jobs", (504, {}, b""))
    task = submit("scoring", SCORE, caller="t")
    now = clock.now()
    for _ in range(7):
        now = unanswered_round(now)
    task.refresh_from_db()
    assert (task.state, task.attempt_count, task.rescue_count) == (State.RETRYING, 0, 0)
    assert "answered 504" in task.error_text and "knows no job" in task.error_text
    policy = KindPolicy.objects.get(kind="scoring")
    assert policy.failure_count == 7
    provider.answer("/v1/scoring/jobs", (201, {}, b'{"job_id": "j1"}'))
    KindPolicy.objects.update(held_until=None)
    Task.objects.update(next_attempt_at=now)
    started(now)
    assert task.jobs.get(state="submitted").job_id == "j1"


def test_a_start_that_never_gets_an_answer_ends_as_a_dead_letter_with_its_own_reason(
    provider: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(lifecycle, "MAX_UNANSWERED", 2)
    provider.answer("/v1/scoring/jobs", (502, {}, b""))
    task = submit("scoring", SCORE, caller="t")
    unanswered_round(unanswered_round(clock.now()))
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "start_unanswered")


def test_one_start_of_many_without_an_answer_holds_nobody_up(provider: Any) -> None:
    submit_batch("scoring", [{"input": SCORE} for _ in range(3)], caller="t")
    (start,) = starting.claim("scoring", 1, clock.now())
    said = b",".join(b'{"reference": "%s", "job_id": "j%d"}' % (job.reference.encode(), n)
                     for n, job in enumerate(start.jobs[:2]))  # fmt: skip
    provider.answer("/v1/scoring/batches", b'{"jobs": [' + said + b"]}")
    starting.settle(start, starting.call(start), clock.now())
    assert KindPolicy.objects.get(kind="scoring").held_until is None
    assert Counter(ExternalJob.objects.values_list("state", flat=True)) == {"submitted": 2, "submitting": 1}


@pytest.mark.parametrize("status", [429, 503, 301])
def test_what_a_provider_asks_to_wait_holds_the_kind(provider: Any, status: int) -> None:
    provider.answer("/v1/scoring/jobs", (status, {"retry-after": "300"}, b""))
    submit("scoring", SCORE, caller="t")
    before = clock.now()
    started()
    wait = KindPolicy.objects.get(kind="scoring").held_until - before
    assert timedelta(seconds=300) <= wait <= timedelta(seconds=400)


@pytest.mark.parametrize("hint", ["0", "-5", "nan", "inf", "Thu, 01 Jan 1970 00:00:00 GMT", "soon", "\x7f"])
def test_a_wait_that_says_nothing_leaves_our_own(provider: Any, hint: str, monkeypatch: Any) -> None:
    provider.answer("/v1/scoring/jobs", (429, {"retry-after": hint}, b""))
    submit("scoring", SCORE, caller="t")
    before = clock.now()
    started()
    wait = KindPolicy.objects.get(kind="scoring").held_until - before
    assert wait >= timedelta(seconds=0.5)  # the least of our own; with a hint of nought it was 0.1


# --- results ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status", [202, 204, 302, 307, 401, 402, 404, 405, 408, 409, 423, 429, 451, 499, 500, 502, 504]
)
def test_a_result_that_is_not_handed_out_once_is_fetched_again(provider: Any, finished: Task, status: int) -> None:
    provider.answer(RESULT, (status, {}, b""), GOOD)
    task = fetched(finished)
    assert task.state == State.FETCHING and task.error_code
    task = fetched(finished)
    assert (task.state, task.result, task.error_code) == (State.SUCCEEDED, {"score": 40, "passed": True}, "")
    assert task.jobs.count() == 1


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_result_that_the_provider_refuses_is_a_dead_letter_and_no_new_job(
    provider: Any, finished: Task, status: int
) -> None:
    provider.answer(RESULT, (status, {}, b""))
    task = fetched(finished)
    assert (task.state, task.error_code, task.attempt_count) == (State.DEAD_LETTER, "result_refused", 1)
    assert provider.calls[RESULT] == 1 and task.jobs.get().state == JobState.SUCCEEDED


def test_a_result_that_is_gone_is_lost_at_once(provider: Any, finished: Task) -> None:
    provider.answer(RESULT, (410, {}, b""))
    task = fetched(finished)
    assert (task.state, task.error_code) == (State.RETRYING, "result_lost")
    assert task.jobs.get().state == JobState.LOST


UNREADABLE = [
    b'{"score": NaN}',
    b'{"score": Infinity}',
    b'{"score": 1, "score": 2}',
    b'{"name": "caf\xe9"}',
    b'{"score": ' + b"[" * 101 + b"]" * 101 + b"}",
    b"<html>Sorry</html>",
    b'{"score": ',
    b"[1]",
]


@pytest.mark.parametrize("raw", UNREADABLE)
def test_a_result_that_cannot_be_read_is_kept_and_is_a_dead_letter_and_no_new_job(
    provider: Any, finished: Task, raw: bytes
) -> None:
    provider.answer(RESULT, raw)
    task = fetched(finished)
    assert task.state == State.FETCHING and bytes(KeptAnswer.objects.get().body) == raw  # at the first look already
    task = fetched(finished, 2)
    assert (task.state, task.error_code, task.attempt_count) == (State.DEAD_LETTER, "result_unreadable", 1)
    assert provider.calls[RESULT] == 3 and task.jobs.count() == 1
    kept = KeptAnswer.objects.get()
    assert (bytes(kept.body), kept.body_bytes, kept.is_cut) == (raw, len(raw), False) and "cannot be used" in kept.note
    assert "a redrive fetches it again" in task.error_text


def test_a_page_of_something_in_between_is_not_kept_once_the_result_has_come(provider: Any, finished: Task) -> None:
    provider.answer(RESULT, b"<html>", GOOD)
    assert fetched(finished, 2).state == State.SUCCEEDED
    assert not KeptAnswer.objects.exists()


def test_an_empty_answer_does_not_take_the_place_of_bytes_that_came_before(provider: Any, finished: Task) -> None:
    provider.answer(RESULT, b'{"score": NaN}', b"")
    assert fetched(finished, 3).state == State.DEAD_LETTER
    assert bytes(KeptAnswer.objects.get().body) == b'{"score": NaN}'


@pytest.mark.parametrize("bad", [rb"\u0000", rb"\ud800", b"\x00"])
def test_nul_and_half_characters_are_replaced_visibly_and_the_bytes_are_kept(
    provider: Any, finished: Task, bad: bytes
) -> None:
    raw = b'\xef\xbb\xbf{"score": 40, "passed": true, "why": "a' + bad + b'b"}'
    provider.answer(RESULT, raw)
    task = fetched(finished)
    assert (task.state, task.result["why"]) == (State.SUCCEEDED, "a\ufffdb")
    assert provider.calls[RESULT] == 1 and bytes(KeptAnswer.objects.get().body) == raw
    step = task.transitions.last()
    assert step.reason == "result_accepted" and "replaced by \ufffd" in step.detail


def test_a_mended_result_that_the_kind_refuses_is_no_reason_to_pay_again(provider: Any, finished: Task) -> None:
    provider.answer(RESULT, rb'{"score": "\u0000"}')
    task = fetched(finished)
    assert (task.state, task.error_code) == (State.DEAD_LETTER, "result_rejected")
    assert KeptAnswer.objects.count() == 1


def test_a_result_that_the_kind_refuses_can_be_looked_at(provider: Any, finished: Task) -> None:
    provider.answer(RESULT, b'{"score":   1000}')
    task = fetched(finished)
    assert (task.state, task.error_code) == (State.RETRYING, "result_rejected")
    assert bytes(KeptAnswer.objects.get().body) == b'{"score":   1000}'


def test_a_result_that_is_too_large_is_told_as_that_and_asked_for_once(
    provider: Any, finished: Task, monkeypatch: Any
) -> None:
    small = functools.partial(client.provider_session, max_body_bytes=1000)
    monkeypatch.setattr(client, "provider_session", small)
    client._configured.clear()
    provider.answer(RESULT, b'{"x": "' + b"y" * 2000 + b'"}')
    task = fetched(finished, 5)
    client._configured.clear()
    assert (task.state, task.error_code, task.attempt_count) == (State.DEAD_LETTER, "result_too_large", 1)
    assert provider.calls[RESULT] == 1 and "1,000 bytes" in task.error_text
    assert task.jobs.count() == 1


@pytest.mark.parametrize("code", sorted(lifecycle.REFETCHED))
def test_a_redrive_fetches_a_result_again_that_is_paid_for(provider: Any, make_task: Any, code: str) -> None:
    task = make_task(State.DEAD_LETTER, job=JobState.SUCCEEDED, job_id="j1", error_code=code)
    provider.answer(RESULT, GOOD)
    assert lifecycle.redrive([task.pk], actor="me", reason="mended") == {task.pk}
    task.refresh_from_db()
    assert (task.state, task.fetch_count, task.redrive_count) == (State.FETCHING, 0, 1)
    assert fetched(task).state == State.SUCCEEDED and task.jobs.count() == 1
    assert drive.path(task)[0] == ("fetching", "redriven")


def test_a_result_asked_for_again_has_its_time_again_before_it_counts_as_lost(provider: Any, make_task: Any) -> None:
    task = make_task(State.DEAD_LETTER, job=JobState.SUCCEEDED, job_id="j1", error_code="result_unreadable")
    ExternalJob.objects.update(finished_at=clock.now() - timedelta(hours=5))
    provider.answer(RESULT, (404, {}, b""), GOOD)
    lifecycle.redrive([task.pk], actor="me", reason="mended")
    task = fetched(task)
    assert (task.state, task.error_code) == (State.FETCHING, "not_there")
    assert fetched(task).state == State.SUCCEEDED and task.jobs.count() == 1


@pytest.mark.parametrize(("code", "job"), [("result_unreadable", JobState.LOST), ("timed_out", JobState.FAILED)])
def test_a_redrive_starts_anew_where_there_is_nothing_to_fetch(make_task: Any, code: str, job: JobState) -> None:
    task = make_task(State.DEAD_LETTER, job=job, job_id="j1", error_code=code)
    lifecycle.redrive([task.pk], actor="me", reason="again", cause=Cause.OPERATOR)
    task.refresh_from_db()
    assert task.state == State.QUEUED


# --- the provider's last word -----------------------------------------------------------------------------------


def test_a_job_that_is_late_says_what_its_provider_said_last(provider: Any, make_task: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    ExternalJob.objects.update(provider_status="aborted", error_text="quota of the day")
    provider.answer("/v1/jobs/j1/cancel", (409, {}, b""))
    assert time_out(clock.now() + timedelta(hours=2)) == 1
    task.refresh_from_db()
    assert task.error_code == "timed_out" and "“aborted”" in task.error_text and "quota of the day" in task.error_text
    assert "“aborted”" in task.jobs.get().error_text


def test_a_late_job_whose_start_was_never_answered_says_so(make_task: Any, sandbox: Any) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    assert time_out(clock.now() + timedelta(hours=2)) == 1
    task.refresh_from_db()
    assert "never said that it has the job" in task.error_text
