"""Follow-ups: when they are made, from what, and what becomes of those that cannot be."""

from typing import Any

import pytest

from delivery.models import Event
from kernel.models import AuditEntry
from tasks import follow_ups, kinds
from tasks.engine import clock, lifecycle
from tasks.engine import follow_ups as notes
from tasks.errors import InvalidInput
from tasks.follow_ups import making
from tasks.kinds import chaining, following, registry
from tasks.models import Batch, FollowUp, Task
from tasks.states import FollowUpState, State
from tasks.submit import submit, submit_batch
from tasks.tests import drive
from tasks.tests.follow_ups.ending import bury, succeed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_sandbox")]
SEARCH = {"trade": "bar", "place": "Oslo"}
EMAILS = [{"kind": "email_generation"}]


def searches(number: int, then: Any = EMAILS) -> tuple[Batch, list[int]]:
    batch = submit_batch("map_search", [{"input": SEARCH}] * number, caller="me", subscriber="acme", then=then)
    return batch, list(batch.tasks.order_by("position").values_list("pk", flat=True))


def state_of(batch: Batch) -> tuple[str, str, list[int]]:
    row = FollowUp.objects.get(parent_batch=batch)
    return row.state, row.reason, [one.total for one in row.batches.order_by("pk")]


def test_it_is_made_in_the_transaction_in_which_its_parent_ends() -> None:
    batch, ids = searches(2)
    succeed(ids[0])
    assert not FollowUp.objects.exists()
    succeed(ids[1])
    assert state_of(batch) == ("made", "", [4])
    child = Batch.objects.get(kind="email_generation")
    assert (child.subscriber, child.correlation_id, child.caller) == ("acme", batch.correlation_id, "me")
    step = child.tasks.earliest("pk").transitions.get()
    assert (step.cause, step.actor) == ("follow_up", f"follow-up of batch {batch.pk}")
    drive.assert_counted()


def test_a_single_task_is_followed_too_and_one_of_a_batch_by_its_batch_alone() -> None:
    task = submit("map_search", SEARCH, caller="me", then=EMAILS)
    succeed(task.pk)
    row = FollowUp.objects.get(parent_task=task)
    assert (row.state, row.batches.get().total) == ("made", 2)
    _, ids = searches(1)
    succeed(*ids)
    assert not FollowUp.objects.filter(parent_task__in=ids).exists()


def test_from_what_succeeded_and_later_from_what_was_redriven_and_from_nothing_twice() -> None:
    batch, ids = searches(3)
    succeed(ids[0])
    bury(ids[1])
    lifecycle.cancel([ids[2]], actor="me", reason="")
    assert state_of(batch) == ("made", "", [2])
    lifecycle.redrive([ids[1]], actor="me", reason="")
    succeed(ids[1])
    assert state_of(batch) == ("made", "", [2, 2])
    sources = {task.reference.partition(".")[0] for task in Task.objects.filter(kind="email_generation")}
    assert sources == {str(ids[0]), str(ids[1])}
    assert Event.objects.filter(type="batch.completed").count() == 2


def test_once_everything_has_succeeded_where_that_is_asked_for() -> None:
    batch, ids = searches(2, [{"kind": "email_generation", "on": "succeeded"}])
    succeed(ids[0])
    bury(ids[1])
    assert state_of(batch) == ("unmet", "not_all_succeeded", [])
    lifecycle.redrive([ids[1]], actor="me", reason="")
    succeed(ids[1])
    assert state_of(batch) == ("made", "", [4])


def test_an_unmet_one_goes_on_without_what_is_dead_when_somebody_says_so() -> None:
    batch, ids = searches(2, [{"kind": "email_generation", "on": "succeeded"}])
    succeed(ids[0])
    bury(ids[1])
    row = FollowUp.objects.get()
    assert follow_ups.redrive([row.pk], actor="me", reason="go on") == [row.pk]
    assert follow_ups.make_due(clock.now()) == 1
    assert state_of(batch) == ("made", "", [2])
    assert follow_ups.redrive([row.pk], actor="me", reason="again") == []
    assert AuditEntry.objects.filter(subject="follow_up").count() == 1


