"""The query of every list: an unknown name or an empty value never answers with more rows than were asked for."""

import pytest
from django.test import Client
from django.utils import timezone

from console.models import Alert
from console.operations import plan
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from webhooks.models import InboundEvent

pytestmark = pytest.mark.django_db

LISTS = {  # path → filters of it that are no plain text
    "tasks/": ("state", "final", "batch", "created_after"),
    "batches/": ("state", "created_before"),
    "deliveries/": ("state", "endpoint", "event", "outcome", "status_code", "is_replay", "created_after"),
    "events/": ("state", "created_after"),
    "endpoints/": ("state",),
    "inbound-events/": ("job_id", "verdict", "received_after"),
    "operations/": ("state", "verb"),
    "alerts/": ("state",),
    "dead-letters/": ("side", "endpoint", "outcome", "status_code", "kind", "batch", "limit"),
    "dead-letters/groups/": ("side", "endpoint", "outcome", "status_code", "kind", "batch"),
}
OWN = [  # the rows of whoever has no subscriber, no reference, no error code
    ("tasks/?subscriber=", 1),
    ("tasks/?reference=", 2),
    ("tasks/?error_code=", 0),
    ("tasks/?kind=", 0),
    ("batches/?subscriber=", 1),
    ("deliveries/?subscriber=", 1),
    ("deliveries/?fingerprint=", 0),
    ("deliveries/?correlation_id=", 0),
    ("events/?subscriber=", 1),
    ("events/?type=", 0),
    ("endpoints/?subscriber=", 1),
    ("alerts/?rule=", 0),
    ("dead-letters/?subscriber=", 2),
    ("dead-letters/?fingerprint=", 0),
    ("dead-letters/?error_code=", 0),
]


@pytest.fixture
def client(operator):
    """Of each thing one that is the operators' own and one that is a subscriber's."""
    now = timezone.now()
    for subscriber in ("", "acme"):
        make_batch(["dead_letter"], subscriber=subscriber)
        make_delivery(make_endpoint(subscriber=subscriber), "dead_letter")
    Alert.objects.create(rule="r", title="t", opened_at=now, last_seen_at=now)
    InboundEvent.objects.create(source="map_search", verdict="verified", outcome="accepted", body=b"{}", headers={})
    plan.create("redrive_deliveries", {"all": True}, actor="a", reason="r")
    client = Client()
    client.force_login(operator)
    return client


@pytest.mark.parametrize("path", LISTS)
def test_an_unknown_filter_is_refused_with_the_known_ones(client, path):
    answer = client.get(f"/api/v1/{path}?statte=queued")
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_filter")
    assert "use " in answer.json()["detail"]
    assert client.get(f"/api/v1/{path}").status_code == 200


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in LISTS.items() for name in names])
@pytest.mark.parametrize("value", ["", "%20"])
def test_an_empty_value_of_what_is_no_plain_text_is_refused(client, path, name, value):
    answer = client.get(f"/api/v1/{path}?{name}={value}")
    assert answer.status_code == 400, answer.json()
    assert name in str(answer.json()["errors"])


@pytest.mark.parametrize(("path", "count"), OWN)
def test_an_empty_text_means_the_rows_where_it_is_empty(client, path, count):
    answer = client.get(f"/api/v1/{path}")
    assert (answer.status_code, len(answer.json()["results"])) == (200, count)


@pytest.mark.parametrize(
    ("query", "sides"),
    [
        ("endpoint=999999", set()),
        ("outcome=server_error", {"delivery"}),
        ("status_code=500", {"delivery"}),
        ("kind=map_search", {"task"}),
        ("error_code=provider_failed", {"task"}),
        ("fingerprint=map_search/provider_failed", {"task"}),
        ("fingerprint=f1", {"delivery"}),
        ("fingerprint=/provider_failed", set()),
        ("fingerprint=map_search/", set()),
        ("kind=scoring&fingerprint=map_search/provider_failed", set()),
        ("", {"delivery", "task"}),
    ],
)
def test_a_filter_of_one_side_does_not_bring_in_all_of_the_other(client, query, sides):
    for path in ("dead-letters/", "dead-letters/groups/"):
        rows = client.get(f"/api/v1/{path}?{query}").json()["results"]
        assert {row["side"] for row in rows} == sides


