"""The switch of a kind: what pause and resume change, who pressed it, and that a second press changes nothing."""

from datetime import timedelta

import pytest

from kernel import wakeups
from kernel.models import AuditEntry
from tasks import kinds
from tasks.engine import clock, lifecycle, limits, policies
from tasks.errors import UnknownKind
from tasks.models import KindPolicy
from tasks.states import State

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "provider's window"}


def policy():
    return KindPolicy.objects.get(kind="scoring")


def trail():
    return list(AuditEntry.objects.order_by("id").values_list("verb", "subject", "actor", "reason", "detail"))


def test_a_paused_kind_starts_nothing_and_a_second_press_changes_nothing():
    assert policies.pause_kind("scoring", **WHO)
    paused = policy()
    assert paused.is_paused and limits.room(paused, clock.now()) == 0
    assert not policies.pause_kind("scoring", actor="user:2:bob", reason="me too")
    assert trail() == [("pause", "kind", WHO["actor"], WHO["reason"], {"kind": "scoring"})]


def test_resume_ends_the_pause_and_the_hold_and_wakes_the_workers(django_capture_on_commit_callbacks, monkeypatch):
    woken: list[str] = []
    monkeypatch.setattr(wakeups, "_ring", woken.append)
    policies.pause_kind("scoring", **WHO)
    held = {"held_until": clock.now() + timedelta(hours=1), "hold_reason": "auth", "failure_count": 3}
    KindPolicy.objects.filter(kind="scoring").update(**held)
    with django_capture_on_commit_callbacks(execute=True):
        assert policies.resume_kind("scoring", **WHO)
    free = policy()
    assert (free.is_paused, free.held_until, free.hold_reason, free.failure_count) == (False, None, "", 0)
    assert {"tasks.start", "tasks.run_internal"} <= set(woken)
    assert not policies.resume_kind("scoring", **WHO)
    assert [line[0] for line in trail()] == ["pause", "resume"]


def test_a_hold_alone_is_ended_by_resume():
    kinds.policy_for("scoring")
    KindPolicy.objects.filter(kind="scoring").update(held_until=clock.now() + timedelta(hours=1))
    assert policies.resume_kind("scoring", **WHO)
    assert policy().held_until is None


def test_an_unknown_kind_is_refused_and_makes_no_row():
    with pytest.raises(UnknownKind):
        policies.pause_kind("juggling", **WHO)
    assert not KindPolicy.objects.filter(kind="juggling").exists()


def test_cancel_redrive_and_discard_of_tasks_name_the_rows_they_moved(make_task):
    queued, dead, done = make_task(), make_task(State.DEAD_LETTER), make_task(State.SUCCEEDED)
    ids = [queued.pk, dead.pk, done.pk]
    lifecycle.redrive(ids, **WHO)
    lifecycle.cancel(ids, **WHO)
    lifecycle.discard(ids, **WHO)
    lines = AuditEntry.objects.order_by("id").values_list("verb", "subject", "object_ids", "actor", "reason")
    assert list(lines) == [
        ("redrive", "task", [dead.pk], *WHO.values()),
        ("cancel", "task", [queued.pk, dead.pk], *WHO.values()),
    ]
