"""Unique keys: who holds one, for how long, and what a second task is told."""

from typing import Any

import pytest

from tasks.engine import lifecycle, uniqueness
from tasks.errors import UniqueTaken
from tasks.models import Task
from tasks.states import State
from tasks.submit import submit, submit_batch

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_sandbox")]
SCORE = {"business": {"name": "Bar"}}


def made(key: str = "k", **fields: Any) -> Task:
    return submit("scoring", SCORE, caller="t", unique_key=key, **fields)


def end(task: Task, state: State) -> None:
    Task.objects.filter(pk=task.pk).update(state=state, finished_at=task.created_at)


def test_a_second_task_is_refused_with_the_first_ones_number() -> None:
    first = made()
    with pytest.raises(UniqueTaken) as refused:
        made()
    assert refused.value.errors[0]["task"] == str(first.pk) and str(first.pk) in refused.value.detail
    assert Task.objects.count() == 1


def test_a_key_is_its_kinds_and_its_subscribers() -> None:
    made()
    made(subscriber="acme")
    made("other")
    submit("map_search", {"trade": "bakery", "place": "Oslo"}, caller="t", unique_key="k")
    assert made("").pk and made("").pk
    assert Task.objects.count() == 6


@pytest.mark.parametrize(
    ("held", "state", "is_free"),
    [
        ("open", State.SUCCEEDED, True),
        ("open", State.DEAD_LETTER, True),
        ("succeeded", State.SUCCEEDED, False),
        ("succeeded", State.DEAD_LETTER, True),
        ("ever", State.CANCELLED, False),
        ("ever", State.SUCCEEDED, False),
    ],
)
def test_how_long_a_key_is_held_is_said_when_it_is_taken(held: str, state: State, is_free: bool) -> None:
    end(made(unique_while=held), state)
    if is_free:
        assert made().pk
    else:
        with pytest.raises(UniqueTaken):
            made()


def test_in_a_batch_each_item_is_answered_and_nothing_is_stored() -> None:
    first = made("b")
    items = [{"input": SCORE, "unique_key": key} for key in ("a", "b", "c", "a")]
    with pytest.raises(UniqueTaken) as refused:
        submit_batch("scoring", items, caller="t")
    assert [row["field"] for row in refused.value.errors] == ["tasks.1.unique_key", "tasks.3.unique_key"]
    assert refused.value.errors[0]["task"] == str(first.pk)
    assert Task.objects.count() == 1


def test_somebody_quicker_is_named_too(monkeypatch: Any) -> None:
    """Both looked before either stored: the database decides."""
    first = made()
    real, looks = uniqueness.holders, []

    def blind_at_first(*given: Any) -> Any:
        looks.append(given)
        return {} if len(looks) == 1 else real(*given)

    monkeypatch.setattr(uniqueness, "holders", blind_at_first)
    with pytest.raises(UniqueTaken) as refused:
        made()
    assert refused.value.errors[0]["task"] == str(first.pk) and len(looks) == 2


def test_a_redrive_does_not_take_a_key_from_whoever_holds_it() -> None:
    dead = made()
    end(dead, State.DEAD_LETTER)
    other = made()
    assert lifecycle.redrive([dead.pk], actor="me", reason="") == set()
    dead.refresh_from_db()
    assert dead.state == State.DEAD_LETTER and uniqueness.holder(dead) == other.pk
    end(other, State.SUCCEEDED)
    assert lifecycle.redrive([dead.pk], actor="me", reason="") == {dead.pk}


def test_of_two_dead_letters_of_one_key_one_is_redriven() -> None:
    dead = []
    for _ in range(2):
        dead.append(made())
        end(dead[-1], State.DEAD_LETTER)
    assert lifecycle.redrive([task.pk for task in dead], actor="me", reason="") == {dead[0].pk}
