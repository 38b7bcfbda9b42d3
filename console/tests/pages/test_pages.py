"""The pages: whole without JavaScript, the same snapshot as the socket's, nothing that could run as markup."""

import json
import re

import pytest
from django.test import Client
from django.utils import timezone

from console import journeys
from console.alerts import evaluate
from console.models import Alert, Operation
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Delivery, Event
from delivery.tests import wire
from kernel.models import AuditEntry
from tasks.models import Batch, Task

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(operator):
    client = Client()
    client.force_login(operator)
    return client


def page(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_strangers_are_sent_to_the_login():
    answer = Client().get("/batches/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/?next=/batches/")


def test_the_start_page_shows_where_everything_is(client):
    make_batch(["succeeded"] * 3, finished_by="poll", completed=True)
    make_delivery(make_endpoint("Acme conversions", breaker_state="open"), "dead_letter")
    evaluate.evaluate(timezone.now())
    text = page(client, "/")
    for words in (
        "No webhook arrived for 3 jobs; the poll finished them.",
        "Acme conversions",
        "1 dead delivery",
        "Look at the groups, correct the cause, then redrive or discard them.",
        "All 3 succeeded",
        "last seen",
        'data-live-topic="stats"',
        'data-live-topic="alerts"',
    ):
        assert words in text, words


def test_a_missing_public_address_is_said(client, settings):
    settings.PUBLIC_BASE_URL = ""
    assert "Providers cannot call back." in page(client, "/")
    settings.PUBLIC_BASE_URL = "https://jobs.example.com"
    assert "Providers cannot call back." not in page(client, "/")


def test_the_batch_page_is_whole_and_says_who_noticed(client):
    batch = make_batch(["succeeded", "dead_letter", "running"], finished_by="poll")
    text = page(client, f"/batches/{batch.pk}/")
    assert f'data-live-topic="batch:{batch.pk}"' in text
    assert "noticed by poll" in text
    assert "provider_failed" in text
    version = int(re.search(r'data-live-topic="batch:\d+" data-live-version="(\d+)"', text)[1])
    assert version > 1_700_000_000_000_000
    assert client.get("/batches/999999/").status_code == 404


def test_what_others_wrote_is_escaped(client):
    evil = "<script>alert(1)</script>"
    batch = make_batch(["dead_letter"])
    Batch.objects.update(reference=evil)
    Task.objects.update(error_text=evil, error_code=evil)
    endpoint = make_endpoint(evil, breaker_state="open")
    make_delivery(endpoint, "dead_letter", last_error=evil)
    evaluate.evaluate(timezone.now())
    Alert.objects.update(link="javascript:alert(1)")
    for path in ("/", f"/batches/{batch.pk}/", "/batches/", "/dead-letters/"):
        text = page(client, path)
        assert evil not in text, path
    assert "&lt;script&gt;" in page(client, "/dead-letters/")


def test_nothing_secret_is_on_any_page(client):
    batch = make_batch(["succeeded", "dead_letter"])
    make_delivery(make_endpoint(), "dead_letter")
    for path in ("/", f"/batches/{batch.pk}/", "/dead-letters/", f"/journeys/{'c' * 32}/", f"/journeys/{'d' * 32}/"):
        assert "SECRET" not in page(client, path), path


def test_dead_letters_are_grouped_and_redriven_as_an_operation(client):
    endpoint = make_endpoint()
    for number in range(3):
        make_delivery(endpoint, "dead_letter", fingerprint="a" if number else "b")
    text = page(client, "/dead-letters/")
    assert "2 × server error 500" in text and "1 × server error 500" in text
    answer = client.post(
        "/operations/new/",
        {"verb": "redrive_deliveries", "fingerprint": "a", "endpoint": endpoint.pk, "reason": "healed", "canary": "1"},
    )
    operation = Operation.objects.get()
    assert answer["Location"] == f"/operations/{operation.pk}/"
    assert (operation.target_count, operation.canary_size, operation.reason) == (2, 5, "healed")
    assert "healed" in page(client, f"/operations/{operation.pk}/")
    client.post(f"/operations/{operation.pk}/steer/", {"verb": "cancel"})
    operation.refresh_from_db()
    assert operation.state == "cancelled"
    assert set(AuditEntry.objects.values_list("verb", flat=True)) == {"redrive_deliveries", "cancel_operation"}


def test_alerts_are_settled_by_post_only(client):
    make_delivery(make_endpoint(), "dead_letter")
    evaluate.evaluate(timezone.now())
    row = Alert.objects.get(rule="dead_letters")
    assert client.get(f"/alerts/{row.pk}/acknowledge/").status_code == 405
    assert client.post(f"/alerts/{row.pk}/acknowledge/").status_code == 302
    row.refresh_from_db()
    assert row.state == "acknowledged"
    assert "looked after by" in page(client, "/")


def test_a_journey_joins_every_source():
    make_batch(["succeeded"])
    task = Task.objects.get()
    delivery = make_delivery(make_endpoint(), "delivered")
    Event.objects.update(correlation_id="c" * 32)
    AuditEntry.objects.create(actor="user:1:ann", verb="redrive", subject="task", object_ids=[task.pk], reason="again")
    found = journeys.journey("c" * 32)
    assert {entry.kind for entry in found.entries} == {"batch", "task", "provider", "event", "operator"}
    assert [entry.at for entry in found.entries] == sorted(entry.at for entry in found.entries)
    assert delivery.pk
    assert journeys.journey("nobody").entries == []


def test_a_journey_of_very_many_batches_names_no_more_than_it_shows_and_says_so(monkeypatch):
    monkeypatch.setattr(journeys, "MOST", 2)
    for _ in range(3):
        make_batch(["queued"])
    Batch.objects.update(correlation_id="c" * 32)
    found = journeys.journey("c" * 32)
    assert len(found.batches) == 2
    assert found.is_cut


def test_the_sidebar_leads_to_pages_that_exist(client, settings):
    items = [item for group in settings.UNFOLD["SIDEBAR"]["navigation"] for item in group["items"]]
    assert len(items) > 10
    for item in items:
        assert client.get(item["link"]).status_code == 200, item


def test_links_into_the_admin_lists_are_understood(client):
    batch = make_batch(["succeeded"])
    make_delivery(make_endpoint(), "dead_letter")
    for path in ("/", f"/batches/{batch.pk}/", "/dead-letters/"):
        text = re.sub(r"<template>.*?</template>", "", page(client, path), flags=re.S)
        links = set(re.findall(r'href="(/admin/[^"{]*)"', text))
        assert links, path
        for link in links:
            answer = client.get(link.replace("&amp;", "&"))
            assert answer.status_code == 200, (path, link, answer.status_code, answer.get("Location"))


def test_pages_cost_few_queries(client, django_assert_max_num_queries):
    def statements(batch):
        with wire.counted() as sent:
            client.get(f"/batches/{batch.pk}/")
        return sent.statements

    first, few, many = (statements(make_batch(["succeeded"] * count)) for count in (2, 2, 30))
    assert many == few <= first <= 20
    with django_assert_max_num_queries(55):
        client.get("/")


def test_the_page_of_dead_letters_says_where_a_name_leads_inside(client, operator):
    inside = "private: shop.example leads to 10.0.0.7, which may not be called."
    make_delivery(make_endpoint(), "dead_letter")
    Delivery.objects.update(last_outcome="blocked", last_error=inside)
    client.force_login(operator)
    assert "10.0.0.7" in client.get("/dead-letters/").content.decode()


def test_dead_letters_by_api_both_sides_page_by_page(key, bound_key):
    client = Client(headers={"authorization": f"Bearer {key}"})
    endpoint = make_endpoint()
    for _ in range(3):
        make_delivery(endpoint, "dead_letter")
    make_batch(["dead_letter"] * 2)
    seen, url = [], "/api/v1/dead-letters/?limit=2"
    while url:
        body = client.get(url).json()
        seen += [(row["side"], row["id"]) for row in body["results"]]
        url = body["next"]
    assert len(seen) == len(set(seen)) == 5
    one = client.get("/api/v1/dead-letters/?side=task&fingerprint=map_search/provider_failed").json()["results"]
    assert [row["error_code"] for row in one] == ["provider_failed"] * 2
    groups = client.get("/api/v1/dead-letters/groups/").json()["results"]
    assert {(row["side"], row["count"]) for row in groups} == {("delivery", 3), ("task", 2)}
    assert all(row["what_to_do"] for row in groups)
    assert client.get("/api/v1/dead-letters/?endpoint=x").status_code == 400
    assert client.get("/api/v1/dead-letters/?after=x").status_code == 400
    bound = Client(headers={"authorization": f"Bearer {bound_key}"}).get("/api/v1/dead-letters/")
    assert bound.json()["results"] == []


def test_the_openapi_is_made_and_names_our_paths():
    text = Client().get("/api/v1/schema/?format=json").content
    paths = json.loads(text)["paths"]
    assert {"/api/v1/operations/", "/api/v1/live/", "/api/v1/stats/", "/api/v1/alerts/{id}/resolve/"} <= set(paths)


def test_the_audit_list_names_the_rows(client):
    AuditEntry.objects.create(actor="ada", verb="pause", subject="endpoint", object_ids=[4711], count=1)
    AuditEntry.objects.create(actor="ada", verb="redrive", subject="delivery", object_ids=[7, 8, 9, 10], count=4)
    shown = page(client, "/admin/kernel/auditentry/")
    assert "endpoint 4711" in shown and "delivery 7, 8, 9 …" in shown
