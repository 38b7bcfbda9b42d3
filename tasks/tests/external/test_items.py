"""One job of a provider that carries many of our tasks: polled, fetched and cancelled once, answered item by item."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tasks import workers
from tasks.engine.worker_loop import run_streams
from tasks.external import shared_results
from tasks.external.reconcile import reconcile
from tasks.models import ExternalJob, ProviderAccount, Task
from tasks.providers import registry
from tasks.providers.base import (
    ItemFailed,
    JobRef,
    ListedJob,
    NewJob,
    NotThere,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderError,
    ProviderUnavailable,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.states import JobState, JobStatus, State

pytestmark = pytest.mark.django_db
GOOD = {"score": 40, "passed": True}
Item = tuple[str, Result | ProviderError]


class Batched(Provider):
    """A provider of shared jobs, without its HTTP: that is each adapter's own to test."""

    adapter = "batched"
    has_items = True
    result_seconds = 3600.0
    calls: Counter[str] = Counter()
    said = ProviderUpdate("b1", status=JobStatus.RUNNING, raw_status="in_progress", means_all_items=True)
    items: list[Item] = []
    breaks: ProviderError | None = None

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        raise NotImplementedError

    def status(self, job: JobRef) -> ProviderUpdate:
        Batched.calls["status"] += 1
        return replace(self.said, job_id=job.job_id)

    def list_jobs(self, **_asked: Any) -> list[ListedJob]:
        return [ListedJob("", self.status(job)) for job in _asked["jobs"]]

    def result(self, job: JobRef) -> Any:
        raise AssertionError("results of shared jobs are read together")

    def results(self, job: JobRef) -> Iterator[Item]:
        Batched.calls["results"] += 1
        yield from self.items
        if self.breaks is not None:
            raise self.breaks

    def cancel(self, job: JobRef) -> ProviderUpdate:
        Batched.calls["cancel"] += 1
        assert job.item_key == ""
        return ProviderUpdate("b1", status=JobStatus.CANCELLED, raw_status="cancelled", means_all_items=True)

    def parse(self, body: bytes, headers: Any) -> ParsedCallback:
        raise NotImplementedError


@pytest.fixture
def batched(monkeypatch: Any, db: None) -> type[Batched]:
    class Fresh(Batched):
        pass

    monkeypatch.setitem(registry._adapters, "batched", Fresh)
    Batched.calls.clear()
    ProviderAccount.objects.create(name="many", adapter="batched", api_key="k")
    return Fresh


@pytest.fixture
def share(batched: Any, make_task: Any) -> Any:
    def make(number: int, state: State = State.RUNNING) -> list[Task]:
        made = []
        for at in range(number):
            job = JobState.SUBMITTED if state == State.RUNNING else JobState.SUCCEEDED
            task = make_task(state, job=job, job_id=f"x{at}")
            ExternalJob.objects.filter(task=task).update(provider="many", job_id="b1", item_key=f"i{at}")
            if state == State.FETCHING:
                Task.objects.filter(pk=task.pk).update(fetch_account="many", fetch_job="b1")
            made.append(task)
        return made

    return make


def read(now: datetime | None = None) -> None:
    run_streams(workers.fetch_streams(), seconds=0.1, should_stop=lambda: False)


def states() -> dict[str, int]:
    return dict(Counter(Task.objects.values_list("state", flat=True)))


def test_a_shared_job_is_asked_about_once_and_its_word_is_each_items(batched: Any, share: Any, now: Any) -> None:
    share(30)
    reconcile(now)
    assert Batched.calls["status"] == 1
    assert set(ExternalJob.objects.values_list("provider_status", flat=True)) == {"in_progress"}
    batched.said = replace(Batched.said, status=JobStatus.SUCCEEDED, raw_status="completed", happened_at=now)
    assert reconcile(now + timedelta(minutes=1)).changed == 30
    assert Batched.calls["status"] == 2
    assert set(Task.objects.values_list("state", "fetch_account", "fetch_job")) == {("fetching", "many", "b1")}
    assert set(Task.objects.values_list("deadline_at", flat=True)) == {now + timedelta(hours=1)}


