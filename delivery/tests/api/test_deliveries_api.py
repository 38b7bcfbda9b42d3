"""`/deliveries/`: filters, attempts, redrive, discard, whose is whose."""

from datetime import timedelta

import pytest

from delivery.models import Delivery
from delivery.tests import factories
from delivery.tests.factories import NOW

pytestmark = pytest.mark.django_db


def _ids(client, query=""):
    answer = client.get(f"/api/v1/deliveries/{query}")
    assert answer.status_code == 200, answer.content
    return [int(row["id"]) for row in answer.json()["results"]]


def test_filters(api):
    one, two = factories.endpoint(subscriber="acme"), factories.endpoint()
    dead = factories.delivery(one, state="dead_letter", last_outcome="rejected", last_status_code=401)
    done = factories.delivery(two, state="delivered", last_outcome="delivered", last_status_code=200)
    old = factories.delivery(two)
    Delivery.objects.filter(pk=old.pk).update(created_at=NOW - timedelta(days=9))
    assert _ids(api) == [old.pk, done.pk, dead.pk]
    assert _ids(api, "?state=dead_letter") == [dead.pk]
    assert _ids(api, "?state=dead_letter&state=delivered") == [done.pk, dead.pk]
    assert _ids(api, f"?endpoint={two.pk}") == [old.pk, done.pk]
    assert _ids(api, f"?event={dead.event_id}") == [dead.pk]
    assert _ids(api, f"?event_uid={dead.event.uid}") == [dead.pk]
    assert _ids(api, "?subscriber=acme") == [dead.pk]
    assert _ids(api, "?outcome=rejected") == [dead.pk]
    assert _ids(api, "?status_code=401") == [dead.pk]
    assert _ids(api, f"?created_before={(NOW - timedelta(days=8)).isoformat().replace('+00:00', 'Z')}") == [old.pk]
    bad = api.get("/api/v1/deliveries/?state=nonsense")
    assert (bad.status_code, bad.json()["errors"][0]["field"]) == (400, "state")


def test_a_list_costs_the_same_for_many(api, django_assert_num_queries):
    endpoint = factories.endpoint()
    for _ in range(4):
        factories.delivery(endpoint)
    with django_assert_num_queries(2):
        rows = api.get("/api/v1/deliveries/").json()["results"]
    assert rows[0]["state"] == "pending" and rows[0]["final"] is False
    assert rows[0]["next_attempt_at"]


def test_attempts_in_order_with_the_answer_shown_safely(api, django_assert_num_queries):
    delivery = factories.delivery(factories.endpoint(), state="failed")
    factories.attempt(delivery, 1, response_head=b"\xff\x00bin", status_code=500, key_ids="aa,bb")
    factories.attempt(delivery, 2, response_head="nö".encode(), outcome="timeout")
    with django_assert_num_queries(3):
        rows = api.get(f"/api/v1/deliveries/{delivery.pk}/attempts/").json()["results"]
    assert [row["number"] for row in rows] == [1, 2]
    assert (rows[0]["response_encoding"], rows[0]["response_head"]) == ("base64", "/wBiaW4=")
    assert rows[1]["response_head"] == "nö"
    assert rows[0]["key_ids"] == ["aa", "bb"]
    assert rows[1]["outcome_words"] == "No complete answer in time."


def test_an_answer_that_we_cut_is_still_text_and_says_so(api):
    delivery = factories.delivery(factories.endpoint(), state="failed")
    cut = ("ö" * 9000).encode()[: 16 * 1024 - 1]
    factories.attempt(delivery, 1, response_head=cut, response_truncated=True, request_sent=True)
    factories.attempt(delivery, 2, response_head="schön".encode("latin-1"), note="Header without colon")
    rows = api.get(f"/api/v1/deliveries/{delivery.pk}/attempts/").json()["results"]
    assert (rows[0]["response_encoding"], rows[0]["response_head"]) == ("utf-8", "ö" * (8 * 1024 - 1))
    assert [(row["response_truncated"], row["request_sent"], row["note"]) for row in rows] == [
        (True, True, ""),
        (False, None, "Header without colon"),
    ]
    assert (rows[1]["response_encoding"], rows[1]["response_head"]) == ("windows-1252", "schön")


def test_redrive_and_discard(api):
    delivery = factories.delivery(factories.endpoint(), state="dead_letter", attempt_count=5)
    path = f"/api/v1/deliveries/{delivery.pk}"
    body = api.post(f"{path}/redrive", {"reason": "healed"}, format="json").json()
    assert (body["state"], body["attempt_count"], body["redrive_count"]) == ("pending", 0, 1)
    again = api.post(f"{path}/redrive/", {}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    assert api.post(f"{path}/discard/", {}, format="json").json()["state"] == "cancelled"
    assert api.post(f"{path}/discard/", {}, format="json").status_code == 409


def test_another_subscribers_is_404(client_with):
    theirs = factories.delivery(factories.endpoint(subscriber="other"), state="dead_letter")
    mine = client_with(subscriber="acme")
    for path in ("", "attempts/"):
        assert mine.get(f"/api/v1/deliveries/{theirs.pk}/{path}").status_code == 404
    for verb in ("redrive", "discard"):
        assert mine.post(f"/api/v1/deliveries/{theirs.pk}/{verb}/", {}, format="json").status_code == 404
    assert _ids(mine) == []
    assert Delivery.objects.get().state == "dead_letter"


def test_a_reader_may_not_redrive(client_with):
    dead = factories.delivery(factories.endpoint(), state="dead_letter")
    reader = client_with("deliveries:read")
    assert reader.post(f"/api/v1/deliveries/{dead.pk}/redrive/", {}, format="json").status_code == 403


def test_a_console_user_needs_the_verbs_own_permission(client, django_user_model):
    from django.contrib.auth.models import Permission

    user = django_user_model.objects.create(username="ada", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="redrive_delivery"))
    client.force_login(user)
    dead = factories.delivery(factories.endpoint(), state="dead_letter")
    answer = client.post(f"/api/v1/deliveries/{dead.pk}/discard/", {}, content_type="application/json")
    assert answer.status_code == 403
    assert Delivery.objects.get().state == "dead_letter"
