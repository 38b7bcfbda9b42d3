"""Every list, of pages, API and live topics: what its rows carry may be long, so it is not read."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from console.live import snapshots
from console.live.topics import parse
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from kernel.auth import Scope, create_key
from tasks.models import ExternalJob, KeptAnswer
from webhooks.models import InboundEvent, InboundVerdict

BODIES = (
    '"tasks_task"."input"',
    '"tasks_task"."result"',
    '"tasks_keptanswer"."body"',
    '"delivery_event"."payload"',
    '"webhooks_inboundevent"."body"',
    '"webhooks_inboundevent"."headers"',
)
LISTS = ("tasks", "batches", "events", "deliveries", "dead-letters", "dead-letters/groups", "inbound-events")
CHANGELISTS = ("tasks_task", "tasks_batch", "tasks_externaljob", "delivery_event", "delivery_delivery",
               "webhooks_inboundevent")  # fmt: skip
TOPICS = ("tasks", "tasks?state=dead_letter", "deliveries")


@pytest.fixture
def rows(db):
    batch = make_batch(["succeeded", "running", "dead_letter"], finished_by="poll")
    make_delivery(make_endpoint(), "dead_letter")
    for job in ExternalJob.objects.all():
        KeptAnswer.objects.create(job=job, body=b"x", body_bytes=1)
    InboundEvent.objects.create(
        source="s", provider="sandbox", verdict=InboundVerdict.VERIFIED, body=b"{}", correlation_id=batch.correlation_id
    )
    return batch


def read_by(ask):
    with CaptureQueriesContext(connection) as queries:
        ask()
    sql = [query["sql"] for query in queries]
    return [name for name in BODIES if any(_fetches(statement, name) for statement in sql)]


def _fetches(statement, column):
    """Among what is selected; a condition on it sends nothing."""
    return statement.startswith("SELECT") and column in statement.partition(" FROM ")[0]


def asks(rows, admin_client):
    _, token = create_key("all", list(Scope.values))
    api = APIClient()
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    pages = [reverse(f"admin:{name}_changelist") for name in CHANGELISTS]
    pages += [reverse("dead-letters"), reverse("batch", args=[rows.pk]), reverse("journey", args=[rows.correlation_id])]
    yield from ((f"/api/v1/{name}/", api) for name in LISTS)
    yield f"/api/v1/batches/{rows.pk}/tasks/", api
    yield from ((address, admin_client) for address in pages)


def test_no_list_reads_what_its_rows_carry(rows, admin_client):
    found = {}
    for address, client in asks(rows, admin_client):
        found[address] = read_by(lambda client=client, address=address: _ok(client.get(address)))
    for name in (*TOPICS, f"batch:{rows.pk}", f"task:{rows.tasks.first().pk}"):
        found[name] = read_by(lambda name=name: snapshots.read(parse(name)))
    assert len(found) > 18 and {name: read for name, read in found.items() if read} == {}


def _ok(answer):
    assert answer.status_code == 200, answer


def test_one_event_is_read_whole(rows, admin_client):
    """So that the test above can fail."""
    _, token = create_key("all", list(Scope.values))
    client = APIClient(headers={"authorization": f"Bearer {token}"})
    task = rows.tasks.first()
    assert read_by(lambda: _ok(client.get(f"/api/v1/tasks/{task.pk}/"))) == ['"tasks_task"."input"']