@pytest.mark.parametrize(
    "query",
    [
        "tasks/?final=maybe",
        "tasks/?batch=1.7",
        "tasks/?batch=1e3",
        "tasks/?batch=-1",
        "tasks/?batch=9223372036854775808",
        "tasks/?subscriber=acme&subscriber=",
        "deliveries/?is_replay=maybe",
        "deliveries/?is_replay=2",
        "deliveries/?endpoint=1.7",
        "deliveries/?status_code=5xx",
        "deliveries/?event=%D9%A1",
        "dead-letters/?endpoint=1.7",
        "dead-letters/?endpoint=9223372036854775808",
        "dead-letters/?kind=scoring&kind=map_search",
        *(
            f"{path}?limit={limit}"
            for path in LISTS
            if "groups" not in path
            for limit in ("0", "-1", "x", "201", "1.0")
        ),
        *(f"{path}?limit=5&limit=6" for path in LISTS if "groups" not in path),
    ],
)
def test_a_value_that_is_none_is_refused_and_never_left_out(client, query):
    answer = client.get(f"/api/v1/{query}")
    assert answer.status_code == 400, answer.json()
    name = query.partition("?")[2].partition("=")[0]
    assert answer.json()["errors"][0]["field"] == name


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("tasks/?final=true", 2),
        ("tasks/?final=false", 0),
        ("tasks/?final=0", 0),
        ("tasks/?batch=0", 0),
        ("tasks/?state=dead_letter&state=queued", 2),
        ("deliveries/?is_replay=False", 2),
        ("deliveries/?is_replay=true", 0),
        ("deliveries/?endpoint=9223372036854775807", 0),
        ("deliveries/?status_code=99999", 0),
        ("dead-letters/?status_code=99999999999", 0),
        ("dead-letters/?limit=200", 4),
        ("tasks/?limit=1", 1),
    ],
)
def test_a_value_means_exactly_what_it_says(client, query, count):
    answer = client.get(f"/api/v1/{query}")
    assert (answer.status_code, len(answer.json()["results"])) == (200, count)


def test_lists_that_hang_on_one_thing_know_only_pages(client):
    operation = client.get("/api/v1/operations/").json()["results"][0]["id"]
    assert client.get(f"/api/v1/operations/{operation}/items/?limit=5").status_code == 200
    assert client.get(f"/api/v1/operations/{operation}/items/?outcome=failed").status_code == 400
    delivery = client.get("/api/v1/deliveries/").json()["results"][0]["id"]
    assert client.get(f"/api/v1/deliveries/{delivery}/attempts/?outcome=").status_code == 400


@pytest.mark.parametrize(
    ("verb", "asked", "count"),
    [
        ("redrive_deliveries", {"subscriber": ""}, 1),
        ("redrive_deliveries", {"fingerprint": ""}, 0),
        ("discard_deliveries", {"fingerprint": ""}, 0),
        ("redrive_tasks", {"subscriber": ""}, 1),
        ("redrive_tasks", {"error_code": ""}, 0),
        ("redrive_tasks", {"fingerprint": ""}, 0),
        ("redrive_tasks", {"fingerprint": "/"}, 0),
        ("redrive_tasks", {"fingerprint": "map_search/provider_failed", "kind": "scoring"}, 0),
        ("cancel_tasks", {"reference": ""}, 0),
    ],
)
def test_an_empty_text_in_an_operation_means_exactly_that(client, verb, asked, count):
    body = {"verb": verb, "filter": asked, "reason": "r", "dry_run": True}
    answer = client.post("/api/v1/operations/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["target_count"]) == (200, count)


def test_a_group_form_with_an_empty_field_moves_nothing(client):
    form = {"verb": "redrive_deliveries", "fingerprint": "f1", "endpoint": "", "reason": "r"}
    answer = client.post("/operations/new/", form, follow=True)
    assert "must be a whole number" in answer.content.decode()


def test_a_replay_pressed_twice_says_so_on_its_page_and_in_the_preview(client):
    endpoint = make_endpoint()
    make_delivery(endpoint, "delivered", delivered_at=timezone.now())
    body = {"verb": "replay_events", "filter": {"endpoint": endpoint.pk, "since": "1h"}, "reason": "r"}

    def post(**more):
        return client.post("/api/v1/operations/", {**body, **more}, content_type="application/json").json()

    assert "1 of these was sent to it within the last day" in post(dry_run=True)["warnings"][0]
    first = post()
    second = post()
    assert "was sent to it" in first["detail"]
    page = client.get(f"/operations/{second['id']}/").content.decode()
    assert "was sent to it within the last day" in page


def test_dead_letter_groups_name_endpoint_and_subscriber_on_the_page_and_in_the_api(client):
    groups = client.get("/api/v1/dead-letters/groups/?side=delivery").json()["results"]
    assert {(group["endpoint_name"], group["subscriber"]) for group in groups} == {("partner", ""), ("partner", "acme")}
    text = client.get("/dead-letters/").content.decode()
    assert ">partner</a> of acme" in text


def test_the_page_of_batches_with_an_empty_kind_does_not_show_every_kind(client):
    assert "Batches of no kind" in client.get("/batches/?kind=").content.decode()
    assert "No batch yet" in client.get("/batches/?kind=").content.decode()
    assert "No batch yet" not in client.get("/batches/?kind=map_search").content.decode()