def test_nothing_to_make_is_told_as_that() -> None:
    batch, ids = searches(1)
    lifecycle.cancel(ids, actor="me", reason="")
    assert state_of(batch) == ("empty", "", []) and not Task.objects.filter(kind="email_generation").exists()


def test_a_large_parent_is_left_to_the_worker_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "SMALL_TASKS", 1)
    batch, ids = searches(2)
    succeed(*ids)
    assert state_of(batch) == ("waiting", "", [])
    from tasks import workers

    assert "tasks.follow_up" in workers.due_workers()
    assert follow_ups.make_due(clock.now()) == 1 and state_of(batch) == ("made", "", [4])
    assert "tasks.follow_up" not in workers.due_workers()


@pytest.mark.parametrize(("most", "totals"), [(3, [3, 3, 3, 1]), (4, [4, 4, 2]), (1, [1] * 10), (10, [10])])
def test_more_than_a_batch_holds_become_several_and_nothing_is_lost(
    most: int, totals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "SMALL_TASKS", 0)
    monkeypatch.setattr(making, "MAX_BATCH", most)
    batch, ids = searches(6, [{"kind": "email_generation"}, {"kind": "scoring"}])
    bury(ids[2])
    succeed(*[pk for pk in ids if pk != ids[2]])
    assert follow_ups.make_due(clock.now()) == len(totals)
    assert state_of(batch) == ("made", "", totals)
    row = FollowUp.objects.get()
    assert (row.made_count, row.remaining) == (10, [ids[2]])
    references = list(Task.objects.filter(kind="email_generation").values_list("reference", flat=True))
    assert sorted(references) == sorted(f"{pk}.{number}" for pk in ids if pk != ids[2] for number in (1, 2))


def test_what_is_redriven_while_it_is_made_comes_with_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "SMALL_TASKS", 0)
    monkeypatch.setattr(making, "MAX_BATCH", 2)
    batch, ids = searches(3)
    bury(ids[0])
    succeed(ids[1], ids[2])
    row = FollowUp.objects.get()
    assert making.make_part(row.pk, clock.now()) == 1  # past the dead one by now
    lifecycle.redrive([ids[0]], actor="me", reason="")
    succeed(ids[0])
    assert follow_ups.make_due(clock.now()) == 2
    assert state_of(batch) == ("made", "", [2, 2, 2])


def test_without_a_provider_it_is_kept_with_its_reason_and_made_by_a_redrive(settings: Any) -> None:
    batch, ids = searches(1)
    url, settings.SANDBOX_PROVIDER_URL = settings.SANDBOX_PROVIDER_URL, ""
    succeed(*ids)
    assert state_of(batch) == ("refused", "no_provider", []) and Batch.objects.get(pk=batch.pk).is_completed
    settings.SANDBOX_PROVIDER_URL = url
    follow_ups.redrive(FollowUp.objects.values_list("pk", flat=True), actor="me", reason="")
    follow_ups.make_due(clock.now())
    assert state_of(batch) == ("made", "", [2])


