"""The admin: who sees what, which verb asks first, what a list costs."""

import html
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from delivery import endpoint_secrets
from delivery.models import Delivery, Endpoint, EndpointHealth, Event
from delivery.tests import factories
from kernel.models import ApiKey
from kernel.tests import hostile
from kernel.tests.pages import fields_of

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/in?token=s3cret"


@pytest.fixture
def admin_client(client, django_user_model):
    """Without a password: hashing one takes longer than the test."""
    client.force_login(django_user_model.objects.create(username="root", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def person(client, django_user_model):
    """person("view_delivery", …) logs in somebody with these permissions."""

    def make(*codenames):
        user = django_user_model.objects.create(username="ada", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return make


def _text(answer):
    return html.unescape(answer.content.decode())


def _page(kind, pk, verb="change"):
    base = reverse(f"admin:delivery_{kind}_change", args=[pk])
    return base if verb == "change" else base.replace("/change/", f"/{verb}/")


@pytest.mark.parametrize("kind", ["endpoint", "endpointhealth", "event", "delivery", "attempt"])
def test_lists_and_pages_open(admin_client, kind):
    delivery = factories.delivery(factories.endpoint(name="Acme"), state="failed", last_outcome="timeout")
    attempt = factories.attempt(delivery, 1, outcome="timeout", total_ms=15_000, dns_ms=1, response_head=b"<b>late</b>")
    assert admin_client.get(reverse(f"admin:delivery_{kind}_changelist")).status_code == 200
    pks = {"event": delivery.event_id, "delivery": delivery.pk, "attempt": attempt.pk}
    assert admin_client.get(_page(kind, pks.get(kind, delivery.endpoint_id))).status_code == 200
    assert admin_client.get(_page(kind, 10**12)).status_code == 302
    assert admin_client.get(_page(kind, "nonsense")).status_code == 302


@pytest.mark.parametrize("kind", ["endpoint", "event", "delivery", "attempt"])
def test_a_list_costs_the_same_for_many(admin_client, kind):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    address = reverse(f"admin:delivery_{kind}_changelist")

    def cost():
        factories.attempt(factories.delivery(factories.endpoint()))
        admin_client.get(address)
        with CaptureQueriesContext(connection) as queries:
            admin_client.get(address)
        return len(queries)

    first = cost()
    for _ in range(20):
        factories.attempt(factories.delivery(factories.endpoint()))
    assert cost() < first + 10  # the sidebar's counts are cached for a while; a query for each row would be 20


def test_nothing_can_be_deleted(admin_client):
    delivery = factories.delivery(factories.endpoint())
    factories.attempt(delivery)
    for kind, pk in (("endpoint", delivery.endpoint_id), ("event", delivery.event_id), ("delivery", delivery.pk)):
        assert admin_client.post(_page(kind, pk, "delete"), {"post": "yes"}).status_code == 403
        listed = reverse(f"admin:delivery_{kind}_changelist")
        admin_client.post(listed, {"action": "delete_selected", "_selected_action": [pk], "post": "yes"})
    assert (Endpoint.objects.count(), Event.objects.count(), Delivery.objects.count()) == (1, 1, 1)


def test_payload_url_and_answer_need_their_permissions(person):
    delivery = factories.delivery(factories.endpoint(url=URL), factories.event(data={"click_id": "hush"}), "failed")
    factories.attempt(delivery, status_code=500, response_head=b"answer-of-theirs")
    client = person("view_delivery", "view_event", "view_endpoint", "change_endpoint", "view_attempt")
    pages = [("event", delivery.event_id), ("delivery", delivery.pk), ("endpoint", delivery.endpoint_id)]
    seen = "".join(_text(client.get(_page(kind, pk))) for kind, pk in pages)
    for secret in ("hush", "s3cret", "answer-of-theirs", "whsec_"):
        assert secret not in seen
    assert "https://hooks.example.com/•••" in seen


def test_payloads_are_escaped(admin_client):
    event = factories.event(data={"x": "<script>alert(1)</script>"})
    delivery = factories.delivery(factories.endpoint(), event)
    factories.attempt(delivery, response_head=b"<script>alert(2)</script>")
    for kind, pk in (("event", event.pk), ("delivery", delivery.pk)):
        raw = admin_client.get(_page(kind, pk)).content.decode()
        assert "<script>alert(" not in raw
        assert "&lt;script&gt;alert(1)" in raw


def test_the_delivery_page_says_what_next(admin_client):
    endpoint = factories.endpoint(attention_at=factories.NOW, hold_reason="rejected 401")
    delivery = factories.delivery(endpoint, state="dead_letter", last_outcome="rejected", last_status_code=401)
    page = _text(admin_client.get(_page("delivery", delivery.pk)))
    assert "does not take our signature or credentials" in page
    assert "its endpoint needs attention" in page
    assert "rejected (401)" in page


def test_a_verb_asks_then_acts_and_is_noted(admin_client):
    delivery = factories.delivery(factories.endpoint(), state="dead_letter")
    page = _page("delivery", delivery.pk, "redrive")
    assert admin_client.get(page).status_code == 200
    assert Delivery.objects.get().state == "dead_letter"
    assert "This field is required" in _text(admin_client.post(page, {"reason": ""}))
    answer = admin_client.post(page, {"reason": "healed", "confirmed": "yes"}, follow=True)
    assert f"Delivery {delivery.pk} was redriven." in _text(answer)
    assert Delivery.objects.get().state == "pending"
    assert "healed" in LogEntry.objects.get().change_message
    assert "It is pending by now. Nothing was done." in _text(admin_client.get(page, follow=True))


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_a_verb_needs_its_own_permission(person, verb):
    delivery = factories.delivery(factories.endpoint(), state="dead_letter")
    other = {"redrive": "discard_delivery", "discard": "redrive_delivery"}[verb]
    client = person("view_delivery", other)
    assert client.post(_page("delivery", delivery.pk, verb), {"reason": "x"}).status_code == 403
    listed = {"action": f"{verb}_selected", "_selected_action": [delivery.pk], "confirmed": "yes", "reason": "x"}
    client.post(reverse("admin:delivery_delivery_changelist"), listed)
    assert Delivery.objects.get().state == "dead_letter"


def test_selected_rows_are_counted_then_redriven(admin_client):
    endpoint = factories.endpoint()
    dead = [factories.delivery(endpoint, state="dead_letter").pk for _ in range(3)]
    done = factories.delivery(endpoint, state="delivered").pk
    address = reverse("admin:delivery_delivery_changelist")
    asked = admin_client.post(address, {"action": "redrive_selected", "_selected_action": [*dead[:2], done]})
    assert "2 dead letters are sent again" in _text(asked)
    assert Delivery.objects.filter(state="dead_letter").count() == 3
    confirmed = {
        "action": "redrive_selected",
        "_selected_action": [*dead[:2], done],
        "confirmed": "yes",
        "reason": "healed",
    }
    assert "2 deliveries were redriven" in _text(admin_client.post(address, confirmed, follow=True))
    assert list(Delivery.objects.filter(state="dead_letter").values_list("pk", flat=True)) == [dead[2]]


def test_select_across_takes_the_whole_filter_and_nothing_else(admin_client):
    mine, other = factories.endpoint(), factories.endpoint()
    for _ in range(60):
        factories.delivery(mine, state="dead_letter")
    kept = factories.delivery(other, state="dead_letter").pk
    address = reverse("admin:delivery_delivery_changelist") + f"?endpoint__id__exact={mine.pk}"
    body = {"action": "discard_selected", "select_across": "1", "_selected_action": [Delivery.objects.first().pk]}
    asked = _text(admin_client.post(address, body))
    assert "60 waiting or dead deliveries are given up" in asked
    assert asked.count('name="_selected_action"') == 1
    admin_client.post(address, {**body, "confirmed": "yes", "reason": "too late"})
    assert list(Delivery.objects.filter(state="dead_letter").values_list("pk", flat=True)) == [kept]


def test_search_is_exact(admin_client):
    one = factories.delivery(factories.endpoint())
    factories.delivery(one.endpoint)
    address = reverse("admin:delivery_delivery_changelist")
    for term in (one.event.uid, str(one.pk)):
        answer = admin_client.get(address, {"q": term})
        assert [row.pk for row in answer.context["cl"].result_list] == [one.pk]
    assert not admin_client.get(address, {"q": "nothing"}).context["cl"].result_list
    assert admin_client.get(reverse("admin:delivery_attempt_changelist"), {"q": "words"}).status_code == 200


# --- endpoints


@pytest.fixture(autouse=True)
def no_name_service(monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ())


def _form(**values):
    standing = {
        "request_form": "event", "signature_scheme": "v1", "retry_profile": "spec", "max_attempts": 5,
        "timeout_ms": 15000, "max_concurrency": 20, "breaker_threshold": 10, "breaker_cooldown_seconds": 300,
        "method": "POST", "missing_field": "refuse", "body_rule": "null", "headers": "",
    }  # fmt: skip
    return {**standing, "url": URL, **values}


def test_a_new_endpoint_shows_its_secret_once(admin_client):
    answer = admin_client.post(reverse("admin:delivery_endpoint_add"), _form(name="Acme", event_types="order.*, a.b"))
    endpoint = Endpoint.objects.get()
    assert endpoint.secret in _text(answer)
    assert "no-store" in answer["cache-control"]
    assert (endpoint.host, endpoint.event_types) == ("hooks.example.com", ["order.*", "a.b"])
    assert endpoint.health.breaker_state == "closed"
    assert endpoint.secret not in _text(admin_client.get(_page("endpoint", endpoint.pk)))


def test_the_form_says_why(admin_client):
    form = _form(url="http://10.0.0.1/", headers='{"Host": "x"}', max_attempts=0)
    page = _text(admin_client.post(reverse("admin:delivery_endpoint_add"), form))
    assert "10.0.0.1 is not a public address" in page
    assert "Host is set by us" in page
    assert "Choose 1 to 50 attempts" in page
    assert not Endpoint.objects.exists()


def test_changing_an_endpoint_goes_through_the_verb(admin_client):
    endpoint = factories.endpoint(url=URL)
    answer = admin_client.post(_page("endpoint", endpoint.pk), _form(name="Renamed", rate_per_minute=60))
    assert answer.status_code == 302, _text(answer)
    changed = Endpoint.objects.get()
    assert (changed.name, changed.rate_per_minute, changed.url, changed.version) == ("Renamed", 60, URL, 2)


def test_without_the_permission_a_save_keeps_url_and_headers(person):
    endpoint = factories.endpoint(url=URL, headers={"x-key": "hush"})
    client = person("view_endpoint", "change_endpoint")
    form = {name: value for name, value in _form(name="Renamed").items() if name not in ("url", "headers")}
    assert client.post(_page("endpoint", endpoint.pk), form).status_code == 302
    changed = Endpoint.objects.get()
    assert (changed.name, changed.url, changed.headers) == ("Renamed", URL, {"x-key": "hush"})


def test_the_endpoints_verbs(admin_client):
    endpoint = factories.endpoint()

    def post(verb, **body):
        return admin_client.post(_page("endpoint", endpoint.pk, verb), {"reason": "r", **body}, follow=True)

    assert "Paused." in _text(post("pause"))
    assert Endpoint.objects.get().hold_reason == "r"
    assert "It is paused by now. Nothing was done." in _text(post("pause"))
    assert "Resumed." in _text(post("resume"))
    assert "A test is on its way" in _text(post("test"))
    EndpointHealth.objects.update(pace_per_second=2.0, pace_lowered_at=timezone.now(), throttle_status=429)
    assert "We send about 2.0/s, because they answer 429." in _text(admin_client.get(_page("endpoint", endpoint.pk)))
    assert "limit is 120 a minute" in _text(post("fix-rate"))
    assert "No pace is learned by now" in _text(post("fix-rate"))
    EndpointHealth.objects.update(throttled_until=timezone.now() + timedelta(hours=5))
    assert "Lifted." in _text(post("lift-throttle"))
    assert "Nothing throttles it by now" in _text(post("lift-throttle"))
    rotated = post("rotate", overlap="on")
    assert Endpoint.objects.get().secret in _text(rotated)
    (earlier,) = endpoint_secrets.earlier(Endpoint.objects.get())
    assert "has ended" in _text(post("end-secret", secret=earlier.id))
    assert Endpoint.objects.get().earlier_secrets is None
    Endpoint.objects.update(disabled_at=factories.NOW)
    assert "Enabled." in _text(post("enable"))
    assert "1 waiting deliveries were cancelled" in _text(post("remove"))
    assert LogEntry.objects.count() == 9
    for verb in ("pause", "resume", "enable", "test", "rotate", "remove"):
        assert "It is deleted by now. Nothing was done." in _text(post(verb))


@pytest.mark.parametrize("verb", ["pause", "resume", "enable", "test", "rotate", "remove", "fix-rate", "lift-throttle"])
def test_the_endpoints_verbs_need_permission(person, verb):
    endpoint = factories.endpoint(paused_at=factories.NOW if verb == "resume" else None)
    if verb == "enable":
        Endpoint.objects.update(disabled_at=factories.NOW)
    EndpointHealth.objects.update(pace_per_second=2.0, pace_lowered_at=timezone.now())
    client = person("view_endpoint")
    assert client.post(_page("endpoint", endpoint.pk, verb), {"reason": "x"}).status_code == 403


def test_rotate_pressed_twice_rotates_once_and_shows_the_same_secret(admin_client):
    endpoint = factories.endpoint()
    page = _page("endpoint", endpoint.pk, "rotate")
    shown = fields_of(admin_client.get(page))
    first, again = (admin_client.post(page, {**shown, "reason": "r"}) for _ in "12")
    standing = Endpoint.objects.get()
    assert standing.secret in _text(first) and standing.secret in _text(again)
    assert [one.secret for one in endpoint_secrets.earlier(standing)] == [endpoint.secret]
    later = admin_client.post(page, {**fields_of(admin_client.get(page)), "reason": "r"})
    assert Endpoint.objects.get().secret in _text(later) and standing.secret not in _text(later)


def test_the_panel_names_the_secrets_and_ends_one(admin_client, person):
    endpoint = factories.endpoint()
    admin_client.post(_page("endpoint", endpoint.pk, "rotate"), {"reason": "r", "overlap": "on"})
    (earlier,) = endpoint_secrets.earlier(Endpoint.objects.get())
    assert f"{earlier.id} until" in _text(admin_client.get(_page("endpoint", endpoint.pk)))
    asked = _text(admin_client.get(_page("endpoint", endpoint.pk, "end-secret")))
    assert f"{earlier.id}, would sign until" in asked and earlier.secret not in asked
    assert person("view_endpoint").get(_page("endpoint", endpoint.pk, "end-secret")).status_code == 403


def test_an_unreadable_endpoint_is_listed_shown_and_mended(admin_client, settings):
    from cryptography.fernet import Fernet

    known, settings.MASTER_KEYS = settings.MASTER_KEYS, [Fernet.generate_key().decode()]
    endpoint = factories.endpoint(url=URL, headers={"x-key": "hush"}, earlier_secrets=[])
    settings.MASTER_KEYS = known
    good = factories.endpoint(name="Good one")
    page = _page("endpoint", endpoint.pk)
    listed = _text(admin_client.get(reverse("admin:delivery_endpoint_changelist")))
    assert "Good one" in listed and listed.count("· unreadable") == 1
    assert "No master key opens its" in _text(admin_client.get(page))
    assert "No master key" not in _text(admin_client.get(_page("endpoint", good.pk)))
    for verb in ("rotate", "pause", "remove", "test"):
        assert admin_client.get(_page("endpoint", endpoint.pk, verb)).status_code == 200
    admin_client.post(_page("endpoint", endpoint.pk, "rotate"), {"reason": "r"})
    mended = {**fields_of(admin_client.get(page)), "url": URL, "headers": '{"x-key": "new"}'}
    assert admin_client.post(page, mended).status_code == 302
    row = Endpoint.objects.get(pk=endpoint.pk)
    assert (row.url, row.headers, row.secret[:6]) == (URL, {"x-key": "new"}, "whsec_")


def test_a_secret_alone_that_no_key_opens_is_told_in_list_and_page(admin_client, settings):
    from cryptography.fernet import Fernet

    endpoint = factories.endpoint(url=URL)
    known, settings.MASTER_KEYS = settings.MASTER_KEYS, [Fernet.generate_key().decode()]
    Endpoint.objects.filter(pk=endpoint.pk).update(secret="whsec_bG9zdA==")
    settings.MASTER_KEYS = known
    assert "· unreadable" in _text(admin_client.get(reverse("admin:delivery_endpoint_changelist")))
    assert "No master key opens its secret" in _text(admin_client.get(_page("endpoint", endpoint.pk)))


@pytest.mark.parametrize("why", ["breaker", "throttle"])
def test_resume_is_offered_where_a_breaker_or_a_wait_holds_an_active_endpoint(admin_client, why):
    soon = timezone.now() + timedelta(hours=1)
    health = {
        "breaker": {"breaker_state": "open", "probe_at": soon},
        "throttle": {"throttled_until": soon, "wait_reason": "throttled"},
    }[why]
    endpoint = factories.endpoint(health=health)
    assert "/resume/" in _text(admin_client.get(_page("endpoint", endpoint.pk)))
    answer = admin_client.post(_page("endpoint", endpoint.pk, "resume"), {"reason": "they called"}, follow=True)
    assert "Resumed." in _text(answer)
    now = EndpointHealth.objects.get(pk=endpoint.pk)
    assert (now.breaker_state, now.throttled_until) == ("closed", None)
    assert "/resume/" not in _text(admin_client.get(_page("endpoint", endpoint.pk)))


def test_the_page_of_an_unreadable_endpoint_opens_without_the_permission(person, settings):
    from cryptography.fernet import Fernet

    known, settings.MASTER_KEYS = settings.MASTER_KEYS, [Fernet.generate_key().decode()]
    endpoint = factories.endpoint(url=URL, headers={"x-key": "hush"})
    settings.MASTER_KEYS = known
    page = _text(person("view_endpoint", "change_endpoint").get(_page("endpoint", endpoint.pk)))
    assert "unreadable: no master key opens it" in page


@pytest.mark.parametrize(
    "flags", [("paused_at", "disabled_at"), ("paused_at", "attention_at"), ("attention_at", "disabled_at")]
)
def test_an_endpoint_with_two_flags_is_found_by_the_word_that_is_shown(admin_client, flags):
    endpoint = factories.endpoint(**dict.fromkeys(flags, factories.NOW))
    listed = reverse("admin:delivery_endpoint_changelist")
    for state in ("active", "paused", "needs_attention", "disabled", "deleted"):
        found = list(admin_client.get(listed, {"state": state}).context["cl"].result_list)
        assert [row.pk for row in found] == ([endpoint.pk] if state == endpoint.state else [])


# --- API keys


def test_an_api_key_is_shown_once_and_revoked(admin_client):
    answer = admin_client.post(
        reverse("admin:kernel_apikey_add"), {"name": "ci", "scopes": ["tasks:read"], "subscriber": "acme"}
    )
    key = ApiKey.objects.get()
    assert f"rt_{key.key_id}_" in _text(answer)
    assert (key.scopes, key.subscriber) == (["tasks:read"], "acme")
    page = reverse("admin:kernel_apikey_change", args=[key.pk])
    assert f"rt_{key.key_id}_" not in _text(admin_client.get(page))
    assert admin_client.post(page, {"name": "ci 2"}).status_code == 302
    assert admin_client.get(page.replace("change", "revoke")).status_code == 200
    admin_client.post(page.replace("change", "revoke"), {"reason": "leaked"})
    key.refresh_from_db()
    assert key.revoked_at and key.name == "ci 2"


@pytest.mark.parametrize(
    ("kind", "lookup"),
    [
        ("event", "payload__contains=a"),
        ("event", "payload__gt=a"),
        ("event", "payload_sha256__startswith=a"),
        ("attempt", "response_head__contains=a"),
        ("endpoint", "body_template__contains=a"),
        ("endpoint", "secret__isnull=1"),
        ("delivery", "last_error__contains=a"),
        ("delivery", "event__payload__contains=a"),
    ],
)
def test_a_list_is_not_narrowed_by_what_its_filters_do_not_offer(person, kind, lookup):
    delivery = factories.delivery(factories.endpoint(), state="failed")
    factories.attempt(delivery, 1, outcome="timeout", response_head=b"s3cret")
    client = person(f"view_{kind}")
    assert client.get(f"{reverse(f'admin:delivery_{kind}_changelist')}?{lookup}").status_code == 400


@pytest.mark.parametrize(
    ("kind", "lookup"),
    [
        ("delivery", "endpoint__id__exact=1&state__exact=failed&outcome=timeout&is_replay__exact=0"),
        ("endpoint", "state=paused&health__breaker_state__exact=open&request_form__exact=event"),
        ("event", "matched=unmatched"),
    ],
)
def test_what_the_filters_offer_works(person, kind, lookup):
    address = f"{reverse(f'admin:delivery_{kind}_changelist')}?{lookup}"
    assert person(f"view_{kind}").get(address).status_code == 200


def test_a_client_certificate_is_judged_stored_and_never_shown(admin_client, tmp_path):
    made = hostile.Certificates(tmp_path)
    one, two = (made.pem_file("client.example", days=(-10, -1)).read_text() for _ in range(2))
    at = one.index("-----BEGIN CERTIFICATE-----")
    endpoint = factories.endpoint(url=URL)
    page = _page("endpoint", endpoint.pk)
    wrong = one[:at] + two[two.index("-----BEGIN CERTIFICATE-----") :]
    assert "does not belong to the certificate" in _text(admin_client.post(page, _form(new_client_certificate=wrong)))
    answer = admin_client.post(page, _form(new_client_certificate=one), follow=True)
    assert "The client certificate expired on" in _text(answer)
    endpoint.refresh_from_db()
    assert endpoint.client_certificate.strip() == one.strip()
    text = _text(admin_client.get(page))
    assert "PRIVATE KEY" not in text and "The client certificate expired on" in text
    admin_client.post(page, _form(name="Renamed"))
    endpoint.refresh_from_db()
    assert (endpoint.name, endpoint.client_certificate.strip()) == ("Renamed", one.strip())


def test_the_page_of_an_attempt_tells_what_the_wire_said(admin_client):
    delivery = factories.delivery(factories.endpoint(), state="delivered")
    attempt = factories.attempt(
        delivery, outcome="delivered", status_code=200, request_sent=True, note="Header without colon"
    )
    page = admin_client.get(f"/admin/delivery/attempt/{attempt.pk}/change/").content.decode()
    assert "Header without colon" in page and "Request sent" in page
    page = admin_client.get(f"/admin/delivery/delivery/{delivery.pk}/change/").content.decode()
    assert "counts all the same: Header without colon" in page


def test_an_answer_that_we_cut_is_marked_on_the_page(admin_client):
    delivery = factories.delivery(factories.endpoint(), state="dead_letter")
    factories.attempt(delivery, status_code=500, response_head=b"z" * 16 * 1024, response_truncated=True)
    page = admin_client.get(f"/admin/delivery/delivery/{delivery.pk}/change/").content.decode()
    assert "only its first 16 KiB are kept" in page


def test_the_form_hides_the_body_template_with_the_url_and_the_headers(person):
    shown = {"request_form": "postback", "body_template": "token=s3cret", "headers": {"x-key": "s3cret"}}
    endpoint = factories.endpoint(url=URL, **shown)
    client, address = person("view_endpoint", "change_endpoint"), _page("endpoint", endpoint.pk)
    page = _text(client.get(address))
    assert "s3cret" not in page and page.count("•••") >= 2 and "x-key" in page
    stolen = {"body_template": "stolen", "url": "https://evil.example/", "headers": "{}"}
    answer = client.post(address, _form(name="renamed", request_form="postback", **stolen))
    endpoint.refresh_from_db()
    assert answer.status_code == 302 and endpoint.name == "renamed"
    assert (endpoint.url, endpoint.body_template, endpoint.headers) == (URL, "token=s3cret", {"x-key": "s3cret"})
