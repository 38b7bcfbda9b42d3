"""`manage.py unanswered`."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tasks.engine import clock
from tasks.models import ExternalJob, Task
from tasks.states import JobState, State
from tasks.tests.conftest import Sandbox, start_elsewhere

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(sandbox: Sandbox, make_task: Any) -> list[Task]:
    tasks = [make_task(State.RUNNING, job=JobState.SUBMITTING) for _ in range(3)]
    ExternalJob.objects.update(unanswered_at=clock.now(), next_poll_at=None)
    ExternalJob.objects.filter(task=tasks[2]).update(provider="other")
    return tasks


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("unanswered", *words, stdout=out)
    return out.getvalue()


def test_it_lists_them_with_their_tokens(waiting: list[Task]) -> None:
    assert len(run().splitlines()) == 3
    (line,) = run("--account", "other", "--json").splitlines()
    shown = json.loads(line)
    assert (shown["task"], shown["account"]) == (str(waiting[2].pk), "other")
    assert shown["start_token"] == str(waiting[2].jobs.get().start_token)


def test_it_says_so_where_there_is_none(db: None) -> None:
    assert "No start waits" in run()


def test_a_job_is_named(waiting: list[Task]) -> None:
    job_id = start_elsewhere("x")
    assert job_id in run("--task", str(waiting[0].pk), "--job", job_id)
    with pytest.raises(CommandError, match="that of task"):
        run("--task", str(waiting[1].pk), "--job", job_id)


@pytest.mark.parametrize("words", [("--job", "j1"), ("--start-again",), ("--job", "j", "--task", "1", "--task", "2")])
def test_half_a_wish_is_refused_with_what_to_say(waiting: list[Task], words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="--task"):
        run(*words)
    assert set(Task.objects.values_list("state", flat=True)) == {"running"}


def test_those_of_an_account_or_all_are_started_again(waiting: list[Task]) -> None:
    assert "Started again: 1." in run("--start-again", "--account", "other")
    assert "Started again: 2." in run("--start-again", "--all", "--reason", "none is there")
    assert set(Task.objects.values_list("state", flat=True)) == {"retrying"}
