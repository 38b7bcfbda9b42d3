"""The right is asked first: who may not do a thing cannot tell a row or a name that there is from one there is not."""

import json

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from console.models import Alert, Operation
from console.tests.conftest import allow, make_batch, make_delivery, make_endpoint
from kernel.auth import Scope, create_key
from webhooks.models import InboundEvent

BODIES = {  # what a verb needs to get as far as its right
    "/api/v1/endpoints/{id}/settle-dead-letters/": {"dead_letters": "discard"},
}
MISSING = {"kinds": "no_such_kind"}


@pytest.fixture
def rows(db):
    """A row for each collection."""
    now = timezone.now()
    delivery = make_delivery(make_endpoint(), "dead_letter")
    batch = make_batch(["succeeded", "dead_letter"])
    inbound = InboundEvent.objects.create(
        source="scoring/sandbox", provider="sandbox", dedupe_key="k", body=b"{}", verdict="verified"
    )
    operation = Operation.objects.create(verb="discard_deliveries", reason="test", actor="test", state="paused")
    alert = Alert.objects.create(rule="dead_letters", title="t", opened_at=now, last_seen_at=now)
    return {
        "alerts": alert.pk,
        "batches": batch.pk,
        "deliveries": delivery.pk,
        "endpoints": delivery.endpoint_id,
        "events": delivery.event_id,
        "inbound-events": inbound.pk,
        "kinds": "scoring",
        "operations": operation.pk,
        "tasks": batch.tasks.get(state="dead_letter").pk,
    }


def operations():
    """(method, path with its one parameter called id, collection) of each operation that names a row."""
    for path, methods in SchemaGenerator().get_schema(request=None, public=True)["paths"].items():
        before, brace, rest = path.partition("{")
        if brace:
            for method in methods:
                yield method, before + "{id}" + rest.partition("}")[2], before.strip("/").rpartition("/")[2]


@pytest.fixture
def staff(db):
    return get_user_model().objects.create(username="staff", is_staff=True)


def key(scopes):
    return Client(headers={"authorization": f"Bearer {create_key('some', scopes)[1]}"})


def user(staff, permissions):
    client = Client()
    client.force_login(allow(staff, *permissions))
    return client


def told(client, method, path, pk):
    """The status, and the words of a refusal."""
    address, body = path.replace("{id}", str(pk)), json.dumps(BODIES.get(path, {}))
    answer = client.generic(method.upper(), address, body, content_type="application/json")
    return answer.status_code, answer.json()["detail"] if answer.status_code == 403 else ""


def differences(client, rows):
    """What is forbidden where there is a row, and answered otherwise where there is none."""
    found, forbidden = [], 0
    for method, path, collection in operations():
        if method == "get" or told(client, "get", f"/api/v1/{collection}/{{id}}/", rows[collection])[0] != 200:
            known = told(client, method, path, rows[collection])
            if known[0] == 403:
                forbidden += 1
                unknown = told(client, method, path, MISSING.get(collection, 999_999_999))
                found += [(method, path, known, unknown)] if known != unknown else []
    return found, forbidden


def test_every_collection_is_tried(rows):
    assert {collection for _, _, collection in operations()} == set(rows)


@pytest.mark.parametrize("scope", [None, *Scope.values])
def test_a_key_with_one_scope_cannot_tell_what_there_is_beyond_it(rows, scope):
    found, forbidden = differences(key([scope] if scope else []), rows)
    assert (found, forbidden > 10) == ([], True)


@pytest.mark.parametrize("scope", [None, *Scope.values])
def test_a_console_user_with_one_right_cannot_tell_what_there_is_beyond_it(rows, staff, scope):
    found, forbidden = differences(user(staff, [settings.SCOPE_PERMISSIONS[scope]] if scope else []), rows)
    assert (found, forbidden > 10) == ([], True)
