"""Operations: a frozen set, chunk by chunk, resumable after a crash, paced, stoppable, an outcome for each row."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from console.models import Operation, OperationItem
from console.operations import engine, plan, verbs
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Delivery, Endpoint
from kernel.api.problems import BadInput, Conflict
from kernel.models import AuditEntry
from tasks.models import Task

pytestmark = pytest.mark.django_db


def dead(count, endpoint=None, **values):
    endpoint = endpoint or make_endpoint()
    return [make_delivery(endpoint, "dead_letter", **values) for _ in range(count)]


def begin(verb="redrive_deliveries", asked=None, **values):
    return plan.create(verb, asked or {"all": True}, actor="user:1:ann", reason="healed", **values)


def run():
    slept = []
    engine.run_due(sleep=slept.append)
    return slept


def states():
    return sorted(Delivery.objects.values_list("state", flat=True))


def test_a_redrive_runs_to_its_end_with_an_outcome_for_each_row():
    rows = dead(3)
    operation = begin()
    run()
    operation.refresh_from_db()
    assert (operation.state, operation.done_count, operation.target_count) == ("completed", 3, 3)
    assert states() == ["pending"] * 3
    assert set(operation.items.values_list("object_id", "outcome")) == {(row.pk, "done") for row in rows}
    assert AuditEntry.objects.get(verb="redrive").object_ids == [row.pk for row in rows]
    entry = AuditEntry.objects.get(subject="operation")
    assert (entry.actor, entry.verb, entry.count, entry.reason) == ("user:1:ann", "redrive_deliveries", 3, "healed")


def test_the_set_is_frozen_when_it_is_created():
    endpoint = make_endpoint()
    dead(2, endpoint)
    operation = begin()
    later = dead(1, endpoint)[0]
    run()
    later.refresh_from_db()
    assert later.state == "dead_letter"
    operation.refresh_from_db()
    assert operation.done_count == 2


def test_a_row_that_changed_meanwhile_is_not_touched():
    first, second = dead(2)
    operation = begin()
    Delivery.objects.filter(pk=first.pk).update(state="cancelled")
    run()
    operation.refresh_from_db()
    assert (operation.state, operation.done_count, operation.skipped_count) == ("completed", 1, 1)
    first.refresh_from_db()
    assert first.state == "cancelled"
    assert dict(operation.items.values_list("object_id", "outcome")) == {first.pk: "skipped", second.pk: "done"}


def test_two_runners_do_not_share_an_operation():
    dead(1)
    operation = begin()
    assert engine._lease(operation.pk) is not None
    assert engine._lease(operation.pk) is None
    assert engine.run_due() == 0


def test_a_runner_that_lost_its_lease_stops():
    dead(1)
    operation = begin()
    zombie = engine._lease(operation.pk)
    Operation.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert engine._lease(operation.pk) is not None
    with pytest.raises(engine.LeaseLost):
        zombie._chunk()
    assert states() == ["dead_letter"]


def test_pause_stops_between_chunks_resume_goes_on_cancel_leaves_the_rest(monkeypatch):
    dead(3)
    monkeypatch.setattr(engine, "CHUNK", 1)
    operation = begin()
    act = verbs._redrive_deliveries

    def pausing(ids, row):
        if not Operation.objects.get(pk=row.pk).done_count:
            plan.pause(Operation.objects.get(pk=row.pk), actor="user:1:ann")
        return act(ids, row)

    monkeypatch.setitem(verbs.VERBS, operation.verb, verbs.BulkVerb(frozenset(), verbs._dead_deliveries, pausing, True))
    run()
    assert states() == ["dead_letter", "dead_letter", "pending"]
    operation.refresh_from_db()
    assert (operation.state, operation.done_count) == ("paused", 1)
    plan.resume(operation, actor="user:1:ann")
    plan.cancel(operation, actor="user:1:ann")
    run()
    assert states() == ["dead_letter", "dead_letter", "pending"]
    with pytest.raises(Conflict):
        plan.resume(operation, actor="user:1:ann")


def test_the_rate_is_kept_by_resting():
    dead(5)
    begin(rate=2)
    slept = run()
    assert len(slept) == 3
    assert sum(slept) == pytest.approx(2.5, abs=0.4)


def test_a_canary_goes_first_and_the_rest_waits_for_it():
    dead(8)
    operation = begin(canary=True)
    run()
    operation.refresh_from_db()
    assert (operation.canary_state, operation.done_count) == ("watching", 5)
    run()
    operation.refresh_from_db()
    assert operation.detail == "The first 5 are out; the rest waits until it is known what became of them."
    Endpoint.objects.update(paused_at=timezone.now())
    run()
    operation.refresh_from_db()
    assert "Held at the moment: partner; resume or enable it" in operation.detail
    assert states() == ["dead_letter"] * 3 + ["pending"] * 5
    Delivery.objects.filter(state="pending").update(state="delivered", finished_at=timezone.now())
    run()
    operation.refresh_from_db()
    assert (operation.canary_state, operation.state, operation.done_count) == ("passed", "completed", 8)


def test_a_canary_that_fails_the_same_way_stops_the_operation_and_a_person_may_overrule():
    dead(8)
    operation = begin(canary=True)
    run()
    canary = Delivery.objects.filter(state="pending").first()
    Delivery.objects.filter(pk=canary.pk).update(state="dead_letter", attempt_count=5, fingerprint="f1")
    run()
    operation.refresh_from_db()
    assert operation.state == "stopped"
    assert "same failure came back for 1 of the first 5" in operation.detail
    assert Delivery.objects.filter(state="dead_letter").count() == 4
    plan.resume(operation, actor="user:1:ann")
    run()
    operation.refresh_from_db()
    assert (operation.state, operation.canary_state) == ("completed", "overruled")


def test_a_canary_that_waits_to_retry_after_the_same_failure_stops_it_too():
    endpoint = make_endpoint()
    failure = verbs.delivery_side.fingerprint(endpoint.pk, "server_error", 500, "HTTP 500")
    dead(6, endpoint, fingerprint=failure)
    operation = begin(canary=True)
    run()
    canary = Delivery.objects.filter(state="pending").first()
    Delivery.objects.filter(pk=canary.pk).update(
        state="failed", attempt_count=1, last_outcome="server_error", last_status_code=500, last_error="HTTP 500"
    )
    run()
    operation.refresh_from_db()
    assert operation.state == "stopped"


def test_a_chunk_that_cannot_be_done_is_an_outcome(monkeypatch):
    dead(2)
    operation = begin()
    broken = verbs.BulkVerb(frozenset(), verbs._dead_deliveries, lambda ids, row: 1 / 0)
    monkeypatch.setitem(verbs.VERBS, operation.verb, broken)
    run()
    operation.refresh_from_db()
    assert (operation.state, operation.failed_count) == ("completed", 2)
    assert "ZeroDivisionError" in operation.items.first().detail


def test_tasks_are_redriven_and_cancelled():
    make_batch(["dead_letter", "dead_letter", "queued"])
    begin("redrive_tasks", {"kind": "map_search", "error_code": "provider_failed"})
    run()
    assert sorted(Task.objects.values_list("state", flat=True)) == ["queued"] * 3
    operation = begin("cancel_tasks", {"kind": "map_search"})
    run()
    operation.refresh_from_db()
    assert operation.done_count == 3
    assert set(Task.objects.values_list("state", flat=True)) == {"cancelled"}


def test_deliveries_are_discarded_and_events_replayed():
    endpoint = make_endpoint()
    dead(2, endpoint)
    begin("discard_deliveries", {"endpoint": endpoint.pk})
    run()
    assert states() == ["cancelled", "cancelled"]
    operation = begin("replay_events", {"endpoint": endpoint.pk, "since": "1h"})
    run()
    operation.refresh_from_db()
    assert (operation.state, operation.target_count, operation.done_count) == ("completed", 2, 2)
    assert Delivery.objects.filter(is_replay=True).count() == 2


@pytest.mark.parametrize(
    ("verb", "asked", "code"),
    [
        ("redrive_deliveries", {}, "empty_filter"),
        ("redrive_deliveries", {"nonsense": 1}, "invalid"),
        ("redrive_deliveries", {"endpoint": "x"}, "invalid"),
        ("redrive_deliveries", {"since": "yesterday"}, "invalid"),
        ("redrive_deliveries", {"since": "2026-01-01T00:00:00"}, "invalid"),
        ("redrive_deliveries", {"ids": []}, "invalid"),
        ("redrive_deliveries", {"all": False}, "invalid"),
        ("redrive_deliveries", {"all": ""}, "invalid"),
        ("redrive_deliveries", {"since": ""}, "invalid"),
        ("redrive_deliveries", {"status_code": ""}, "invalid"),
        ("redrive_deliveries", {"outcome": ""}, "invalid"),
        ("redrive_tasks", {"kind": ""}, "invalid"),
        ("cancel_tasks", {"state": ""}, "invalid"),
        ("cancel_tasks", {"state": "dead_letter"}, "invalid"),
        ("cancel_tasks", {"batch": ""}, "invalid"),
        ("replay_events", {"all": True}, "required"),
        ("replay_events", {"endpoint": "1", "since": "1h", "types": []}, "invalid"),
        ("replay_events", {"endpoint": "1", "since": "1h", "types": [""]}, "invalid"),
    ],
)
def test_a_filter_that_says_nothing_or_nonsense_is_refused(verb, asked, code):
    with pytest.raises(BadInput) as refusal:
        begin(verb, asked) if asked else plan.create(verb, {}, actor="a", reason="r")
    assert code in {error["code"] for error in refusal.value.errors}


def test_relative_times_are_pinned():
    dead(1)
    now = timezone.now()
    operation = begin(asked={"since": "24h"}, now=now)
    assert operation.filter["since"] == (now - timedelta(hours=24)).isoformat()


def test_a_bound_caller_moves_only_the_subscribers_own():
    dead(1, make_endpoint(subscriber="acme"))
    dead(1, make_endpoint(subscriber="other"))
    operation = begin(subscriber="acme")
    run()
    operation.refresh_from_db()
    assert (operation.target_count, operation.done_count) == (1, 1)
    assert Delivery.objects.get(state="dead_letter").endpoint.subscriber == "other"


def test_the_api_previews_creates_once_and_steers(key, bound_key):
    client = Client(headers={"authorization": f"Bearer {key}"})
    dead(2)
    body = {"verb": "redrive_deliveries", "filter": {"all": True}, "reason": "healed"}

    def post(path, data=None, **headers):
        return client.post(f"/api/v1/operations/{path}", data or {}, content_type="application/json", headers=headers)

    seen = post("", {**body, "dry_run": True})
    assert (seen.status_code, seen.json()["target_count"], len(seen.json()["sample_ids"])) == (200, 2, 2)
    assert not Operation.objects.exists()
    first, second = (post("", body, **{"idempotency-key": "k1"}) for _ in range(2))
    assert (first.status_code, second.json()) == (202, first.json())
    assert Operation.objects.count() == 1
    pk = first.json()["id"]
    assert post(f"{pk}/pause/").json()["state"] == "paused"
    assert post(f"{pk}/pause/").status_code == 409
    assert post(f"{pk}/resume/").json()["state"] == "running"
    run()
    assert client.get(f"/api/v1/operations/{pk}/").json()["state"] == "completed"
    items = client.get(f"/api/v1/operations/{pk}/items/").json()["results"]
    assert [item["outcome"] for item in items] == ["done", "done"]
    assert post(f"{pk}/cancel/").status_code == 409
    assert post("", {**body, "verb": "dance"}).status_code == 400
    bound = Client(headers={"authorization": f"Bearer {bound_key}"})
    assert bound.get(f"/api/v1/operations/{pk}/").status_code == 404


def test_a_large_set_goes_in_chunks_with_few_queries(django_assert_max_num_queries):
    dead(40)
    begin()
    with django_assert_max_num_queries(60):
        run()
    assert OperationItem.objects.filter(outcome="done").count() == 40
