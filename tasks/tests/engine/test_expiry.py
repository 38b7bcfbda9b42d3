"""What is not started by its expiry ends as cancelled, in its batch and for its subscriber too."""

from datetime import timedelta
from typing import Any

import pytest

from delivery.models import Event
from tasks.engine import lifecycle
from tasks.models import Batch, Task
from tasks.states import FINAL_STATES, State
from tasks.tests import drive

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", [State.SCHEDULED, State.QUEUED, State.RETRYING])
def test_what_waits_past_its_expiry_is_cancelled_with_its_reason(make_task: Any, now: Any, state: State) -> None:
    task = make_task(state, expires_at=now)
    assert lifecycle.expire_due(now) == 1 and lifecycle.expire_due(now) == 0
    task.refresh_from_db()
    assert (task.state, task.error_code, task.cancel_requested_at) == (State.CANCELLED, "expired", None)
    assert drive.path(task) == [("cancelled", "expired")]
    assert Event.objects.get().type == "task.cancelled"
    assert b'"expired"' in bytes(Event.objects.get().payload)


@pytest.mark.parametrize("state", [State.RUNNING, State.FETCHING, *FINAL_STATES])
def test_what_has_begun_or_ended_is_left_alone(make_task: Any, now: Any, state: State) -> None:
    task = make_task(state, expires_at=now - timedelta(hours=1))
    assert lifecycle.expire_due(now) == 0
    task.refresh_from_db()
    assert task.state == state and not task.transitions.exists()


def test_the_last_of_a_batch_that_expires_completes_it_once(make_batch: Any, now: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lifecycle, "CHUNK", 2)
    batch = make_batch(State.SUCCEEDED, *[State.QUEUED] * 5, expires_at=now)
    assert lifecycle.expire_due(now) == 5
    batch.refresh_from_db()
    assert batch.counts == {"succeeded": 1, "cancelled": 5}
    assert (batch.is_completed, batch.outcome, batch.revision) == (True, "partly", 1)
    assert Event.objects.filter(type="batch.completed").count() == 1


def test_a_redrive_forgets_the_expiry_of_the_first_life(make_task: Any, now: Any) -> None:
    task = make_task(State.DEAD_LETTER, expires_at=now)
    assert lifecycle.redrive([task.pk], actor="me", reason="") == {task.pk}
    assert lifecycle.expire_due(now + timedelta(hours=1)) == 0
    assert Task.objects.get().state == State.QUEUED and not Batch.objects.exists()


def test_ten_thousand_of_one_moment_are_queued_in_one_sweep(make_task: Any, now: Any) -> None:
    """Few here, many in the bench: what counts is that a full part is followed by the next one at once."""
    rows = [make_task(State.SCHEDULED, next_attempt_at=now) for _ in range(3)]
    assert lifecycle.promote_due(now) == 3
    assert {state for _, state in Task.objects.values_list("pk", "state")} == {State.QUEUED} and len(rows) == 3
