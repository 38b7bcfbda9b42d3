"""The verbs on a locked task, one by one: what each writes, what it charges, and what it says in the timeline."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from kernel import wakeups
from tasks.engine import backoff, lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.models import Task
from tasks.states import FINAL_STATES, Cause, State

pytestmark = pytest.mark.django_db
LEASE = {"lease_token": "6f6d0f5e-5c0f-4f4c-9d5c-0a6f3a1d2b3c"}
Verb = Callable[[UnitOfWork, Task], bool]


@pytest.fixture
def woken(monkeypatch: Any) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(wakeups._wakeups, "ring", names.append)
    return names


@pytest.fixture
def late(monkeypatch: Any) -> None:
    """Every jittered wait is as long as it may be."""
    monkeypatch.setattr(backoff._random, "uniform", lambda _least, most: most)


def after(task: Task, verb: Verb, now: datetime) -> Task:
    """The task as stored after the verb has moved it."""
    with UnitOfWork.opened(cause=Cause.WORKER, now=now) as unit:
        (locked,) = unit.lock([task.pk])
        assert verb(unit, locked)
    return Task.objects.get(pk=task.pk)


def told(task: Task) -> tuple[str, str, str, str]:
    step = task.transitions.get()
    return step.from_state, step.to_state, step.reason, step.detail


# --- forward ----------------------------------------------------------------------------------------------------


def test_a_start_charges_an_attempt_and_begins_anew(make_task: Any, now: datetime) -> None:
    task = make_task(State.RETRYING, attempt_count=1, fetch_count=4, progress=70, started_at=now - timedelta(hours=1))
    ends = now + timedelta(minutes=5)
    lease = {**LEASE, "leased_until": ends}
    found = after(task, lambda unit, it: lifecycle.start(unit, it, deadline=ends, detail="At x.", **lease), now)
    assert (found.state, found.attempt_count, found.fetch_count, found.progress) == (State.RUNNING, 2, 0, 0)
    assert (found.started_at, found.deadline_at) == (now - timedelta(hours=1), ends)
    assert (str(found.lease_token), found.leased_until) == (LEASE["lease_token"], ends)
    assert told(found) == ("retrying", "running", "started", "At x.")
    assert found.transitions.get().attempt == 2


def test_the_first_start_is_when_it_started(make_task: Any, now: datetime) -> None:
    found = after(make_task(State.QUEUED), lambda unit, it: lifecycle.start(unit, it, deadline=now), now)
    assert (found.started_at, found.attempt_count) == (now, 1)


def test_what_is_completed_upstream_is_due_for_its_fetch_at_once(
    make_task: Any, now: datetime, woken: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    task = make_task(State.RUNNING, fetch_count=3, next_attempt_at=now + timedelta(hours=1))
    with django_capture_on_commit_callbacks(execute=True):
        found = after(task, lambda unit, it: lifecycle.upstream_completed(unit, it, detail="By poll."), now)
    assert (found.state, found.next_attempt_at, found.fetch_count) == (State.FETCHING, now, 0)
    assert told(found) == ("running", "fetching", "completed", "By poll.")
    assert "tasks.fetch" in woken


def test_a_result_ends_it_and_wipes_old_errors(make_task: Any, now: datetime) -> None:
    task = make_task(State.FETCHING, progress=60, error_code="x", error_text="y")
    found = after(task, lambda unit, it: lifecycle.succeed(unit, it, {"score": 1}), now)
    assert (found.state, found.result, found.progress, found.finished_at) == (State.SUCCEEDED, {"score": 1}, 100, now)
    assert (found.error_code, found.error_text) == ("", "")
    assert told(found)[2] == "result_accepted"


# --- failure ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("late")
def test_a_failed_attempt_is_tried_again_later(make_task: Any, now: datetime) -> None:
    task = make_task(State.RUNNING, attempt_count=2, attempt_limit=3, progress=40)
    found = after(task, lambda unit, it: lifecycle.fail(unit, it, code="c" * 70, text="t" * 3000), now)
    assert (found.state, found.attempt_count, found.progress) == (State.RETRYING, 2, 0)
    assert found.next_attempt_at == now + timedelta(seconds=backoff.before_attempt(2))
    assert (found.error_code, found.error_text) == ("c" * 60, "t" * 2000)
    assert told(found) == ("running", "retrying", "c" * 60, "t" * 2000)


@pytest.mark.parametrize(
    ("attempts", "permanent", "state"),
    [
        (2, False, State.RETRYING),
        (3, False, State.DEAD_LETTER),
        (4, False, State.DEAD_LETTER),
        (1, True, State.DEAD_LETTER),
    ],
)
def test_it_is_a_dead_letter_after_the_last_attempt_or_for_good(
    make_task: Any, now: datetime, attempts: int, permanent: bool, state: State
) -> None:
    task = make_task(State.RUNNING, attempt_count=attempts, attempt_limit=3)
    found = after(task, lambda unit, it: lifecycle.fail(unit, it, code="c", text="t", permanent=permanent), now)
    assert (found.state, found.error_code, found.error_text) == (state, "c", "t")
    assert found.finished_at == (now if state in FINAL_STATES else None)
    assert told(found)[2:] == ("c", "t")


def test_our_own_word_for_a_failure_stands_in_the_timeline_and_the_providers_on_the_task(
    make_task: Any, now: datetime
) -> None:
    fail: Verb = lambda unit, it: lifecycle.fail(unit, it, code="E42", text="t", reason="failed_upstream")  # noqa: E731
    found = after(make_task(State.RUNNING), fail, now)
    assert (found.error_code, told(found)[2]) == ("E42", "failed_upstream")


def test_a_start_that_came_to_nothing_costs_no_attempt(make_task: Any, now: datetime) -> None:
    task = make_task(State.RUNNING, attempt_count=3, attempt_limit=3)
    refuse: Verb = lambda unit, it: lifecycle.not_started(  # noqa: E731
        unit, it, code="c" * 70, text="t" * 3000, wait_seconds=7.0
    )
    found = after(task, refuse, now)
    assert (found.state, found.attempt_count, found.next_attempt_at) == (
        State.RETRYING,
        2,
        now + timedelta(seconds=7),
    )
    assert (found.error_code, found.error_text) == ("c" * 60, "t" * 2000)
    assert told(found)[2:] == ("c" * 60, "t" * 2000)


def test_no_attempt_is_given_back_that_was_never_charged(make_task: Any, now: datetime) -> None:
    refuse: Verb = lambda unit, it: lifecycle.not_started(unit, it, code="c", text="t", wait_seconds=1)  # noqa: E731
    assert after(make_task(State.RUNNING, attempt_count=0), refuse, now).attempt_count == 0


# --- rescue -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [True, False])
def test_a_rescued_task_costs_no_attempt_and_is_counted(make_task: Any, now: datetime, back: bool) -> None:
    task = make_task(State.FETCHING, attempt_count=2, rescue_count=1, next_attempt_at=now + timedelta(hours=1))
    save: Verb = lambda unit, it: lifecycle.rescue(unit, it, detail="Gone.", back_to_retrying=back)  # noqa: E731
    found = after(task, save, now)
    assert (found.state, found.attempt_count) == ((State.RETRYING, 1) if back else (State.FETCHING, 2))
    assert found.rescue_count == 2
    assert (found.next_attempt_at == now) is back
    assert told(found)[2:] == ("rescued", "Gone.")


def test_a_rescue_gives_back_no_attempt_that_was_never_charged(make_task: Any, now: datetime) -> None:
    save: Verb = lambda unit, it: lifecycle.rescue(unit, it, detail="", back_to_retrying=True)  # noqa: E731
    assert after(make_task(State.RUNNING, attempt_count=0), save, now).attempt_count == 0


@pytest.mark.parametrize("back", [True, False])
def test_the_fifth_rescue_in_a_row_is_poison(make_task: Any, now: datetime, back: bool) -> None:
    save: Verb = lambda unit, it: lifecycle.rescue(unit, it, detail="Gone.", back_to_retrying=back)  # noqa: E731
    fourth = after(make_task(State.RUNNING, rescue_count=3), save, now)
    assert (fourth.state in FINAL_STATES, fourth.rescue_count) == (False, 4)
    fifth = after(make_task(State.RUNNING, rescue_count=4), save, now)
    assert (fifth.state, fifth.rescue_count, fifth.error_code) == (State.DEAD_LETTER, 5, "poison")
    assert fifth.error_text == "Gone. That happened 5 times in a row, so it is not tried again by itself."
    assert told(fifth)[2:] == ("poison", "Gone.")


def test_an_adopted_start_goes_on_and_says_why(make_task: Any, now: datetime) -> None:
    found = after(make_task(State.RUNNING, rescue_count=1, attempt_count=1), lifecycle.adopted, now)
    assert (found.state, found.rescue_count, found.attempt_count) == (State.RUNNING, 1, 1)
    assert told(found)[:3] == ("running", "running", "adopted")
    assert "the provider was asked, and has the job" in told(found)[3]


# --- somebody wished it cancelled -------------------------------------------------------------------------------

FAIL: Verb = lambda unit, it: lifecycle.fail(unit, it, code="c", text="why", reason="failed_upstream")  # noqa: E731
NOT_STARTED: Verb = lambda unit, it: lifecycle.not_started(unit, it, code="c", text="why", wait_seconds=1)  # noqa: E731
RESCUE: Verb = lambda unit, it: lifecycle.rescue(unit, it, detail="why", back_to_retrying=True)  # noqa: E731
BY_PROVIDER: Verb = lambda unit, it: lifecycle.cancelled_by_provider(unit, it, text="why")  # noqa: E731


@pytest.mark.parametrize(
    ("verb", "reason"),
    [
        (FAIL, "failed_upstream"),
        (NOT_STARTED, "c"),
        (RESCUE, "rescued"),
        (BY_PROVIDER, "cancelled_by_provider"),
    ],
)
def test_a_wish_to_cancel_is_granted_where_the_attempt_ends(
    make_task: Any, now: datetime, verb: Verb, reason: str
) -> None:
    asked = now - timedelta(minutes=1)
    found = after(make_task(State.RUNNING, cancel_requested_at=asked, rescue_count=4), verb, now)
    assert (found.state, found.cancel_requested_at, found.finished_at) == (State.CANCELLED, asked, now)
    assert told(found) == ("running", "cancelled", reason, "why")


def test_a_wish_to_cancel_does_not_end_what_its_own_lease_still_fetches(make_task: Any, now: datetime) -> None:
    task = make_task(State.FETCHING, cancel_requested_at=now)
    found = after(task, lambda unit, it: lifecycle.rescue(unit, it, detail="Gone."), now)
    assert (found.state, told(found)[2]) == (State.FETCHING, "rescued")


@pytest.mark.parametrize("text", ["Out of credit.", ""])
def test_what_the_provider_cancelled_by_itself_is_an_attempt_that_failed(
    make_task: Any, now: datetime, text: str
) -> None:
    cancel: Verb = lambda unit, it: lifecycle.cancelled_by_provider(unit, it, text=text)  # noqa: E731
    found = after(make_task(State.RUNNING), cancel, now)
    assert (found.state, found.error_code) == (State.RETRYING, "cancelled_by_provider")
    assert found.error_text == (text or "The provider cancelled the job.")
    assert told(found)[3] == found.error_text


# --- verbs that are transactions of their own -------------------------------------------------------------------


def test_scheduled_tasks_are_queued_when_their_time_has_come(
    make_task: Any, now: datetime, woken: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    due = make_task(State.SCHEDULED, next_attempt_at=now)
    early = make_task(State.SCHEDULED, next_attempt_at=now + timedelta(seconds=1))
    waiting = make_task(State.QUEUED)
    with django_capture_on_commit_callbacks(execute=True):
        assert lifecycle.promote_due(now) == 1
    states = dict(Task.objects.values_list("pk", "state"))
    assert states == {due.pk: State.QUEUED, early.pk: State.SCHEDULED, waiting.pk: State.QUEUED}
    step = due.transitions.get()
    assert (step.reason, step.cause) == ("due", Cause.SCHEDULE)
    assert woken == ["tasks.start"]


def test_what_runs_here_wakes_the_workers_that_run_it(
    make_task: Any, now: datetime, woken: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    make_task(State.SCHEDULED, kind="batch_report", next_attempt_at=now)
    with django_capture_on_commit_callbacks(execute=True):
        lifecycle.promote_due(now)
    assert woken == ["tasks.run_internal"]
    dead = make_task(State.DEAD_LETTER, kind="batch_report")
    with django_capture_on_commit_callbacks(execute=True):
        lifecycle.redrive([dead.pk], actor="a", reason="")
    assert woken == ["tasks.run_internal"] * 2


def test_those_due_first_are_queued_first_and_no_more_than_asked_for(make_task: Any, now: datetime) -> None:
    rows = [make_task(State.SCHEDULED, next_attempt_at=now - timedelta(minutes=m)) for m in (1, 3, 2)]
    assert lifecycle.promote_due(now, limit=2) == 2
    assert Task.objects.get(state=State.SCHEDULED).pk == rows[0].pk
    assert [lifecycle.promote_due(now, limit=2), lifecycle.promote_due(now, limit=2)] == [1, 0]


def test_a_wish_to_cancel_is_noted_once_with_its_time(make_task: Any, now: datetime) -> None:
    task = make_task(State.RUNNING)
    for seconds in (0, 60):
        lifecycle.cancel([task.pk], actor="a", reason="", now=now + timedelta(seconds=seconds))
    task.refresh_from_db()
    assert task.cancel_requested_at == now and not task.transitions.exists()


def test_a_cancelled_task_bears_the_time_of_the_wish(make_task: Any, now: datetime) -> None:
    task = make_task(State.QUEUED)
    lifecycle.cancel([task.pk], actor="ada", reason="no need", cause=Cause.OPERATOR, now=now)
    task.refresh_from_db()
    assert (task.cancel_requested_at, task.finished_at) == (now, now)
    step = task.transitions.get()
    assert (step.reason, step.detail, step.cause, step.actor) == ("cancelled", "no need", "operator", "ada")


def test_cancelling_goes_in_parts_and_adds_up(make_batch: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lifecycle, "CHUNK", 2)
    batch = make_batch(*[State.QUEUED] * 5, State.RUNNING, State.SUCCEEDED)
    assert lifecycle.cancel_batch(batch.pk, actor="a", reason="") == {"cancelled": 5, "cancelling": 1}
    assert lifecycle.cancel_batch(batch.pk, actor="a", reason="") == {"cancelling": 1}


def test_a_redriven_task_begins_anew_and_keeps_its_error(make_task: Any, now: datetime) -> None:
    task = make_task(
        State.DEAD_LETTER,
        attempt_count=3,
        redrive_count=1,
        rescue_count=5,
        fetch_count=9,
        progress=50,
        cancel_requested_at=now,
        error_code="E42",
        next_attempt_at=now - timedelta(days=1),
    )
    assert lifecycle.redrive([task.pk], actor="ada", reason="mended", cause=Cause.OPERATOR, now=now) == {task.pk}
    task.refresh_from_db()
    assert (task.state, task.next_attempt_at, task.finished_at) == (State.QUEUED, now, None)
    assert (task.rescue_count, task.fetch_count, task.progress, task.redrive_count) == (0, 0, 0, 2)
    assert (task.cancel_requested_at, task.attempt_count, task.error_code) == (None, 3, "E42")
    step = task.transitions.get()
    assert (step.reason, step.detail, step.cause, step.actor) == ("redriven", "mended", "operator", "ada")


@pytest.mark.parametrize("state", [state for state in State if state != State.DEAD_LETTER])
def test_only_dead_letters_are_redriven_or_discarded(make_task: Any, state: State) -> None:
    task = make_task(state)
    assert lifecycle.redrive([task.pk], actor="a", reason="") == set()
    assert lifecycle.discard([task.pk], actor="a", reason="") == set()
    task.refresh_from_db()
    assert task.state == state and not task.transitions.exists()


def test_a_discarded_dead_letter_says_who_and_why(make_task: Any, now: datetime) -> None:
    task = make_task(State.DEAD_LETTER)
    assert lifecycle.discard([task.pk], actor="ada", reason="old", cause=Cause.OPERATOR, now=now) == {task.pk}
    step = task.transitions.get()
    assert (step.reason, step.detail, step.cause, step.actor) == ("discarded", "old", "operator", "ada")
    task.refresh_from_db()
    assert task.state == State.CANCELLED
