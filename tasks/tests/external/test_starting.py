"""Starting: where a kind may go, what goes with a call, and what a refused account costs."""

import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tasks import kinds, providers, schedules
from tasks.accounts import limits
from tasks.engine import clock
from tasks.errors import NoProvider
from tasks.external import adoption, apply, starting
from tasks.models import Batch, ExternalJob, KindPolicy, ProviderAccount, Schedule, ScheduleRun, Task
from tasks.providers.base import (
    JobRef,
    ListedJob,
    NewJob,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderDenied,
    ProviderUpdate,
    StartedJob,
)
from tasks.providers.registry import _adapters
from tasks.reading import labels
from tasks.states import Cause, JobState, JobStatus, State
from tasks.submit import submit, submit_batch

pytestmark = pytest.mark.django_db
SCORE = {"business": {"name": "Bar"}}


class Choosy(Provider):
    """Starts scoring alone, notes what it was called with, and refuses us where it is told to."""

    adapter = "choosy"
    title = "Choosy"
    kinds = frozenset({"scoring"})
    max_batch = 10
    calls: list[tuple[str, ProviderCall]] = []
    is_denied = False

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        (started,) = self.start_batch(kind, [job], call)
        return started

    def start_batch(self, kind: str, jobs: Sequence[NewJob], call: ProviderCall) -> list[StartedJob]:
        self._let_in()
        self.calls.append((kind, call))
        return [StartedJob(job.reference, f"job_{job.reference}") for job in jobs]

    def status(self, job: JobRef) -> ProviderUpdate:
        raise NotImplementedError

    def list_jobs(self, **_asked: Any) -> list[ListedJob]:
        self._let_in()
        return []

    def result(self, job: JobRef) -> Any:
        raise NotImplementedError

    def cancel(self, job: JobRef) -> ProviderUpdate:
        raise NotImplementedError

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        raise NotImplementedError

    def _let_in(self) -> None:
        if self.is_denied:
            raise ProviderDenied("401 bad key")


@pytest.fixture(autouse=True)
def choosy(db: None, monkeypatch: Any, settings: Any) -> Iterator[ProviderAccount]:
    settings.SANDBOX_PROVIDER_URL = settings.CELERY_BROKER_URL = ""
    monkeypatch.setattr(Choosy, "calls", [])
    providers.register(Choosy)
    yield ProviderAccount.objects.create(name="mine", adapter="choosy", options={"region": "eu", "model": "old"})
    _adapters.pop("choosy")


def points_at(kind: str, account: str, **more: Any) -> None:
    KindPolicy.objects.update_or_create(kind=kind, defaults={"provider": account, **more})


# --- a kind at an account that cannot do it ---------------------------------------------------------------------


@pytest.mark.parametrize("account", ["mine", "nowhere"])
def test_no_way_of_submitting_takes_work_that_nobody_could_carry_out(account: str, tmp_path: Any) -> None:
    points_at("map_search", account)
    search = {"trade": "bakery", "place": "Oslo"}
    words = "does no such work" if account == "mine" else "which there is not"
    with pytest.raises(NoProvider, match=words):
        submit("map_search", search, caller="t")
    with pytest.raises(NoProvider, match=words):
        submit_batch("map_search", [{"input": search}], caller="t")
    file = tmp_path / "searches.csv"
    file.write_text("trade,place\nbakery,Oslo\n")
    with pytest.raises(CommandError, match=words):
        call_command("submit", str(file), "--kind", "map_search", stdout=io.StringIO())
    now = clock.now()
    Schedule.objects.create(name="s", kind="map_search", input=search, every_seconds=60, starts_at=now)
    schedules.tick(now)
    assert words in ScheduleRun.objects.get().reason
    assert not Task.objects.exists() and not Batch.objects.exists()


def test_what_was_submitted_before_waits_and_is_never_offered_to_an_account_that_cannot_do_it(make_task: Any) -> None:
    make_task(State.QUEUED, kind="map_search")
    points_at("map_search", "mine")
    assert starting.claim("map_search", 5, clock.now()) == []
    assert Task.objects.get().state == State.QUEUED and Choosy.calls == []
    assert "does no such work" in labels.why_held(KindPolicy.objects.get(kind="map_search"), clock.now())


def test_a_kind_can_be_set_to_an_account_that_does_it_and_to_no_other() -> None:
    kinds.require_account(kinds.get("scoring"), "mine")
    with pytest.raises(NoProvider, match="Choose another account"):
        kinds.require_account(kinds.get("map_search"), "mine")