def test_a_kind_that_is_gone_refuses_it_and_lets_its_parent_end(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, ids = searches(1)
    left = {name: kind for name, kind in registry.KINDS.items() if name != "email_generation"}
    monkeypatch.setattr(registry, "KINDS", left)
    succeed(*ids)
    assert state_of(batch) == ("refused", "unknown_kind", []) and Batch.objects.get(pk=batch.pk).is_completed


def test_a_mapping_that_breaks_refuses_it_and_lets_its_parent_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(task: Task) -> Any:
        raise KeyError(task.pk)

    monkeypatch.setitem(chaining.LINKS, ("map_search", "email_generation"), breaks)
    batch, ids = searches(1)
    succeed(*ids)
    assert state_of(batch) == ("refused", "mapping_broke", []) and Batch.objects.get(pk=batch.pk).is_completed


def test_items_that_the_next_kind_does_not_take_keep_no_other_back(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = iter([{"input": {"business": {"name": "Bar"}}}, {"input": {"business": 7}}, {"input": {}}])
    monkeypatch.setitem(chaining.LINKS, ("map_search", "email_generation"), lambda _task: odd)
    batch, ids = searches(1)
    succeed(*ids)
    assert state_of(batch) == ("made", "items_refused", [1])
    row = FollowUp.objects.get()
    assert (row.made_count, row.refused_count) == (1, 2) and row.detail.startswith(f"{ids[0]}.2: business:")


def test_a_report_of_a_whole_batch_is_made_for_each_completion() -> None:
    batch, ids = searches(2, [{"kind": "batch_report"}])
    succeed(ids[0])
    bury(ids[1])
    lifecycle.redrive([ids[1]], actor="me", reason="")
    succeed(ids[1])
    assert state_of(batch) == ("made", "", [1, 1])
    reports = Task.objects.filter(kind="batch_report").values_list("input__batch", flat=True)
    assert list(reports) == [str(batch.pk)] * 2


def test_what_a_kind_declares_follows_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kinds.get("map_search")
    declared = {**vars(kind), "on_succeeded": ("scoring",), "on_completed": ("email_generation",)}
    monkeypatch.setitem(registry.KINDS, "map_search", kinds.Kind(**declared))
    batch, ids = searches(2, None)
    succeed(ids[0])
    bury(ids[1])
    rows = {row.key: row.state for row in FollowUp.objects.filter(parent_batch=batch)}
    assert rows == {"succeeded:scoring": "unmet", "completed:email_generation": "made"}


def test_a_circle_of_kinds_is_told_at_the_start_and_stops_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kinds.get("scoring")
    monkeypatch.setitem(registry.KINDS, "scoring", kinds.Kind(**{**vars(kind), "on_completed": ("scoring",)}))
    monkeypatch.setitem(chaining.LINKS, ("scoring", "scoring"), lambda task: [{"input": task.input}])
    monkeypatch.setattr(making, "MAX_GENERATIONS", 3)
    assert following.circles() == ["scoring"]
    succeed(submit("scoring", {"business": {"name": "Bar"}}, caller="me").pk)
    while ids := Task.objects.filter(kind="scoring", state=State.QUEUED).values_list("pk", flat=True):
        succeed(*ids)
    last = FollowUp.objects.latest("pk")
    assert (last.state, last.reason) == (FollowUpState.REFUSED, "too_deep")
    assert FollowUp.objects.count() == making.MAX_GENERATIONS + 1


@pytest.mark.parametrize(
    ("then", "field", "code"),
    [
        ("scoring", "then", "wrong_type"),
        ([{"kind": "scoring"}] * 11, "then", "too_many"),
        (["scoring"], "then.0", "wrong_type"),
        ([{"kind": "none"}], "then.0.kind", "unknown_kind"),
        ([{"kind": "scoring", "when": "x"}], "then.0.when", "unknown_field"),
        ([{"kind": "scoring", "on": "never"}], "then.0.on", "unknown_word"),
        ([{"kind": "scoring"}, {"kind": "map_search"}], "then.1.kind", "not_linked"),
        ([{"kind": "map_search"}], "then.0.kind", "not_linked"),
    ],
)
def test_steps_that_could_not_follow_are_refused_before_anything_is_stored(then: Any, field: str, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        submit_batch("map_search", [{"input": SEARCH}], caller="me", then=then)
    assert [(row["field"], row["code"]) for row in refused.value.errors] == [(field, code)]
    with pytest.raises(InvalidInput):
        submit("map_search", SEARCH, caller="me", then=then)
    assert not Task.objects.exists() and not Batch.objects.exists()


def test_who_has_no_wishes_pays_no_query(django_assert_num_queries: Any) -> None:
    batch, ids = searches(1, None)
    task = Task.objects.get(pk=ids[0])
    batch.refresh_from_db()
    task.state = State.SUCCEEDED
    now = clock.now()
    with django_assert_num_queries(0):
        assert notes.note([task], [batch], now) is False
