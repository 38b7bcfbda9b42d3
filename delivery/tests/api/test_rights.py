"""Who sees an endpoint's secrets, where they may be sent, and what a key is told of our own networks."""

import pytest
from django.contrib.auth.models import Permission

from delivery.models import Delivery, Endpoint, Event
from delivery.tests import factories
from kernel.network.openings import parse_openings

pytestmark = pytest.mark.django_db
WORKS = ("view_delivery", "change_endpoint", "view_payload_event", "view_payload_delivery")


@pytest.fixture(autouse=True)
def no_name_service(monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ())


@pytest.fixture
def person(client, django_user_model):
    """person("view_delivery", …) logs in somebody with these permissions."""

    def make(*codenames):
        user = django_user_model.objects.create(username="ada", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return make


def patch(client, endpoint, **changes):
    return client.patch(f"/api/v1/endpoints/{endpoint.pk}/", changes, content_type="application/json")


def preview(client, endpoint, **asked):
    path = f"/api/v1/endpoints/{endpoint.pk}/preview-postback/"
    return client.post(path, {"data": {"click": "c1"}, **asked}, content_type="application/json")


@pytest.fixture
def partner():
    return factories.endpoint(
        url="https://partner.example/s3cret?c={data.click}",
        host="partner.example",
        request_form="postback",
        body_template="token=s3cret&c={data.click}",
        headers={"x-key": "s3cret"},
    )


# --- what is shown


def test_a_preview_hides_the_stored_url_and_body_from_who_may_not_see_them(person, partner):
    shown = preview(person(*WORKS), partner)
    assert shown.status_code == 200
    assert "s3cret" not in shown.content.decode()
    body = shown.json()
    assert (body["url"], body["body"], body["fields_used"]) == ("https://partner.example/•••", "•••", ["data.click"])


def test_a_preview_shows_the_parts_whose_template_the_caller_wrote(person, partner):
    client = person(*WORKS)
    own = "https://mine.example/?c={data.click}"
    url_only = preview(client, partner, url=own).json()
    assert (url_only["url"], url_only["body"]) == ("https://mine.example/?c=c1", "•••")
    body_only = preview(client, partner, body_template="c={data.click}").json()
    assert (body_only["url"], body_only["body"]) == ("https://partner.example/•••", "c=c1")
    assert preview(client, partner, body_template="").json()["body"] == ""


def test_a_preview_shows_all_to_who_may_see_it_and_to_keys_that_may_write_endpoints(person, partner, api):
    whole = ("https://partner.example/s3cret?c=c1", "token=s3cret&c=c1")
    by_key = api.post(f"/api/v1/endpoints/{partner.pk}/preview-postback/", {"data": {"click": "c1"}}, format="json")
    for shown in (preview(person(*WORKS, "view_secret_endpoint"), partner), by_key):
        assert (shown.json()["url"], shown.json()["body"]) == whole


def test_a_preview_beyond_the_bound_is_refused_with_its_word(api, partner):
    path = f"/api/v1/endpoints/{partner.pk}/preview-postback/"
    asked = {"data": {"click": "y" * 5_000}, "url": "https://p.example/", "body_template": "{data.click}" * 800}
    refused = api.post(path, asked, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "too_large")
    assert len(refused.content) < 1_000
    refused = api.post(path, {"data": {"click": "y" * 9_000}}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "too_long")
    refused = api.post(path, {"body_template": "x" * 65_537}, format="json")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "body_template")


def test_a_preview_refuses_the_event_that_the_engine_would_refuse(api, partner):
    event = factories.event()
    deep = b'{"type":"a.b","data":{"click":1,"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"
    Event.objects.filter(pk=event.pk).update(payload=deep)
    path = f"/api/v1/endpoints/{partner.pk}/preview-postback/"
    refused = api.post(path, {"event": str(event.pk)}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "too_deep")


def test_a_body_template_is_masked_like_the_url(client_with, person, partner, api):
    plain = factories.endpoint()
    for client in (client_with("deliveries:read"), person("view_delivery")):
        for path in (f"/api/v1/endpoints/{partner.pk}/", "/api/v1/endpoints/"):
            assert "s3cret" not in client.get(path).content.decode()
        assert client.get(f"/api/v1/endpoints/{partner.pk}/").json()["body_template"] == "•••"
        assert client.get(f"/api/v1/endpoints/{plain.pk}/").json()["body_template"] == ""
    assert api.get(f"/api/v1/endpoints/{partner.pk}/").json()["body_template"] == partner.body_template


# --- where secrets may be sent


@pytest.mark.parametrize("url", ["https://evil.example/", "http://partner.example/", "https://partner.example:8443/"])
def test_who_may_not_see_the_headers_cannot_have_them_sent_to_another_address(person, partner, url):
    client = person(*WORKS)
    refused = patch(client, partner, url=url, request_form="postback")
    assert refused.status_code == 400
    (row,) = refused.json()["errors"]
    assert (row["field"], row["code"]) == ("headers", "new_origin") and "`headers`" in row["detail"]
    assert "s3cret" not in refused.content.decode()
    partner.refresh_from_db()
    assert (partner.host, partner.version) == ("partner.example", 1)


def test_the_change_is_made_once_the_secrets_are_given_again_or_dropped(person, partner):
    client = person(*WORKS)
    Endpoint.objects.filter(pk=partner.pk).update(client_certificate="stands")
    asked = patch(client, partner, url="https://new.example/", headers={"x-key": "mine"})
    assert [row["field"] for row in asked.json()["errors"]] == ["client_certificate"]
    made = patch(client, partner, url="https://new.example/", headers={"x-key": "mine"}, client_certificate="")
    assert (made.status_code, made.json()["url"]) == (200, "https://new.example/•••")
    partner.refresh_from_db()
    assert (partner.url, partner.headers, partner.client_certificate) == ("https://new.example/", {"x-key": "mine"}, "")


