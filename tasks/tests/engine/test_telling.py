"""An event of ours that cannot be written keeps nobody back: the row moves on, and says why nobody was told."""

import pytest

from delivery import events
from delivery.models import Event
from delivery.policy import catalogue
from kernel.models import AuditEntry
from tasks.engine import announcements, clock, lifecycle
from tasks.engine.unit_of_work import UnitOfWork
from tasks.engine.worker_loop import Stream
from tasks.models import Task
from tasks.states import Cause, State
from tasks.tests import drive

pytestmark = pytest.mark.django_db


def take_name_of(task: Task, type: str) -> None:
    """Record another event under the uid that this task's end will have."""
    uid = announcements.uids_of(task)[list(announcements.TASK_EVENTS.values()).index(type)]  # it was never redriven
    events.record("order.paid", {"not": "ours"}, subscriber=task.subscriber, uid=uid)


def test_a_task_whose_event_cannot_be_written_ends_all_the_same_and_the_others_are_announced(make_task):
    tasks = [make_task(State.FETCHING, subscriber=f"s{n}") for n in range(3)]
    take_name_of(tasks[1], "task.succeeded")
    with UnitOfWork.opened(cause=Cause.WORKER, now=clock.now()) as unit:
        for task in unit.lock([task.pk for task in tasks]):
            lifecycle.succeed(unit, task, {"score": 1})
    assert drive.states() == {"succeeded": 3}
    assert set(Event.objects.filter(type="task.succeeded").values_list("subscriber", flat=True)) == {"s0", "s2"}
    last = tasks[1].transitions.order_by("-id")[0]
    assert (last.reason, last.to_state) == ("event_not_recorded", "succeeded") and "task.succeeded" in last.detail
    line = AuditEntry.objects.get(verb="event_not_recorded")
    assert (line.subject, line.object_ids, line.reason) == ("task", [tasks[1].pk], "uid_taken")


def test_a_task_whose_event_cannot_be_written_can_be_cancelled(make_task):
    task = make_task(State.FETCHING, subscriber="acme")
    take_name_of(task, "task.cancelled")
    assert lifecycle.cancel([task.pk], actor="me", reason="stuck") == {task.pk: "cancelled"}
    task.refresh_from_db()
    assert task.state == State.CANCELLED


def test_a_batch_whose_event_cannot_be_written_is_complete_all_the_same(make_batch):
    batch = make_batch(State.QUEUED)
    uid = announcements._uid(batch, catalogue.BATCH_COMPLETED, 1)
    events.record("order.paid", {"not": "ours"}, uid=uid)
    lifecycle.cancel_batch(batch.pk, actor="me", reason="")
    batch.refresh_from_db()
    assert batch.is_completed
    assert Event.objects.filter(type="task.cancelled").count() == 1
    assert AuditEntry.objects.get(verb="event_not_recorded").subject == "batch"


def test_the_uid_of_our_events_is_one_that_no_caller_may_use(make_task):
    assert all(events.refused_uid(uid) for uid in announcements.uids_of(make_task()))


def test_one_that_cannot_be_settled_leaves_the_others_settled():
    settled = []

    def settle(pairs, _now):
        if any(work == "bad" for work, _ in pairs):
            raise ValueError("cannot be written")
        settled.extend(work for work, _ in pairs)

    stream = Stream("test", claim=lambda _free, _now: ["a", "bad", "b"], call=lambda work: work, settle=settle)
    stream.fill()
    flying = set(stream.in_air)
    for future in flying:
        future.result()
    assert stream.land(flying) == 3
    stream.close()
    assert sorted(settled) == ["a", "b"]
