"""Unanswered starts in the admin: what the page says, the two buttons, and many from the list."""

from typing import Any

import pytest

from tasks.engine import clock
from tasks.models import ExternalJob, Task
from tasks.states import JobState, State
from tasks.tests.admin.test_pages import VIEW, page, visitor
from tasks.tests.conftest import Sandbox, start_elsewhere

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(sandbox: Sandbox, make_task: Any, settings: Any) -> Task:
    settings.CELERY_BROKER_URL = ""
    task = make_task(State.RUNNING, job=JobState.SUBMITTING, error_code="start_unanswered")
    ExternalJob.objects.update(unanswered_at=clock.now(), next_poll_at=None)
    return task


def address(task: Task, verb: str) -> str:
    return page("tasks_task_change", task.pk).replace("change", verb)


def test_the_page_says_what_to_do_and_has_both_buttons(waiting: Task) -> None:
    shown = visitor(*VIEW, "redrive_task").get(page("tasks_task_change", waiting.pk)).content.decode()
    assert "press “It is this job”" in shown and str(waiting.jobs.get().start_token) in shown
    assert "/adopt/" in shown and "/start-again/" in shown


def test_a_task_whose_start_waits_for_nobody_has_neither(waiting: Task, make_task: Any) -> None:
    other = make_task(State.RUNNING, job=JobState.SUBMITTED, job_id="j1")
    client = visitor(*VIEW, "redrive_task")
    shown = client.get(page("tasks_task_change", other.pk)).content.decode()
    assert "/adopt/" not in shown and "/start-again/" not in shown
    client.post(address(other, "start-again"), {"confirmed": "yes", "reason": "x"})
    assert other.jobs.get().state == JobState.SUBMITTED


@pytest.mark.parametrize("verb", ["adopt", "start-again"])
def test_both_need_the_right_to_redrive(waiting: Task, verb: str) -> None:
    client = visitor(*VIEW)
    assert client.get(address(waiting, verb)).status_code == 403
    assert client.post(address(waiting, verb), {"confirmed": "yes", "reason": "x", "job_id": "j"}).status_code == 403
    assert waiting.jobs.get().state == JobState.SUBMITTING and not waiting.transitions.exists()


def test_it_is_this_job_asks_for_its_id_and_adopts_it(waiting: Task) -> None:
    job_id = start_elsewhere("x")
    client = visitor(*VIEW, "redrive_task")
    assert "Job id" in client.get(address(waiting, "adopt")).content.decode()
    assert client.post(address(waiting, "adopt"), {"confirmed": "yes", "reason": "seen"}).status_code == 200
    assert waiting.jobs.get().job_id == ""
    form = {"confirmed": "yes", "reason": "seen there", "job_id": job_id}
    assert client.post(address(waiting, "adopt"), form).status_code == 302
    assert waiting.jobs.get().job_id == job_id


def test_a_job_that_is_not_there_is_refused_in_words(waiting: Task) -> None:
    form = {"confirmed": "yes", "reason": "seen", "job_id": "nosuch"}
    answer = visitor(*VIEW, "redrive_task").post(address(waiting, "adopt"), form, follow=True)
    assert "knows no job nosuch" in answer.content.decode()
    assert waiting.jobs.get().unanswered_at is not None


def test_start_again_warns_and_does_it(waiting: Task) -> None:
    client = visitor(*VIEW, "redrive_task")
    assert "both are paid for" in client.get(address(waiting, "start-again")).content.decode()
    assert client.post(address(waiting, "start-again"), {"confirmed": "yes", "reason": "looked"}).status_code == 302
    waiting.refresh_from_db()
    assert (waiting.state, waiting.jobs.get().state) == (State.RETRYING, JobState.LOST)


def test_the_list_is_narrowed_to_them_and_starts_many_again_and_no_other(waiting: Task, make_task: Any) -> None:
    others = [make_task(State.RUNNING, job=JobState.SUBMITTED, job_id=f"j{n}") for n in range(2)]
    client = visitor(*VIEW, "redrive_task")
    tasks = page("tasks_task_changelist")
    shown = client.get(tasks, {"start": "unanswered"}).content.decode()
    assert page("tasks_task_change", waiting.pk) in shown
    assert page("tasks_task_change", others[0].pk) not in shown
    ticked = {"action": "start_again_selected", "_selected_action": [waiting.pk, *(task.pk for task in others)]}
    assert "1 task" in client.post(tasks, ticked).content.decode()
    client.post(tasks, {**ticked, "confirmed": "yes", "reason": "looked"})
    assert sorted(Task.objects.values_list("state", flat=True)) == ["retrying", "running", "running"]
    said = client.post(tasks, ticked, follow=True).content.decode()
    assert "No start of these tasks waits for you" in said
