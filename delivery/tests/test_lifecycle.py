"""Verbs of people and sweeps on deliveries: whom each moves, what it writes, what it leaves alone, whom it tells."""

import json
import uuid
from datetime import timedelta

import pytest
import structlog
from django.db import OperationalError, connection, connections, transaction
from django.utils import timezone

from delivery import events, lifecycle
from delivery.models import Delivery, Endpoint, Event
from delivery.states import AWAITS_TURN, FINAL_STATES, WAITING_STATES, State
from delivery.tests import factories
from kernel import live_hints, wakeups

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "mended"}


@pytest.fixture
def woken(monkeypatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(wakeups._wakeups, "ring", names.append)
    return names


@pytest.fixture
def told(monkeypatch) -> list[tuple[str, ...]]:
    topics: list[tuple[str, ...]] = []
    monkeypatch.setattr(live_hints._messenger, "add", topics.append)
    return topics


def database_now():
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def one_of_each(endpoint: Endpoint, **values) -> dict[str, Delivery]:
    leased = {"lease_token": uuid.uuid4(), "leased_until": timezone.now() + timedelta(minutes=1)}
    return {
        state: factories.delivery(endpoint, state=state, **(leased if state == State.IN_FLIGHT else {}), **values)
        for state in State.values
    }


def many(count: int) -> Endpoint:
    """An endpoint that so many deliveries wait for."""
    endpoint = factories.endpoint(subscriber="many")
    events.record_many([events.NewEvent("a.b", {}, "many") for _ in range(count)])
    return endpoint


def states_of(deliveries: dict[str, Delivery]) -> dict[str, str]:
    now = dict(Delivery.objects.values_list("pk", "state"))
    return {before: now[delivery.pk] for before, delivery in deliveries.items()}


def logged(lines: list[dict], event: str) -> list[dict]:
    return [line for line in lines if line["event"] == event]


# --- redrive ------------------------------------------------------------------------------------------------------


def test_a_redriven_dead_letter_begins_anew_and_keeps_its_story():
    delivery = factories.delivery(
        factories.endpoint(),
        state="dead_letter",
        attempt_count=5,
        throttle_count=3,
        rescue_count=2,
        redrive_count=1,
        fingerprint="f" * 32,
        last_outcome="timeout",
        last_status_code=504,
        last_error="too slow",
        next_attempt_at=timezone.now() - timedelta(days=1),
    )
    before = database_now()
    assert lifecycle.redrive([delivery.pk], **WHO) == 1
    after = Delivery.objects.get()
    assert (after.state, after.finished_at, after.fingerprint) == ("pending", None, "")
    assert (after.attempt_count, after.throttle_count, after.rescue_count, after.redrive_count) == (0, 0, 0, 2)
    assert before <= after.next_attempt_at <= database_now()
    assert (after.last_outcome, after.last_status_code, after.last_error) == ("timeout", 504, "too slow")
    assert after.event_id == delivery.event_id


def test_only_dead_letters_are_redriven():
    rows = one_of_each(factories.endpoint())
    assert lifecycle.redrive([row.pk for row in rows.values()] + [999_999], **WHO) == 1
    assert states_of(rows) == {**{state: state for state in State.values}, "dead_letter": "pending"}


def test_dead_letters_of_a_deleted_endpoint_stay_as_they_are():
    gone, held = factories.endpoint(deleted_at=timezone.now()), factories.endpoint(disabled_at=timezone.now())
    dead, waits = (factories.delivery(to, state="dead_letter") for to in (gone, held))
    assert lifecycle.redrive([dead.pk, waits.pk], **WHO) == 1
    assert dict(Delivery.objects.values_list("pk", "state")) == {dead.pk: "dead_letter", waits.pk: "pending"}


def test_redriven_deliveries_wake_a_worker_and_nothing_redriven_wakes_nobody(
    woken, told, django_capture_on_commit_callbacks
):
    endpoint = factories.endpoint()
    dead, delivered = factories.delivery(endpoint, state="dead_letter"), factories.delivery(endpoint, state="delivered")
    with django_capture_on_commit_callbacks(execute=True), structlog.testing.capture_logs() as lines:
        lifecycle.redrive([delivered.pk], **WHO)
    assert (woken, told, logged(lines, "deliveries_redrive")) == ([], [], [])
    with django_capture_on_commit_callbacks(execute=True), structlog.testing.capture_logs() as lines:
        lifecycle.redrive([dead.pk, delivered.pk], **WHO)
    assert woken == ["delivery.drain"]
    assert told == [("deliveries", "stats", f"delivery:{dead.pk}")]
    assert logged(lines, "deliveries_redrive") == [
        {"event": "deliveries_redrive", "log_level": "info", "count": 1, "first": dead.pk} | WHO
    ]


def test_of_many_the_first_two_hundred_are_told_one_by_one(told, django_capture_on_commit_callbacks):
    many(201)
    Delivery.objects.update(state="dead_letter", finished_at=factories.NOW)
    ids = list(Delivery.objects.order_by("-pk").values_list("pk", flat=True))
    with django_capture_on_commit_callbacks(execute=True):
        assert lifecycle.redrive(ids, **WHO) == 201
    assert told == [("deliveries", "stats", *[f"delivery:{pk}" for pk in sorted(ids)[:200]])]


# --- discard and cancel -------------------------------------------------------------------------------------------


def test_discard_gives_up_what_is_dead_or_waits_and_nothing_else():
    rows = one_of_each(factories.endpoint(), last_error="as before")
    before = database_now()
    assert lifecycle.discard([row.pk for row in rows.values()], **WHO) == 3
    cancelled = {"dead_letter": "cancelled", **dict.fromkeys(WAITING_STATES, "cancelled")}
    assert states_of(rows) == {**{state: state for state in State.values}, **cancelled}
    for state, row in rows.items():
        row.refresh_from_db()
        assert row.last_error == "as before"
        assert row.cancel_reason == ("mended" if state in cancelled else "")
        assert (row.finished_at is not None and before <= row.finished_at) is (state in cancelled)


def test_a_reason_longer_than_its_column_is_cut():
    row = factories.delivery(factories.endpoint())
    assert lifecycle.discard([row.pk], actor="a", reason="x" * 5_000) == 1
    assert Delivery.objects.get().state == "cancelled"


def test_cancelling_for_an_endpoint_leaves_others_and_what_is_in_flight_or_final():
    mine, other = one_of_each(factories.endpoint()), one_of_each(factories.endpoint())
    assert lifecycle.cancel_for_endpoint(mine["pending"].endpoint_id, **WHO) == 2
    unchanged = {state: state for state in State.values}
    assert states_of(mine) == {**unchanged, **dict.fromkeys(WAITING_STATES, "cancelled")}
    assert states_of(other) == unchanged
    assert lifecycle.cancel_for_endpoint(mine["pending"].endpoint_id, **WHO) == 0


def test_cancelling_goes_in_parts_those_due_first_first():
    endpoint, now = factories.endpoint(), timezone.now()
    rows = [factories.delivery(endpoint, next_attempt_at=now + timedelta(minutes=m)) for m in (3, 1, 2)]
    assert lifecycle.cancel_for_endpoint(endpoint.pk, limit=2, **WHO) == 2
    assert Delivery.objects.get(state="pending").pk == rows[0].pk
    assert lifecycle.cancel_for_endpoint(endpoint.pk, limit=2, **WHO) == 1


def test_unless_told_otherwise_two_thousand_are_cancelled_at_a_time():
    endpoint = many(2_001)
    assert [lifecycle.cancel_for_endpoint(endpoint.pk, **WHO) for _ in range(3)] == [2_000, 1, 0]


def test_who_is_cancelled_out_of_a_keys_way_makes_the_next_due(woken, django_capture_on_commit_callbacks):
    endpoint = factories.endpoint(ordering_key="data.k")
    first = factories.delivery(endpoint, ordering_key="a")
    second, third = (factories.delivery(endpoint, ordering_key="a", next_attempt_at=AWAITS_TURN) for _ in range(2))
    elsewhere = factories.delivery(endpoint, ordering_key="b", next_attempt_at=AWAITS_TURN)
    with django_capture_on_commit_callbacks(execute=True):
        lifecycle.discard([first.pk], **WHO)
    due = dict(Delivery.objects.values_list("pk", "next_attempt_at"))
    assert due[second.pk] <= database_now()
    assert due[third.pk] == due[elsewhere.pk] == AWAITS_TURN
    assert woken == ["delivery.drain"]


def test_ids_may_come_one_by_one():
    endpoint = factories.endpoint(ordering_key="data.k")
    first = factories.delivery(endpoint, ordering_key="a")
    second = factories.delivery(endpoint, ordering_key="a", next_attempt_at=AWAITS_TURN)
    assert lifecycle.discard(iter([first.pk]), **WHO) == 1
    second.refresh_from_db()
    assert second.next_attempt_at <= database_now()


@pytest.mark.django_db(transaction=True)
def test_who_takes_one_out_of_a_keys_way_waits_for_the_endpoints_lock_and_nobody_else_does():
    endpoint = factories.endpoint(ordering_key="data.k")
    ordered, plain = factories.delivery(endpoint, ordering_key="a"), factories.delivery(endpoint)
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:  # a claim or settle of this endpoint is under way
            cursor.execute("SELECT 1 FROM delivery_endpointhealth WHERE endpoint_id = %s FOR UPDATE", [endpoint.pk])
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '200ms'")
            assert lifecycle.discard([plain.pk], **WHO) == 1
        with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
            connection.cursor().execute("SET LOCAL lock_timeout = '200ms'")
            lifecycle.discard([ordered.pk], **WHO)
    finally:
        other.rollback()
        other.close()
    assert dict(Delivery.objects.values_list("pk", "state")) == {plain.pk: "cancelled", ordered.pk: "pending"}


def test_a_cancelled_delivery_without_a_key_wakes_nobody(woken, told, django_capture_on_commit_callbacks):
    row = factories.delivery(factories.endpoint())
    with django_capture_on_commit_callbacks(execute=True), structlog.testing.capture_logs() as lines:
        lifecycle.discard([row.pk], **WHO)
        lifecycle.cancel_for_endpoint(row.endpoint_id, **WHO)
    assert woken == []
    assert told == [("deliveries", "stats", f"delivery:{row.pk}")]
    assert len(logged(lines, "deliveries_discard")) == 1
    assert logged(lines, "deliveries_cancel_for_endpoint") == []


def test_cancelling_for_an_endpoint_is_logged_under_its_own_name():
    row = factories.delivery(factories.endpoint())
    with structlog.testing.capture_logs() as lines:
        lifecycle.cancel_for_endpoint(row.endpoint_id, **WHO)
    (line,) = logged(lines, "deliveries_cancel_for_endpoint")
    assert (line["actor"], line["reason"]) == ("user:1:ada", "mended")


@pytest.mark.parametrize("verb", [lifecycle.redrive, lifecycle.discard])
def test_no_ids_are_no_deliveries(verb):
    factories.delivery(factories.endpoint(), state="dead_letter")
    assert verb([], **WHO) == 0
    assert Delivery.objects.get().state == "dead_letter"


def test_whatever_the_verbs_do_a_final_state_has_an_end_and_no_other_has():
    rows = [row.pk for row in one_of_each(factories.endpoint()).values()]
    lifecycle.redrive(rows, **WHO)
    lifecycle.discard(rows[:3], **WHO)
    for state, finished_at in Delivery.objects.values_list("state", "finished_at"):
        assert (finished_at is not None) is (state in FINAL_STATES)


# --- what policy does to an endpoint ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "word"),
    [(lifecycle.disable_endpoint, "disabled"), (lifecycle.need_attention, "needs_attention")],
)
def test_policys_switch_is_announced_to_the_operators_once(verb, word, told, django_capture_on_commit_callbacks):
    endpoint, other = factories.endpoint(name="Shop", subscriber="acme"), factories.endpoint()
    with django_capture_on_commit_callbacks(execute=True), structlog.testing.capture_logs() as lines:
        assert verb(endpoint.pk, reason="410 Gone")
        assert not verb(endpoint.pk, reason="again")
    after = Endpoint.objects.get(pk=endpoint.pk)
    assert (after.state, after.hold_reason, after.version) == (word, "410 Gone", endpoint.version + 1)
    assert after.updated_at > endpoint.updated_at
    assert Endpoint.objects.get(pk=other.pk).state == "active"
    event = Event.objects.get()
    assert (event.type, event.subscriber) == (f"endpoint.{word}", "")
    assert json.loads(bytes(event.payload))["data"] == {
        "endpoint": str(endpoint.pk),
        "name": "Shop",
        "host": "hooks.example.com",
        "reason": "410 Gone",
        "subscriber": "acme",
    }
    assert [topics for topics in told if topics[0] == f"endpoint:{endpoint.pk}"] == [
        (f"endpoint:{endpoint.pk}", "alerts", "stats")
    ]
    assert [line for line in lines if line["log_level"] == "warning"] == [
        {
            "event": f"endpoint_{word}",
            "log_level": "warning",
            "endpoint": endpoint.pk,
            "host": "hooks.example.com",
            "reason": "410 Gone",
        }
    ]


@pytest.mark.parametrize("verb", [lifecycle.disable_endpoint, lifecycle.need_attention])
def test_policys_long_reason_is_cut_and_its_time_is_the_callers(verb):
    endpoint = factories.endpoint()
    verb(endpoint.pk, reason="x" * 500, now=factories.NOW)
    after = Endpoint.objects.get()
    assert after.hold_reason == "x" * 200
    assert factories.NOW == (after.disabled_at or after.attention_at) == after.updated_at


def test_an_endpoint_that_is_no_more_is_not_announced():
    assert not lifecycle.disable_endpoint(999_999, reason="410 Gone")
    assert not Event.objects.exists()