def test_another_path_at_the_same_address_asks_for_nothing(person, partner):
    made = patch(person(*WORKS), partner, url="https://PARTNER.example:443/other?c={data.click}")
    assert made.status_code == 200
    partner.refresh_from_db()
    assert partner.headers == {"x-key": "s3cret"}


def test_who_may_see_the_headers_moves_them(person, partner, api):
    assert patch(person(*WORKS, "view_secret_endpoint"), partner, url="https://new.example/").status_code == 200
    moved = api.patch(f"/api/v1/endpoints/{partner.pk}/", {"url": "https://newer.example/"}, format="json")
    assert (moved.status_code, moved.json()["headers"]) == (200, {"x-key": "s3cret"})


def test_a_masked_answer_sent_back_changes_nothing(person, partner):
    client = person(*WORKS)
    shown = client.get(f"/api/v1/endpoints/{partner.pk}/").json()
    for name in ("url", "body_template", "headers"):
        refused = patch(client, partner, **{name: shown[name]})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, name)
    partner.refresh_from_db()
    assert partner.version == 1


# --- what is told of our own networks

INSIDE = "private: shop.example leads to 10.0.0.7, which may not be called. 10.0.0.7 is not a public address: it is …"


@pytest.fixture
def answered():
    """Two deliveries: one blocked, one answered from inside."""
    to = factories.endpoint(subscriber="acme")
    blocked = factories.delivery(to, state="dead_letter", last_outcome="blocked", last_error=INSIDE, fingerprint="f1")
    factories.attempt(blocked, 1, outcome="blocked", error=INSIDE, address="10.0.0.7")
    inside = factories.delivery(to, state="delivered", last_outcome="refused")
    factories.attempt(inside, 1, outcome="refused", address="10.0.0.8", response_head=b"their journal", status_code=200)
    return blocked, inside


def attempts(client, delivery):
    return client.get(f"/api/v1/deliveries/{delivery.pk}/attempts/").json()["results"]


@pytest.mark.parametrize("subscriber", ["", "acme"])
def test_a_key_reads_no_answer_from_a_private_address(client_with, answered, subscriber):
    (row,) = attempts(client_with("deliveries:read", subscriber=subscriber), answered[1])
    assert (row["response_head"], row["response_encoding"], row["address"]) == (None, "utf-8", "")
    assert (row["outcome"], row["status_code"]) == ("refused", 200)
    factories.attempt(answered[1], 2, outcome="refused", address="8.8.8.8", response_head=b"their own")
    row = attempts(client_with("deliveries:read", subscriber=subscriber), answered[1])[1]
    assert (row["response_head"], row["address"]) == ("their own", "8.8.8.8")


def test_a_key_is_not_told_what_a_name_leads_to_inside(client_with, answered):
    key = client_with("deliveries:read", "endpoints:write", "deliveries:write")
    blocked = answered[0]
    paths = [f"deliveries/{blocked.pk}/", "deliveries/", f"deliveries/{blocked.pk}/attempts/"]
    for path in [*paths, "dead-letters/", "dead-letters/groups/"]:
        answer = key.get(f"/api/v1/{path}")
        assert answer.status_code == 200 and "10.0.0.7" not in answer.content.decode(), path
        assert "not be called. Correct the URL" in answer.content.decode()
    redriven = key.post(f"/api/v1/deliveries/{blocked.pk}/redrive/", {}, format="json")
    assert redriven.status_code == 200 and "10.0.0.7" not in redriven.content.decode()


def test_an_operator_sees_both(person, answered):
    client = person("view_delivery", "view_payload_delivery")
    assert client.get(f"/api/v1/deliveries/{answered[0].pk}/").json()["last_error"] == INSIDE
    (row,) = attempts(client, answered[0])
    assert (row["error"], row["address"]) == (INSIDE, "10.0.0.7")
    (row,) = attempts(client, answered[1])
    assert (row["response_head"], row["address"]) == ("their journal", "10.0.0.8")


def test_saving_a_name_tells_nobody_where_it_leads(api, person, monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ("10.0.0.7",))
    made = api.post("/api/v1/endpoints/", {"url": "https://db.corp.example/"}, format="json")
    changed = patch(person(*WORKS, "view_secret_endpoint"), factories.endpoint(), url="https://db.corp.example/")
    for answer in (made, changed):
        (row,) = answer.json()["errors"]
        assert (answer.status_code, row["code"], "10.0.0.7" in str(row)) == (400, "not_public", False)
        assert "DELIVERY_ALLOWED_NETWORKS" in row["detail"]
    assert not Delivery.objects.exists()


def test_a_bound_keys_endpoint_reaches_only_what_is_opened_for_its_subscriber(client_with, settings):
    settings.DELIVERY_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8, acme@127.0.0.1:8443")

    def make(subscriber, url):
        key = client_with("endpoints:write", subscriber=subscriber)
        return key.post("/api/v1/endpoints/", {"url": url}, format="json").status_code

    assert make("", "http://127.0.0.1:3000/") == 201
    assert make("acme", "http://127.0.0.1:8443/") == 201
    assert [make("acme", "http://127.0.0.1:3000/"), make("bob", "http://127.0.0.1:8443/")] == [400, 400]