# --- what goes with a call --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how_many", [1, 3])
def test_a_start_carries_the_accounts_options_and_over_them_the_kinds(how_many: int) -> None:
    points_at("scoring", "mine", options={"model": "new"})
    submit_batch("scoring", [{"input": SCORE}] * how_many, caller="t")
    (start,) = starting.claim("scoring", 1, clock.now())
    points_at("scoring", "mine", options={"model": "newer"})  # too late for these
    starting.settle(start, starting.call(start), clock.now())
    ((kind, call),) = Choosy.calls
    assert (kind, call.options) == ("scoring", {"region": "eu", "model": "new"})
    jobs = ExternalJob.objects.all()
    assert [job.options for job in jobs] == [{"region": "eu", "model": "new"}] * how_many
    assert {job.state for job in jobs} == {JobState.SUBMITTED}


def test_only_a_start_of_its_own_has_its_reference_in_the_callback(settings: Any, monkeypatch: Any) -> None:
    settings.PUBLIC_BASE_URL = "https://us.test"
    monkeypatch.setattr(Choosy, "carries_reference", True)
    points_at("scoring", "mine")
    submit("scoring", SCORE, caller="t")
    submit_batch("scoring", [{"input": SCORE}] * 2, caller="t")
    starts = starting.claim("scoring", 5, clock.now())
    alone = next(start for start in starts if len(start.jobs) == 1)
    together = next(start for start in starts if len(start.jobs) == 2)
    assert alone.call.webhook_url == f"https://us.test/webhooks/scoring/mine/?ref={alone.jobs[0].reference}"
    assert together.call.webhook_url == "https://us.test/webhooks/scoring/mine/"


# --- an account that is refused ---------------------------------------------------------------------------------


def test_a_refused_account_is_held_and_no_task_of_it_fails(monkeypatch: Any) -> None:
    points_at("scoring", "mine")
    submit_batch("scoring", [{"input": SCORE}] * 3, caller="t")
    monkeypatch.setattr(Choosy, "is_denied", True)
    now = clock.now()
    for round_ in range(4):
        Task.objects.update(next_attempt_at=now)
        ProviderAccount.objects.update(held_until=now)
        (start,) = starting.claim("scoring", 1, now)
        starting.settle(start, starting.call(start), now)
        now += timedelta(minutes=10)
        assert ProviderAccount.objects.get().failure_count == round_ + 1
    assert set(Task.objects.values_list("state", "attempt_count", "error_code")) == {("retrying", 0, "provider_denied")}
    account = ProviderAccount.objects.get()
    assert account.hold_reason == "provider_denied" and not ExternalJob.objects.exists()
    assert account.failing_since < account.held_since
    monkeypatch.setattr(Choosy, "is_denied", False)
    Task.objects.update(next_attempt_at=now)
    ProviderAccount.objects.update(held_until=now)
    (start,) = starting.claim("scoring", 1, now)
    starting.settle(start, starting.call(start), now)
    account.refresh_from_db()
    assert (account.failure_count, account.failing_since, account.hold_reason) == (0, None, "")


def test_asking_for_unanswered_starts_holds_a_refused_account_too_and_is_not_repeated_meanwhile(
    make_task: Any, monkeypatch: Any
) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTING)
    ExternalJob.objects.update(provider="mine")
    monkeypatch.setattr(Choosy, "is_denied", True)
    adoption.adopt(clock.now() + timedelta(seconds=91))
    account = ProviderAccount.objects.get()
    assert (account.hold_reason, account.failure_count) == ("provider_denied", 1)
    task.refresh_from_db()
    assert (task.state, task.jobs.get().state) == (State.RUNNING, JobState.SUBMITTING)


def test_nobody_is_asked_while_too_many_calls_hold_the_account(make_task: Any, monkeypatch: Any) -> None:
    make_task(State.RUNNING, job=JobState.SUBMITTING)
    ExternalJob.objects.update(provider="mine")
    asked: list[Any] = []
    monkeypatch.setattr(Choosy, "list_jobs", lambda self, **said: asked.append(said) or [])
    now = clock.now()
    ProviderAccount.objects.update(held_until=now + timedelta(hours=1), hold_reason="provider_throttled")
    assert limits.take_calls("mine", now, 1) == 0
    adoption.adopt(now + timedelta(seconds=1))
    assert asked == []


# --- failures upstream ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_permanent", "state"), [(True, State.DEAD_LETTER), (False, State.RETRYING)])
def test_a_failure_for_good_is_a_dead_letter_without_another_paid_job(
    make_task: Any, is_permanent: bool, state: State
) -> None:
    task = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    failed = ProviderUpdate(
        "j1",
        status=JobStatus.FAILED,
        raw_status="failed",
        error_code="content_policy",
        error_text="This input is against the rules.",
        is_permanent=is_permanent,
    )
    assert apply(failed, provider="sandbox", cause=Cause.WEBHOOK).status == "applied"
    task.refresh_from_db()
    assert (task.state, task.error_code, task.attempt_count) == (state, "content_policy", 1)
    assert task.error_text == "This input is against the rules." and task.jobs.count() == 1
    step = task.transitions.get()
    assert step.reason == "failed_upstream"
