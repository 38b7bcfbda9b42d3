"""An account that hangs holds up its own calls and nobody else's; what it cannot take holds it, and fails no task."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kernel.network.openings import parse_openings
from tasks import workers
from tasks.engine import clock, wake
from tasks.engine.worker_loop import run_streams
from tasks.external import fetching
from tasks.external.reconcile import reconcile
from tasks.models import ExternalJob, ProviderAccount, Task
from tasks.states import JobState, State

pytestmark = pytest.mark.django_db
EACH = 30
JOB = b'{"job_id": "%b", "status": "%b"}'


class World:
    """One server for all accounts; what is below `/hung` answers nothing until it is let go."""

    def __init__(self) -> None:
        self.url = ""
        self.let_go = threading.Event()
        self.hanging = 0
        self.calls: Counter[str] = Counter()
        self.status: dict[str, int] = {}
        self.job_status = b"completed"


@pytest.fixture
def world(settings: Any) -> Iterator[World]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            account = self.path.split("/")[1]
            made.calls[account] += 1
            status = made.status.get(account, 200)
            if account == "hung":
                made.hanging += 1
                made.let_go.wait(20)
                status = 503
            self.send_response(status)
            body = self.body()
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def body(self) -> bytes:
            path, _, query = self.path.partition("?")
            if path.endswith("/result"):
                return b'{"score": 40, "passed": true}'
            if path.endswith("/cancel"):
                return JOB % (path.split("/")[-2].encode(), b"cancelled")
            ids = query.partition("ids=")[2].partition("&")[0].replace("%2C", ",").split(",")
            return b'{"jobs": [%b]}' % b", ".join(JOB % (one.encode(), made.job_status) for one in ids)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    made = World()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    settings.PROVIDER_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    settings.PUBLIC_BASE_URL = ""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    made.let_go.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def tasks_of(world: World, make_task: Any) -> Callable[..., None]:
    def make(account: str, state: State, job: JobState, **fields: Any) -> None:
        ProviderAccount.objects.create(name=account, adapter="sandbox", base_url=f"{world.url}/{account}", api_key="k")
        for number in range(EACH):
            made = make_task(state, job=job, job_id=f"{account}{number}", **fields)
            ExternalJob.objects.filter(task=made).update(provider=account)
            if state == State.FETCHING:
                Task.objects.filter(pk=made.pk).update(fetch_account=account)

    return make


def once_the_others_are_done(world: World, state: State, seen: list[int]) -> Callable[[], bool]:
    """Asked by the loop at each turn: lets the hung account go when all others have got there, and notes its calls."""

    def look() -> bool:
        if not world.let_go.is_set() and Task.objects.filter(state=state).count() == 2 * EACH:
            seen.append(world.hanging)
            world.let_go.set()
        return world.let_go.is_set()

    return look


def poll(look: Callable[[], bool]) -> None:
    reconcile(clock.now(), should_stop=look)


def fetch(look: Callable[[], bool]) -> None:
    run_streams(workers.fetch_streams(), seconds=30, should_stop=look)


def cancel(look: Callable[[], bool]) -> None:
    run_streams(workers.cancel_streams(), seconds=30, should_stop=look)


@pytest.mark.parametrize(
    ("run", "before", "job", "after", "hangs"),
    [
        (poll, State.RUNNING, JobState.SUBMITTED, State.FETCHING, 1),
        (fetch, State.FETCHING, JobState.SUCCEEDED, State.SUCCEEDED, 8),
        (cancel, State.RUNNING, JobState.SUBMITTED, State.CANCELLED, 4),
    ],
)
def test_an_account_that_hangs_keeps_no_other_waiting(
    world: World, tasks_of: Any, now: Any, run: Any, before: State, job: JobState, after: State, hangs: int
) -> None:
    asked = {"cancel_requested_at": now} if run is cancel else {}
    for account in ("hung", "one", "two"):
        tasks_of(account, before, job, **asked)
    seen: list[int] = []
    run(once_the_others_are_done(world, after, seen))
    assert seen and 1 <= seen[0] <= hangs  # its calls were in the air when all others were through
    untouched = Task.objects.filter(state=before, jobs__provider="hung").count()
    assert untouched == EACH


def test_a_round_at_an_account_that_is_down_ends_with_its_first_call(world: World, tasks_of: Any, now: Any) -> None:
    world.let_go.set()
    tasks_of("hung", State.RUNNING, JobState.SUBMITTED)
    report = reconcile(now)
    assert (report.unreachable, world.calls["hung"], report.lost) == ({"hung": "provider_unavailable"}, 1, 0)


@pytest.mark.parametrize("status", [429, 401])
def test_a_poll_that_is_refused_holds_the_account_and_is_not_repeated_before(
    world: World, tasks_of: Any, now: Any, status: int
) -> None:
    world.status["one"] = status
    tasks_of("one", State.RUNNING, JobState.SUBMITTED)
    reconcile(now)
    account = ProviderAccount.objects.get()
    assert account.is_held(now) and account.failure_count == 1
    ExternalJob.objects.update(next_poll_at=now)
    reconcile(now)
    assert world.calls["one"] == 1 and not Task.objects.exclude(state=State.RUNNING).exists()


@pytest.mark.parametrize("status", [429, 401, 403])
def test_a_fetch_that_is_refused_holds_the_account_once_and_counts_against_no_task(
    world: World, tasks_of: Any, now: Any, status: int
) -> None:
    world.status["one"] = status
    tasks_of("one", State.FETCHING, JobState.SUCCEEDED)
    fetches = fetching.claim("one", 8, now)
    fetching.settle([(one, fetching.call(one)) for one in fetches], now)
    assert ProviderAccount.objects.get().failure_count == 1 and fetching.claim("one", 8, now) == []
    assert set(Task.objects.values_list("state", "fetch_count")) == {(State.FETCHING, 0)}


def test_calls_a_minute_are_shared_by_polls_and_fetches(world: World, tasks_of: Any, now: Any) -> None:
    tasks_of("one", State.FETCHING, JobState.SUCCEEDED)
    ProviderAccount.objects.update(calls_per_minute=60)
    assert [len(fetching.claim("one", 8, now)) for _ in range(2)] == [8, 2]
    Task.objects.update(state=State.RUNNING, lease_token=None)
    ExternalJob.objects.update(state=JobState.SUBMITTED, finished_at=None, next_poll_at=now)
    assert reconcile(now).asked == 0 and world.calls["one"] == 0


def test_what_the_provider_forgets_first_is_fetched_first(world: World, tasks_of: Any, now: Any) -> None:
    tasks_of("one", State.FETCHING, JobState.SUCCEEDED)
    first, second, *_ = Task.objects.order_by("-pk")
    Task.objects.filter(pk=first.pk).update(deadline_at=now + timedelta(minutes=1))
    Task.objects.filter(pk=second.pk).update(deadline_at=now + timedelta(minutes=2))
    assert [one.task_id for one in fetching.claim("one", 2, now)] == [first.pk, second.pk]


def test_the_sweep_calls_no_provider_and_wakes_who_does(
    world: World, tasks_of: Any, now: Any, monkeypatch: Any
) -> None:
    tasks_of("hung", State.RUNNING, JobState.SUBMITTED, deadline_at=now - timedelta(seconds=1))
    woken: list[str] = []
    monkeypatch.setattr(wake, "publish", woken.append)
    workers.sweep_once()
    assert world.calls["hung"] == 0 and wake.CANCEL in woken
    assert set(ExternalJob.objects.values_list("state", "stop_tries")) == {("failed", 0)}
    assert ExternalJob.objects.filter(stop_at__isnull=False).count() == EACH


def test_a_late_job_is_asked_to_stop_so_often_and_then_left(world: World, tasks_of: Any, now: Any) -> None:
    world.status["one"] = 500
    tasks_of("one", State.RUNNING, JobState.SUBMITTED, deadline_at=now - timedelta(seconds=1))
    workers.sweep_once()
    for _ in range(7):
        ExternalJob.objects.filter(stop_at__isnull=False).update(stop_at=now)
        run_streams(workers.cancel_streams(), seconds=10, should_stop=lambda: False)
    assert world.calls["one"] == 5 * EACH
    assert set(ExternalJob.objects.values_list("stop_at", "stop_tries")) == {(None, 5)}


def test_a_call_that_hangs_when_the_time_is_up_is_left_in_the_air_and_taken_up_again(
    world: World, tasks_of: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(workers, "BUDGET_SECONDS", 0.2)
    monkeypatch.setattr("tasks.engine.worker_loop.PATIENCE_SECONDS", 0.0)
    tasks_of("hung", State.FETCHING, JobState.SUCCEEDED)
    assert workers._serve("fetch", workers.fetch_streams) == 0
    assert workers._take("fetch")  # so that the worker goes on at once
    tasks_of("one", State.FETCHING, JobState.SUCCEEDED)
    while Task.objects.filter(state=State.SUCCEEDED).count() < EACH:
        workers._serve("fetch", workers.fetch_streams)
    world.let_go.set()
    while workers._left.get("fetch"):
        workers._serve("fetch", workers.fetch_streams)
    workers._take("fetch")
    assert not Task.objects.filter(lease_token__isnull=False).exists()
