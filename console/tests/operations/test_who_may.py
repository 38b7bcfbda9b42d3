"""What somebody may not do to one row they may not do to thousands; and a filter is never rounded into another."""

import pytest
from django.test import Client
from django.utils import timezone

from console.models import Alert, Operation
from console.operations import verbs
from console.tests.conftest import allow, make_delivery, make_endpoint

pytestmark = pytest.mark.django_db
ASKED = {"filter": {"all": True}, "reason": "x", "dry_run": True}


def visitor(user):
    client = Client()
    client.force_login(user)
    return client


def ask(client, verb, asked=None):
    return client.post("/api/v1/operations/", {**ASKED, **(asked or {}), "verb": verb}, content_type="application/json")


def test_every_verb_names_the_permission_of_its_single_form():
    assert {name: verb.permission for name, verb in verbs.VERBS.items()} == {
        "redrive_deliveries": "delivery.redrive_delivery",
        "discard_deliveries": "delivery.discard_delivery",
        "replay_events": "delivery.change_endpoint",
        "redrive_tasks": "tasks.redrive_task",
        "cancel_tasks": "tasks.cancel_task",
    }


def test_adding_operations_alone_discards_nothing_by_api_or_page(staff):
    make_delivery(make_endpoint(), "dead_letter")
    client = visitor(allow(staff, "console.add_operation", "delivery.redrive_delivery"))
    assert ask(client, "redrive_deliveries").status_code == 200
    assert ask(client, "discard_deliveries").status_code == 403
    form = {"verb": "discard_deliveries", "fingerprint": "x", "reason": "x"}
    assert client.post("/operations/new/", form).status_code == 403
    assert not Operation.objects.exists()


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_steering_asks_for_what_the_operation_does(staff, verb):
    state = "paused" if verb == "resume" else "running"
    row = Operation.objects.create(verb="discard_deliveries", filter={"all": True}, reason="x", actor="x", state=state)
    user = allow(staff, "console.add_operation", "console.view_operation", "delivery.redrive_delivery")
    client = visitor(user)
    assert client.post(f"/api/v1/operations/{row.pk}/{verb}/").status_code == 403
    assert client.post(f"/operations/{row.pk}/steer/", {"verb": verb}).status_code == 403
    assert f'value="{verb}"' not in client.get(f"/operations/{row.pk}/").content.decode()
    row.refresh_from_db()
    assert row.state == state
    client = visitor(allow(user, "delivery.discard_delivery"))
    assert f'value="{verb}"' in client.get(f"/operations/{row.pk}/").content.decode()
    assert client.post(f"/operations/{row.pk}/steer/", {"verb": verb}).status_code == 302
    row.refresh_from_db()
    assert row.state != state


def test_a_bound_key_that_names_another_subscriber_is_refused(bound_key):
    client = Client(headers={"authorization": f"Bearer {bound_key}"})
    for verb in ("discard_deliveries", "redrive_deliveries", "redrive_tasks", "cancel_tasks"):
        answer = ask(client, verb, {"filter": {"subscriber": "alice"}})
        assert (answer.status_code, answer.json()["code"]) == (403, "other_subscriber")
    answer = ask(client, "discard_deliveries", {"filter": {"subscriber": "acme"}})
    assert answer.status_code == 200


def test_the_page_shows_only_the_buttons_that_work(staff):
    make_delivery(make_endpoint(), "dead_letter")
    user = allow(staff, "console.add_operation", "delivery.view_delivery", "delivery.redrive_delivery")
    text = visitor(user).get("/dead-letters/").content.decode()
    assert 'value="redrive_deliveries"' in text
    assert 'value="discard_deliveries"' not in text
    text = visitor(allow(user, "delivery.discard_delivery")).get("/dead-letters/").content.decode()
    assert 'value="discard_deliveries"' in text


def test_an_alert_is_settled_by_those_who_may_change_alerts(staff):
    now = timezone.now()
    alert = Alert.objects.create(rule="r", title="t", opened_at=now, last_seen_at=now)
    path = f"/api/v1/alerts/{alert.pk}/resolve/"
    client = visitor(allow(staff, "console.add_operation", "delivery.view_delivery"))
    assert client.post(path, {}, content_type="application/json").status_code == 403
    client = visitor(allow(staff, "console.change_alert"))
    assert client.post(path, {}, content_type="application/json").status_code == 200


@pytest.mark.parametrize("value", [1.5, True, None, [1], "1.5", "x", "٣", -1, 2**63, "9" * 20])
@pytest.mark.parametrize("name", ["endpoint", "ids"])
def test_a_number_in_a_filter_is_whole_or_refused(operator, name, value):
    asked = {"filter": {name: [value] if name == "ids" else value}}
    answer = ask(visitor(operator), "redrive_deliveries", asked)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, f"filter.{name}")


def test_ids_may_be_written_as_the_api_writes_them(operator):
    assert ask(visitor(operator), "redrive_deliveries", {"filter": {"ids": ["7", 8]}}).json()["filter"] == {
        "ids": [7, 8]
    }


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ("2026-01-31T12:00:00+23:00", 200),
        ("0001-01-01T00:00:00+23:00", 400),
        ("9999-12-31T23:59:59-23:00", 400),
        ("2026-01-31T12:00:00", 400),
    ],
)
def test_a_time_in_a_filter_is_pinned_in_utc(operator, since, status):
    answer = ask(visitor(operator), "redrive_deliveries", {"filter": {"since": since}})
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["filter"] == {"since": "2026-01-30T13:00:00+00:00"}


@pytest.mark.parametrize(
    "path", ["tasks/?created_after", "deliveries/?created_before", "inbound-events/?received_after"]
)
def test_a_time_that_the_database_cannot_compare_is_a_400(operator, path):
    answer = visitor(operator).get(f"/api/v1/{path}=9999-12-31T23:59:59-23:00")
    assert (answer.status_code, answer.json()["code"]) == (400, "value_out_of_range")


@pytest.mark.parametrize("rights", [[], ["delivery.redrive_delivery"]], ids=["none", "of one verb"])
def test_who_may_not_do_every_verb_cannot_tell_those_there_are_from_those_there_are_not(staff, rights):
    client = visitor(allow(staff, "console.add_operation", *rights))
    known, unknown = (ask(client, verb) for verb in ("discard_deliveries", "no_such_verb"))
    assert (known.status_code, known.json()["detail"]) == (unknown.status_code, unknown.json()["detail"])
    assert (known.status_code, known.json()["code"]) == (403, "permission_denied")
    assert ("You may begin redrive_deliveries;" in known.json()["detail"]) == bool(rights)
    # the right comes before all that is wrong with the rest
    assert ask(client, "discard_deliveries", {"filter": "x", "reason": ""}).status_code == 403
    pages = [client.post("/operations/new/", {"verb": verb}) for verb in ("discard_deliveries", "no_such_verb")]
    assert [page.status_code for page in pages] == [403, 403]
    assert not Operation.objects.exists()


def test_who_may_do_every_verb_is_told_what_there_is(operator):
    answer = ask(visitor(operator), "no_such_verb")
    assert answer.status_code == 400 and answer.json()["errors"][0]["field"] == "verb"
    answer = visitor(operator).post("/api/v1/operations/", {}, content_type="application/json")
    assert answer.status_code == 400
