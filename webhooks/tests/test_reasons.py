"""Why a provider's word changed nothing: every reason word, and which comes first where several would be true."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.utils import timezone

from tasks.models import ExternalJob, Task
from tasks.states import FINAL_STATES, JobState, Reason, State
from webhooks.models import InboundEvent

COMPLETED = {"job_id": "j1", "status": "completed"}
FAILED = {"job_id": "j1", "status": "failed"}
PROGRESS = {"job_id": "j1", "status": "processing", "progress": 50}
STRANGE = {"job_id": "j1", "status": "resurrected"}
EVENT = {"type": "account.updated"}


@dataclass(frozen=True)
class World:
    """What stands before the call. `task`: the state of the task that has the job j1; None where nobody has it."""

    task: State | None = None
    is_superseded: bool = False  # the task has a newer job
    has_open_start: bool = False  # another start of this provider has not answered yet
    came_before: bool = False  # the same event has an outcome already
    progress: int = 0


# In the order of the contract. Of each reason first the plain case, then every later reason that is true as well.
TABLE = [
    (Reason.DUPLICATE_EVENT, COMPLETED, World(State.RUNNING, came_before=True)),
    (Reason.DUPLICATE_EVENT, EVENT, World(came_before=True)),
    (Reason.DUPLICATE_EVENT, STRANGE, World(State.RUNNING, came_before=True)),
    (Reason.DUPLICATE_EVENT, COMPLETED, World(came_before=True)),
    (Reason.DUPLICATE_EVENT, COMPLETED, World(came_before=True, has_open_start=True)),
    (Reason.DUPLICATE_EVENT, COMPLETED, World(State.FETCHING, came_before=True, is_superseded=True)),
    (Reason.DUPLICATE_EVENT, COMPLETED, World(State.FETCHING, came_before=True)),
    (Reason.DUPLICATE_EVENT, FAILED, World(State.CANCELLED, came_before=True)),
    (Reason.DUPLICATE_EVENT, FAILED, World(State.RETRYING, came_before=True)),
    (Reason.UNKNOWN_EVENT, EVENT, World(State.RUNNING)),
    (Reason.UNKNOWN_EVENT, EVENT, World(has_open_start=True)),
    (Reason.UNKNOWN_STATUS, STRANGE, World(State.RUNNING)),
    (Reason.UNKNOWN_STATUS, STRANGE, World(has_open_start=True)),
    (Reason.UNKNOWN_STATUS, STRANGE, World()),
    (Reason.UNKNOWN_STATUS, STRANGE, World(State.RUNNING, is_superseded=True)),
    (Reason.UNKNOWN_STATUS, STRANGE, World(State.SUCCEEDED)),
    (Reason.UNKNOWN_STATUS, STRANGE, World(State.RETRYING)),
    (Reason.PARKED, COMPLETED, World(has_open_start=True)),
    (Reason.PARKED, FAILED, World(has_open_start=True)),
    (Reason.PARKED, PROGRESS, World(has_open_start=True)),
    (Reason.TASK_NOT_FOUND, COMPLETED, World()),
    (Reason.TASK_NOT_FOUND, PROGRESS, World()),
    (Reason.SUPERSEDED_JOB, COMPLETED, World(State.RUNNING, is_superseded=True)),
    (Reason.SUPERSEDED_JOB, COMPLETED, World(State.FETCHING, is_superseded=True)),
    (Reason.SUPERSEDED_JOB, COMPLETED, World(State.SUCCEEDED, is_superseded=True)),
    (Reason.SUPERSEDED_JOB, FAILED, World(State.CANCELLED, is_superseded=True)),
    (Reason.SUPERSEDED_JOB, PROGRESS, World(State.RETRYING, is_superseded=True)),
    (Reason.DUPLICATE_COMPLETED, COMPLETED, World(State.FETCHING)),
    (Reason.DUPLICATE_COMPLETED, COMPLETED, World(State.SUCCEEDED)),
    *[(Reason.ALREADY_COMPLETED, FAILED, World(state)) for state in map(State, FINAL_STATES)],
    *[(Reason.ALREADY_COMPLETED, PROGRESS, World(state)) for state in map(State, FINAL_STATES)],
    (Reason.ALREADY_COMPLETED, COMPLETED, World(State.DEAD_LETTER)),
    (Reason.ALREADY_COMPLETED, COMPLETED, World(State.CANCELLED)),
    (Reason.INVALID_TRANSITION, FAILED, World(State.FETCHING)),
    (Reason.INVALID_TRANSITION, PROGRESS, World(State.FETCHING)),
    (Reason.INVALID_TRANSITION, COMPLETED, World(State.RETRYING)),
    (Reason.INVALID_TRANSITION, FAILED, World(State.QUEUED)),
    (Reason.INVALID_TRANSITION, PROGRESS, World(State.RUNNING, progress=51)),
]


@pytest.fixture
def build(running) -> Callable[[World], None]:
    def make(world: World) -> None:
        now = timezone.now()
        if world.task is not None:
            task = running("j1")
            end = now if world.task in FINAL_STATES else None
            Task.objects.filter(pk=task.pk).update(state=world.task, finished_at=end, progress=world.progress)
            if world.is_superseded:
                ExternalJob.objects.update(state=JobState.FAILED, finished_at=now, next_poll_at=None)
                newer = {"job_id": "j2", "attempt": 2, "state": JobState.SUBMITTED, "submitted_at": now}
                ExternalJob.objects.create(task=task, provider="sandbox", **newer)
        if world.has_open_start:
            running("", state=JobState.SUBMITTING)

    return make


def states() -> tuple[list[dict], list[dict]]:
    tasks = list(Task.objects.order_by("pk").values("pk", "state", "progress", "attempt_count", "result"))
    return tasks, list(ExternalJob.objects.order_by("pk").values("pk", "state", "job_id"))


@pytest.mark.parametrize(("reason", "payload", "world"), TABLE)
def test_the_first_reason_that_is_true_is_answered_and_stored(build, post, reason, payload, world):
    build(world)
    if world.came_before:
        post(payload, event_id="msg_1")
    before = states()
    answer = post(payload, event_id="msg_1").json()
    assert (answer["status"], answer["reason"]) == ("accepted" if reason == Reason.PARKED else "ignored", reason)
    assert [row["reason"] for row in answer["results"]] == ([] if payload == EVENT else [reason])
    assert states() == before
    event = InboundEvent.objects.get()
    if reason == Reason.DUPLICATE_EVENT:  # the row keeps what the event did the first time
        assert (event.duplicate_count, event.reason != reason) == (1, True)
    else:
        assert (event.outcome, event.reason) == (answer["status"], reason)


def test_the_table_has_every_reason_word():
    """But for the one of entries among others: alone in its body, such an entry is not parseable."""
    of_single_jobs = [reason for reason in Reason if reason != Reason.UNREADABLE_ENTRY]
    assert list(dict.fromkeys(reason for reason, _, _ in TABLE)) == of_single_jobs


def test_an_event_that_was_stored_and_never_judged_is_no_duplicate(build, post):
    build(World(State.RUNNING))
    post(COMPLETED, event_id="msg_1")
    Task.objects.update(state=State.RUNNING)
    InboundEvent.objects.update(outcome="", results=[], reason="", judged_at=None)
    assert post(COMPLETED, event_id="msg_1").json()["status"] == "accepted"
    assert Task.objects.get().state == State.FETCHING
