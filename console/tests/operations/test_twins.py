"""Two equal operations at once: each row is counted by whoever moved it, and what was targeted is accounted for."""

import importlib
import threading

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.utils import timezone

from console.models import Operation
from console.operations import engine, plan
from console.tests.conftest import make_delivery, make_endpoint
from delivery.models import Delivery, Endpoint
from kernel.auth import Scope, create_key

WHO = {"actor": "user:1:ann", "reason": "healed"}


def figures(operation):
    operation.refresh_from_db()
    return (operation.target_count, operation.done_count, operation.skipped_count, operation.failed_count)


@pytest.mark.django_db
def test_a_twin_that_comes_second_skips_each_row_and_says_why():
    endpoint = make_endpoint()
    for _ in range(5):
        make_delivery(endpoint, "dead_letter")
    first, second = (plan.create("redrive_deliveries", {"all": True}, **WHO) for _ in range(2))
    engine.run_due()
    assert (figures(first), figures(second)) == ((5, 5, 0, 0), (5, 0, 5, 0))
    assert set(Delivery.objects.values_list("redrive_count", flat=True)) == {1}
    told = set(second.items.values_list("outcome", "detail"))
    assert told == {("skipped", "is no dead letter of a live endpoint any more")}


@pytest.mark.django_db(transaction=True)
def test_twins_that_run_at_the_same_time_share_the_rows_between_them(monkeypatch):
    endpoint = make_endpoint()
    for _ in range(60):
        make_delivery(endpoint, "dead_letter")
    twins = [plan.create("redrive_deliveries", {"all": True}, **WHO) for _ in range(2)]
    monkeypatch.setattr(engine, "CHUNK", 3)
    leased = [engine._lease(twin.pk) for twin in twins]

    def run(runner):
        runner.run(float("inf"), lambda _seconds: None)
        connection.close()

    threads = [threading.Thread(target=run, args=(runner,)) for runner in leased]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    seen = [figures(twin) for twin in twins]
    assert all(target == done + skipped for target, done, skipped, _failed in seen)
    assert sum(done for _, done, _, _ in seen) == 60
    assert set(Delivery.objects.values_list("state", "redrive_count")) == {("pending", 1)}


@pytest.mark.django_db
def test_a_key_bound_to_one_subscriber_that_names_another_is_refused():
    make_delivery(make_endpoint(subscriber="acme"), "dead_letter")
    key = create_key("bound", list(Scope.values), subscriber="acme")[1]
    client = Client(headers={"authorization": f"Bearer {key}"})

    def ask(subscriber, **more):
        body = {"verb": "redrive_deliveries", "filter": {"subscriber": subscriber}, "reason": "r", **more}
        return client.post("/api/v1/operations/", body, content_type="application/json")

    for dry_run in (True, False):
        answer = ask("other", dry_run=dry_run)
        assert (answer.status_code, answer.json()["code"]) == (403, "other_subscriber")
    assert ask("", dry_run=True).status_code == 403
    assert client.get("/api/v1/dead-letters/?subscriber=other").status_code == 403
    assert not Operation.objects.exists()
    assert ask("acme", dry_run=True).json()["target_count"] == 1


@pytest.mark.django_db
def test_dead_letters_of_deleted_endpoints_are_no_target_of_a_redrive_and_the_preview_says_so():
    gone = make_endpoint()
    for endpoint in (gone, gone, make_endpoint()):
        make_delivery(endpoint, "dead_letter")
    Endpoint.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())
    seen = plan.preview("redrive_deliveries", {"all": True}, None, timezone.now())
    words = ["2 dead letters are left out: their endpoints were deleted. They can be discarded, or moved to another "]
    words[0] += "endpoint."
    assert (seen.target_count, seen.warnings) == (1, words)
    operation = plan.create("redrive_deliveries", {"all": True}, **WHO)
    assert operation.detail == words[0]
    assert plan.preview("discard_deliveries", {"all": True}, None, timezone.now()).target_count == 3
    Endpoint.objects.update(deleted_at=timezone.now())  # and the third one's, after the set was frozen
    engine.run_due()
    assert figures(operation) == (1, 0, 1, 0)


@pytest.mark.django_db
def test_an_operation_begun_before_sets_were_written_down_goes_on():
    endpoint = make_endpoint()
    rows = [make_delivery(endpoint, "dead_letter") for _ in range(4)]
    operation = Operation.objects.create(
        verb="redrive_deliveries", filter={"all": True}, watermark=rows[2].pk, cursor=rows[0].pk, target_count=3,
        done_count=1, **WHO
    )  # fmt: skip
    engine.run_due()
    assert figures(operation) == (3, 3, 0, 0)
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["dead_letter"] * 2 + ["pending"] * 2


@pytest.mark.django_db
def test_what_an_older_release_left_planned_is_told_as_failed_when_it_is_upgraded():
    operation = Operation.objects.create(verb="replay_events", filter={}, target_count=3, done_count=1, **WHO)
    for object_id, outcome in ((1, "done"), (2, "planned"), (3, "planned")):
        operation.items.create(object_id=object_id, outcome=outcome)
    migration = importlib.import_module("console.migrations.0005_freeze_operations")
    migration.close_planned_items(apps, None)
    assert figures(operation) == (3, 1, 0, 2)
    assert set(operation.items.values_list("outcome", "detail")) == {("done", ""), ("failed", migration.UNKNOWN)}