def test_results_are_read_once_in_portions_and_spread_to_their_tasks(
    batched: Any, share: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(shared_results, "PORTION_ITEMS", 4)
    share(10, State.FETCHING)
    failed = ItemFailed("The input is refused.", said="content_policy", is_permanent=True)
    batched.items = [("stranger", Result(GOOD)), *((f"i{at}", Result(GOOD)) for at in range(9)), ("i9", failed)]
    read()
    assert Batched.calls["results"] == 1 and states() == {"succeeded": 9, "dead_letter": 1}
    assert Task.objects.get(state=State.DEAD_LETTER).error_code == "content_policy"


def test_a_reading_that_breaks_keeps_what_came_and_reads_again_for_the_others(
    batched: Any, share: Any, now: Any
) -> None:
    share(4, State.FETCHING)
    batched.items = [("i0", Result(GOOD)), ("i1", Result(GOOD))]
    batched.breaks = ProviderUnavailable("cut off")
    read()
    assert states() == {"succeeded": 2, "fetching": 2}
    assert set(Task.objects.filter(state="fetching").values_list("error_code", "lease_token")) == {
        ("provider_unavailable", None)
    }
    batched.breaks, batched.items = None, [(f"i{at}", Result(GOOD)) for at in range(4)]
    Task.objects.filter(state=State.FETCHING).update(next_attempt_at=now)
    read()
    assert states() == {"succeeded": 4} and Batched.calls["results"] == 2


def test_an_item_that_two_readings_did_not_bring_is_missing_and_done_again(batched: Any, share: Any, now: Any) -> None:
    share(2, State.FETCHING)
    batched.items = [("i0", Result(GOOD))]
    read()
    task = Task.objects.get(state=State.FETCHING)
    assert task.error_code == "not_there"
    Task.objects.filter(pk=task.pk).update(next_attempt_at=now)
    read()
    task.refresh_from_db()
    assert (task.state, task.error_code) == (State.RETRYING, "item_missing")


def test_an_item_that_is_too_large_is_its_own_trouble(batched: Any, share: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tasks.external.fetched.bytes_taken", lambda _kind: 20)
    share(2, State.FETCHING)
    batched.items = [("i0", Result(GOOD, b"x" * 21)), ("i1", Result(GOOD, b"x" * 20))]
    read()
    assert states() == {"dead_letter": 1, "succeeded": 1}
    assert Task.objects.get(state=State.DEAD_LETTER).error_code == "result_too_large"


def test_results_that_are_not_there_yet_are_waited_for(batched: Any, share: Any) -> None:
    share(3, State.FETCHING)
    batched.breaks = NotThere("not yet")
    read()
    assert states() == {"fetching": 3} and Batched.calls["results"] == 1


def test_cancelling_one_item_only_marks_it_and_the_last_one_cancels_the_job(batched: Any, share: Any, now: Any) -> None:
    tasks = share(3)
    Task.objects.filter(pk=tasks[0].pk).update(cancel_requested_at=now)
    run_streams(workers.cancel_streams(), seconds=1, should_stop=lambda: False)
    assert Batched.calls["cancel"] == 0 and states() == {"cancelled": 1, "running": 2}
    assert "not used" in tasks[0].jobs.get().error_text
    Task.objects.filter(state=State.RUNNING).update(cancel_requested_at=now)
    run_streams(workers.cancel_streams(), seconds=1, should_stop=lambda: False)
    assert Batched.calls["cancel"] == 1 and states() == {"cancelled": 3}


def test_a_late_item_does_not_stop_the_job_that_others_wait_for(batched: Any, share: Any, now: Any) -> None:
    tasks = share(2)
    Task.objects.filter(pk=tasks[0].pk).update(deadline_at=now - timedelta(seconds=1))
    workers.sweep_once()
    run_streams(workers.cancel_streams(), seconds=1, should_stop=lambda: False)
    assert Batched.calls["cancel"] == 0 and not ExternalJob.objects.filter(stop_at__isnull=False).exists()
    Task.objects.filter(pk=tasks[1].pk).update(deadline_at=now - timedelta(seconds=1))
    workers.sweep_once()
    run_streams(workers.cancel_streams(), seconds=1, should_stop=lambda: False)
    assert Batched.calls["cancel"] == 1
