"""Snapshots: whole, small, without payloads, at a fixed number of queries whatever the size."""

import json

import pytest

from console.live import snapshots
from console.live.snapshots import objects
from console.live.topics import parse
from console.models import Operation
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Delivery
from delivery.tests import wire
from tasks.models import Transition

pytestmark = pytest.mark.django_db

SECRETS = ("SECRET-INPUT", "SECRET-RESULT", "SECRET-PAYLOAD", "SECRET-PATH")


def data_of(name):
    return json.loads(snapshots.read(parse(name)).body)


def everything():
    batch = make_batch(["succeeded", "running", "dead_letter"], finished_by="poll")
    endpoint = make_endpoint()
    delivery = make_delivery(endpoint, "dead_letter")
    operation = Operation.objects.create(verb="redrive_tasks", reason="r", actor="a")
    return {
        f"task:{batch.tasks.first().pk}": 4,
        f"batch:{batch.pk}": 7,
        f"delivery:{delivery.pk}": 3,
        f"endpoint:{endpoint.pk}": 5,
        f"operation:{operation.pk}": 2,
        "tasks?state=running": 3,
        "tasks": 10,
        "deliveries": 9,  # one state has no index of its own
        "stats": 35,
        "alerts": 2,
    }


def test_query_counts_are_fixed_and_nothing_secret_is_in_them(django_assert_max_num_queries):
    for name, most in everything().items():
        with django_assert_max_num_queries(most):
            body = snapshots.read(parse(name)).body
        assert not [secret for secret in SECRETS if secret in body], name


def test_a_delivery_tells_nobody_where_a_name_leads_inside():
    """Keys and operators share a snapshot; the page of the delivery has the whole error."""
    inside = "private: shop.example leads to 10.0.0.7, which may not be called."
    blocked = make_delivery(make_endpoint(), "dead_letter")
    Delivery.objects.filter(pk=blocked.pk).update(last_outcome="blocked", last_error=inside)
    assert "10.0.0.7" not in snapshots.read(parse(f"delivery:{blocked.pk}")).body
    assert data_of(f"delivery:{blocked.pk}")["last_error"].startswith("This address may not be called.")
    failed = make_delivery(make_endpoint(), "dead_letter")
    Delivery.objects.filter(pk=failed.pk).update(last_outcome="server_error", last_error="HTTP 500")
    assert data_of(f"delivery:{failed.pk}")["last_error"] == "HTTP 500"


def test_more_rows_cost_no_more_queries():
    def read(batch):
        with wire.counted() as sent:
            data = data_of(f"batch:{batch.pk}")
        return data, sent.statements

    _, few = read(make_batch(["succeeded"] * 2, finished_by="poll"))
    data, many = read(make_batch(["succeeded"] * 60, finished_by="poll"))
    assert many == few <= 7
    assert len(data["changes"]) == 20
    assert len(data_of("tasks")["rows"]) == 50


def test_a_batch_says_who_noticed_its_ends():
    silent = data_of(f"batch:{make_batch(['succeeded'] * 3, finished_by='poll', completed=True).pk}")
    assert silent["notice"].startswith("No webhook arrived for 3 jobs; the poll finished them.")
    assert silent["noticed"] == {"webhook": 0, "poll": 3, "silent": 3}
    assert {change["cause_label"] for change in silent["changes"] if change["to"] == "succeeded"} == {"noticed by poll"}
    told = data_of(f"batch:{make_batch(['succeeded'], completed=True).pk}")
    assert told["notice"] == ""
    assert told["headline"] == "All 1 succeeded"


def test_steps_that_do_not_name_their_batch_yet_are_found_by_its_tasks():
    """Rows of before; those of after are found without a look at the tasks."""
    batch = make_batch(["succeeded"] * 12)
    with wire.counted() as sent:
        steps = data_of(f"batch:{batch.pk}")["changes"]
    Transition.objects.update(batch=None)
    with wire.counted() as more:
        assert data_of(f"batch:{batch.pk}")["changes"] == steps
    assert (len(steps), more.statements - sent.statements) == (20, 2)


def test_counts_stop_at_their_cap_and_say_so(monkeypatch):
    monkeypatch.setattr(objects, "COUNT_CAP", 2)
    endpoint = make_endpoint()
    for state in ("pending", "pending", "failed", "dead_letter", "dead_letter", "dead_letter"):
        make_delivery(endpoint, state)
    data = data_of(f"endpoint:{endpoint.pk}")
    assert (sum(data["counts"].get(state, 0) for state in ("pending", "failed")), data["counts_capped_at"]) == (2, 2)
    assert data["counts"]["dead_letter"] == 2


def test_a_missing_object_is_none_and_versions_grow():
    assert snapshots.read(parse("task:1")) is None
    batch = make_batch(["running"])
    first, second = (snapshots.read(parse(f"batch:{batch.pk}")) for _ in range(2))
    assert second.version > first.version
    assert second.etag == first.etag


def test_the_owner_is_the_subscriber():
    batch = make_batch(["running"], subscriber="acme")
    assert snapshots.read(parse(f"batch:{batch.pk}")).owner == "acme"
    delivery = make_delivery(make_endpoint(subscriber="acme"))
    assert snapshots.read(parse(f"delivery:{delivery.pk}")).owner == "acme"


def test_list_counts_leave_out_the_filters_own_state():
    make_batch(["running", "queued", "queued"])
    assert data_of("tasks")["counts"]["queued"] == 2
    assert data_of("tasks?state=running")["counts"] == {"running": 1}
