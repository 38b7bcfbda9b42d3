"""Retention of finished work: rows come and go, nothing open is lost, and no dead letter goes silently."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from tasks import retention
from tasks.models import Batch, ExternalJob, FollowUp, KeptAnswer, Schedule, ScheduleRun, Task, Transition
from tasks.states import FollowUpState, JobState, State
from tasks.tests import drive

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
OPEN = (State.SCHEDULED, State.QUEUED, State.RUNNING, State.FETCHING, State.RETRYING)


@pytest.fixture(autouse=True)
def days(settings: Any) -> None:
    settings.TASK_RETENTION_DAYS = 90
    settings.TASK_DEAD_LETTER_RETENTION_DAYS = 0
    settings.KEPT_ANSWER_RETENTION_DAYS = 30
    settings.SCHEDULE_RUN_RETENTION_DAYS = 90


def pruned(now: datetime, **more: Any) -> tuple[int, int, int]:
    done = retention.prune(now=now, **more)
    assert done.is_done
    return done.tasks, done.batches, done.dead_letters


def whole(task: Task) -> Task:
    """With all that a task can have."""
    job = ExternalJob.objects.create(
        task=task, provider="sandbox", attempt=1, state=JobState.SUCCEEDED, job_id=f"j{task.pk}"
    )
    KeptAnswer.objects.create(job=job, body=b"x", body_bytes=1)
    Transition.of(task, to_state=task.state, cause="api").save()
    return task


def test_a_finished_task_goes_with_all_that_is_its_own(now: datetime, make_task: Callable[..., Task]) -> None:
    task = whole(make_task(State.SUCCEEDED))
    young = whole(make_task(State.CANCELLED, finished_at=now + DAY))
    assert pruned(now + 90 * DAY) == (0, 0, 0)
    assert pruned(now + 90 * DAY + timedelta(seconds=1)) == (1, 0, 0)
    assert list(Task.objects.all()) == [young] and not Transition.objects.filter(task_id=task.pk).exists()
    assert ExternalJob.objects.get().task == young


@pytest.mark.parametrize("state", OPEN)
def test_what_is_open_stays_however_old(now: datetime, make_task: Any, make_batch: Any, state: State) -> None:
    make_task(state)
    make_batch(state, State.SUCCEEDED)
    assert pruned(now + 4000 * DAY) == (0, 0, 0) and Task.objects.count() == 3
    drive.assert_counted()


def test_a_batch_goes_as_a_whole(now: datetime, make_batch: Any) -> None:
    make_batch(State.SUCCEEDED, State.CANCELLED, State.SUCCEEDED)
    assert retention.prune(now=now + 91 * DAY, dry_run=True).tasks == 3 and Task.objects.count() == 3
    assert pruned(now + 91 * DAY) == (3, 1, 0)
    assert not Task.objects.exists() and not Batch.objects.exists()


def test_a_batch_that_a_redrive_opened_meanwhile_stays(now: datetime, make_batch: Any) -> None:
    batch = make_batch(State.SUCCEEDED, State.SUCCEEDED)
    Task.objects.filter(batch=batch, position=0).update(state=State.QUEUED, finished_at=None)
    assert pruned(now + 91 * DAY) == (0, 0, 0)


def test_dead_letters_stay_until_their_own_setting_says_otherwise(
    now: datetime, make_task: Any, make_batch: Any, settings: Any
) -> None:
    make_task(State.DEAD_LETTER)
    make_batch(State.SUCCEEDED, State.DEAD_LETTER)
    assert pruned(now + 4000 * DAY) == (0, 0, 0)
    settings.TASK_DEAD_LETTER_RETENTION_DAYS = 200
    assert pruned(now + 199 * DAY) == (0, 0, 0)
    assert pruned(now + 201 * DAY, spares_dead_letters=True) == (0, 0, 0)
    assert retention.prune(now=now + 201 * DAY, dry_run=True).dead_letters == 2
    assert pruned(now + 201 * DAY) == (3, 1, 2)


def test_nought_keeps_for_good(now: datetime, make_task: Any, make_batch: Any, settings: Any) -> None:
    settings.TASK_RETENTION_DAYS = settings.KEPT_ANSWER_RETENTION_DAYS = settings.SCHEDULE_RUN_RETENTION_DAYS = 0
    whole(make_task(State.SUCCEEDED))
    make_batch(State.SUCCEEDED)
    assert pruned(now + 4000 * DAY) == (0, 0, 0) and KeptAnswer.objects.exists()


@pytest.mark.parametrize(
    ("state", "goes"),
    [(FollowUpState.WAITING, 0), (FollowUpState.REFUSED, 0), (FollowUpState.MADE, 1), (FollowUpState.UNMET, 1)],
)
def test_the_parent_of_what_is_still_to_follow_stays(
    now: datetime, make_task: Any, make_batch: Any, state: FollowUpState, goes: int
) -> None:
    FollowUp.objects.create(parent_batch=make_batch(State.SUCCEEDED), key="then", kind="scoring", state=state)
    FollowUp.objects.create(parent_task=make_task(State.SUCCEEDED), key="then", kind="scoring", state=state)
    assert pruned(now + 91 * DAY) == (2 * goes, goes, 0)
    assert FollowUp.objects.count() == 2 - 2 * goes


def test_a_parent_stays_as_long_as_what_it_made_runs(now: datetime, make_batch: Any) -> None:
    parent, child = make_batch(State.SUCCEEDED), make_batch(State.QUEUED)
    child.follow_up = FollowUp.objects.create(parent_batch=parent, key="then", kind="scoring", state="made")
    child.save()
    assert pruned(now + 91 * DAY) == (0, 0, 0)
    Task.objects.filter(batch=child).update(state=State.SUCCEEDED, finished_at=now + 80 * DAY)
    done = {"is_completed": True, "completed_at": now + 80 * DAY, "counts": {"succeeded": 1}}
    Batch.objects.filter(pk=child.pk).update(**done)
    assert pruned(now + 91 * DAY) == (1, 1, 0)
    child.refresh_from_db()
    assert child.follow_up is None


def test_kept_answers_go_before_their_tasks_but_not_while_somebody_may_look(now: datetime, make_task: Any) -> None:
    whole(make_task(State.SUCCEEDED))
    waiting = whole(make_task(State.DEAD_LETTER))
    done = retention.prune(now=now + 31 * DAY)
    assert (done.kept_answers, done.tasks) == (1, 0)
    assert KeptAnswer.objects.get().job.task == waiting


def test_a_slot_stays_with_its_task_and_the_latest_for_good(now: datetime, make_task: Any) -> None:
    schedule = Schedule.objects.create(name="R", kind="scoring", every_seconds=60, starts_at=now, last_due_at=now)
    task = make_task(State.SUCCEEDED, finished_at=now + 30 * DAY)
    for due, of in ((now, None), (now - DAY, task), (now - 2 * DAY, None)):
        ScheduleRun.objects.create(schedule=schedule, due_at=due, task=of)
    assert retention.prune(now=now + 91 * DAY).schedule_runs == 1
    done = retention.prune(now=now + 121 * DAY)
    assert (done.tasks, done.schedule_runs) == (1, 1)
    assert ScheduleRun.objects.get().due_at == now


def test_rows_come_and_go_and_the_table_does_not_grow(
    now: datetime, make_task: Any, make_batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "CHUNK", 3)
    monkeypatch.setattr(retention, "BATCHES", 2)
    waits = make_batch(State.SUCCEEDED, State.DEAD_LETTER)
    sizes = []
    for week in range(1, 30):
        at = now + 7 * week * DAY
        for _ in range(4):
            make_task(State.SUCCEEDED, finished_at=at)
        batch = make_batch(State.SUCCEEDED, State.CANCELLED)
        Batch.objects.filter(pk=batch.pk).update(completed_at=at)
        retention.prune(now=at)
        sizes.append(Task.objects.count())
    assert sizes[-1] == sizes[15] == max(sizes)
    assert waits.tasks.count() == 2
    drive.assert_counted()


def plan_of(rows: Any) -> str:
    """As for a large table: an empty one tells the planner nothing of what it will be."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        sql, values = rows.query.sql_with_params()
        cursor.execute(f"EXPLAIN {sql}", values)
        return "\n".join(row[0] for row in cursor.fetchall())


def test_what_is_old_is_found_by_an_index(now: datetime) -> None:
    limits = retention._Limits.at(now, spares_dead_letters=False)
    assert "task_ended" in plan_of(retention._old_tasks(limits, State.SUCCEEDED).order_by("finished_at")[:10])
    assert "batch_completed" in plan_of(retention._old_batches(limits).order_by("completed_at", "pk")[:10])
    assert "schedulerun_taskless" in plan_of(retention._old_runs(limits).order_by("created_at")[:10])
