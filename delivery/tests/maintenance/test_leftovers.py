"""What a deleted endpoint leaves behind: kept, discarded or moved, as asked; never lost, never sent twice."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import endpoints, lifecycle
from delivery.endpoint_rules import InvalidEndpoint
from delivery.errors import WrongState
from delivery.maintenance import accounting, leftovers
from delivery.models import Delivery, Endpoint
from delivery.tests import factories
from kernel.models import AuditEntry

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "partner moved"}
Settled = endpoints.Settled


def owed(endpoint, *states, **values):
    return [factories.delivery(endpoint, state=state, **values) for state in states]


def states_at(endpoint):
    return list(Delivery.objects.filter(endpoint=endpoint).order_by("id").values_list("state", flat=True))


@pytest.fixture
def gone():
    return factories.endpoint(subscriber="acme")


@pytest.fixture
def other():
    return factories.endpoint(subscriber="acme", ordering_key="data.n")


def test_dead_letters_are_kept_where_nothing_is_asked(gone):
    owed(gone, "dead_letter", "pending", "delivered")
    assert endpoints.delete(gone, **WHO) == Settled(cancelled=1)
    assert states_at(gone) == ["dead_letter", "cancelled", "delivered"]
    assert leftovers.sweep() == 0
    assert states_at(gone) == ["dead_letter", "cancelled", "delivered"]


def test_discarded_ones_are_given_up_for_good_and_keep_why_they_died(gone):
    dead, _, _ = owed(gone, "dead_letter", "dead_letter", "delivered", last_error="boom")
    assert endpoints.delete(gone, dead_letters="discard", **WHO) == Settled(discarded=2)
    assert states_at(gone) == ["cancelled", "cancelled", "delivered"]
    dead.refresh_from_db()
    assert (dead.last_error, dead.cancel_reason) == ("boom", "partner moved")
    assert AuditEntry.objects.filter(subject="delivery", verb="discard", count=2).exists()


def test_moved_ones_are_owed_to_the_other_endpoint_under_the_same_event_ids(gone, other):
    dead = owed(gone, "dead_letter", "dead_letter")
    owed(gone, "pending")
    done = endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO)
    assert done == Settled(cancelled=1, moved=2)
    assert states_at(gone) == ["cancelled"] * 3
    made = list(Delivery.objects.filter(endpoint=other).order_by("id"))
    assert [(row.event_id, row.state, row.is_replay) for row in made] == [
        (row.event_id, "pending", True) for row in dead
    ]
    assert [row.replay_of_id for row in made] == [row.pk for row in dead]
    assert [row.ordering_key for row in made] == ["1", "1"]  # the other endpoint's own
    assert {row.cancel_reason for row in Delivery.objects.filter(pk__in=[one.pk for one in dead])} == {
        f"moved to endpoint {other.pk}"
    }
    assert all(accounting.account(day).balances for day in {row.created_at.date() for row in made})


@pytest.mark.parametrize(("state", "is_sent"), [
    ("delivered", False), ("pending", False), ("failed", False), ("dead_letter", True), ("cancelled", True),
])  # fmt: skip
def test_what_the_other_endpoint_has_or_waits_for_is_not_sent_to_it_twice(gone, other, state, is_sent):
    (dead,) = owed(gone, "dead_letter")
    factories.delivery(other, dead.event, state=state)
    done = endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO)
    assert done == Settled(moved=int(is_sent), had_already=int(not is_sent))
    assert states_at(other) == [state, *["pending"] * is_sent]
    assert states_at(gone) == ["cancelled"]


def test_two_dead_letters_of_one_event_make_one_delivery(gone, other):
    (dead,) = owed(gone, "dead_letter")
    factories.delivery(gone, dead.event, state="dead_letter", is_replay=True)
    assert endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO) == Settled(moved=1, had_already=1)
    assert states_at(other) == ["pending"]


def test_a_held_endpoint_takes_them_and_holds_them(gone, other):
    owed(gone, "dead_letter")
    endpoints.pause(other, actor="ada", reason="")
    assert endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO).moved == 1


@pytest.mark.parametrize(
    ("asked", "field", "code"),
    [
        ({"dead_letters": "forget"}, "dead_letters", "unknown_choice"),
        ({"dead_letters": ""}, "dead_letters", "unknown_choice"),
        ({"dead_letters": "move"}, "move_to", "required"),
        ({"dead_letters": "discard", "move_to": 1}, "move_to", "not_moved"),
        ({"move_to": 1}, "move_to", "not_moved"),
        ({"dead_letters": "move", "move_to": "self"}, "move_to", "same_endpoint"),
        ({"dead_letters": "move", "move_to": "foreign"}, "move_to", "unknown_endpoint"),
        ({"dead_letters": "move", "move_to": "deleted"}, "move_to", "unknown_endpoint"),
        ({"dead_letters": "move", "move_to": 0}, "move_to", "unknown_endpoint"),
        ({"dead_letters": "move", "move_to": 10**15}, "move_to", "unknown_endpoint"),
    ],
)
def test_where_they_cannot_go_nothing_is_deleted(gone, asked, field, code):
    named = {
        "self": gone.pk,
        "foreign": factories.endpoint(subscriber="other").pk,
        "deleted": factories.endpoint(subscriber="acme", deleted_at=timezone.now()).pk,
    }
    owed(gone, "dead_letter", "pending")
    asked["move_to"] = named.get(asked.get("move_to"), asked.get("move_to"))
    with pytest.raises(InvalidEndpoint) as caught:
        endpoints.delete(gone, **asked, **WHO)
    assert [(row["field"], row["code"]) for row in caught.value.errors] == [(field, code)]
    assert states_at(gone) == ["dead_letter", "pending"]
    assert Endpoint.objects.get(pk=gone.pk).deleted_at is None


@pytest.mark.parametrize("asked", ["discard", "move"])
def test_what_dies_in_the_air_after_the_deletion_is_settled_by_the_sweep(gone, other, asked):
    (flying,) = owed(gone, "delivered")
    endpoints.delete(gone, dead_letters=asked, move_to=other.pk if asked == "move" else None, **WHO)
    Delivery.objects.filter(pk=flying.pk).update(state="dead_letter")
    Endpoint.objects.filter(pk=gone.pk).update(deleted_at=timezone.now() - timedelta(days=30))
    assert leftovers.sweep() == 1
    assert (states_at(gone), states_at(other)) == (["cancelled"], ["pending"] if asked == "move" else [])
    assert leftovers.sweep() == 0


def test_a_deletion_that_has_no_time_leaves_the_rest_to_the_sweep(gone, other, monkeypatch):
    monkeypatch.setattr(leftovers, "CHUNK", 2)
    monkeypatch.setattr(endpoints, "CANCEL_BUDGET_SECONDS", -1.0)
    owed(gone, *["dead_letter"] * 5)
    assert endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO) == Settled(moved=2, is_done=False)
    assert leftovers.sweep() == 3
    assert (states_at(gone), states_at(other)) == (["cancelled"] * 5, ["pending"] * 5)


def test_a_crash_within_a_chunk_neither_loses_nor_doubles(gone, other, monkeypatch):
    owed(gone, "dead_letter", "dead_letter")

    def crash(*_args, **_kwargs):
        raise RuntimeError("the process dies")

    with monkeypatch.context() as patched:
        patched.setattr("delivery.replays.owe", crash)
        with pytest.raises(RuntimeError):
            endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO)
    assert (states_at(gone), states_at(other)) == (["dead_letter"] * 2, [])
    assert Endpoint.objects.get(pk=gone.pk).deleted_at is not None
    assert leftovers.sweep() == 2
    assert (states_at(gone), states_at(other)) == (["cancelled"] * 2, ["pending"] * 2)


def test_where_the_other_endpoint_is_deleted_meanwhile_they_are_kept_and_can_be_settled_later(gone, other):
    endpoints.delete(gone, dead_letters="move", move_to=other.pk, **WHO)
    owed(gone, "dead_letter")
    endpoints.delete(other, **WHO)
    assert leftovers.sweep() == 0
    assert states_at(gone) == ["dead_letter"]
    assert Endpoint.objects.get(pk=gone.pk).dead_letters == "keep"
    third = factories.endpoint(subscriber="acme")
    done = endpoints.settle_dead_letters(gone, dead_letters="move", move_to=third.pk, **WHO)
    assert done == Settled(moved=1)
    assert states_at(third) == ["pending"]


def test_only_a_deleted_endpoints_dead_letters_are_settled(gone):
    owed(gone, "dead_letter")
    with pytest.raises(WrongState, match="not deleted"):
        endpoints.settle_dead_letters(gone, dead_letters="discard", **WHO)
    assert states_at(gone) == ["dead_letter"]


def test_a_redrive_at_the_same_moment_finds_nothing(gone):
    (dead,) = owed(gone, "dead_letter")
    endpoints.delete(gone, dead_letters="discard", **WHO)
    assert lifecycle.redrive([dead.pk], actor="ada", reason="") == 0
    assert states_at(gone) == ["cancelled"]
