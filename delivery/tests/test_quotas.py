"""What one caller may bring: how large an event, how many endpoints and deliveries, how long a list."""

import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.urls import reverse

from delivery import endpoints, events
from delivery.endpoint_rules import InvalidEndpoint
from delivery.errors import InvalidEvent, WrongState
from delivery.events import NewEvent
from delivery.models import Delivery, Endpoint, Event
from delivery.policy import quotas
from delivery.tests import factories
from kernel.tests.pages import fields_of

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada"}
URL = "https://hooks.example.com/in"


@pytest.fixture(autouse=True)
def no_name_service(monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ())


def _post(client, path, body):
    return client.post(f"/api/v1/{path}", body, format="json")


# --- an event


def test_an_event_may_have_256_kib_and_not_a_byte_more(api):
    around = len(events.payload_bytes("a.b", factories.NOW, {"x": ""}))
    body = {"type": "a.b", "occurred_at": "2026-11-29T12:00:00Z", "data": {"x": "y" * (256 * 1024 - around)}}
    assert _post(api, "events/", body).status_code == 202
    body["data"]["x"] += "y"
    answer = _post(api, "events/", body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "event_too_large")
    assert "262,145 bytes; at most 262,144" in answer.json()["detail"]
    assert [len(row.payload) for row in Event.objects.all()] == [256 * 1024]


def test_the_size_is_that_of_what_is_sent_not_of_how_it_came_in(api, settings):
    settings.EVENT_MAX_BYTES = 100
    body = '{"type":"a.b","data":{"x":"' + "\\u0041" * 20 + '"}}' + " " * 500
    assert api.post("/api/v1/events/", body, content_type="application/json").status_code == 202


def test_a_large_event_of_many_is_named_and_none_is_recorded(api, settings):
    settings.EVENT_MAX_BYTES = 200
    large = {"type": "a.b", "data": {"x": "y" * 200}}
    answer = _post(api, "events/bulk/", {"events": [{"type": "a.b", "data": {}}, large]})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "events.1.data")
    assert not Event.objects.exists()


def test_the_command_keeps_to_the_same_size(settings):
    settings.EVENT_MAX_BYTES = 200
    with pytest.raises(CommandError, match="at most 200"):
        call_command("publish", "a.b", '{"x": "%s"}' % ("y" * 200))
    assert not Event.objects.exists()


def test_what_we_say_ourselves_is_never_refused_for_its_size(settings):
    settings.EVENT_MAX_BYTES = 10
    factories.endpoint()
    assert events.record("task.succeeded", {"x": "y" * 1000}).delivery_count == 1


def test_a_repeat_of_a_stored_event_reads_no_stored_payload(django_assert_max_num_queries):
    """A thousand repeats of old and large events would not fit into memory."""
    new = [NewEvent("a.b", {"n": n}, uid=f"u{n}", occurred_at=factories.NOW) for n in range(3)]
    first = events.publish(new)
    with django_assert_max_num_queries(5) as seen:
        again = events.publish(new)
        assert [row.pk for row in again] == [row.pk for row in first]
        assert [row.delivery_count for row in again] == [0, 0, 0]
    assert seen.captured_queries and not [one for one in seen.captured_queries if '"payload"' in one["sql"]]


# --- deliveries of one call


def test_a_call_that_would_make_too_many_deliveries_is_refused_whole_and_told_how_many_fit(api, settings):
    settings.DELIVERIES_PER_CALL = 10
    for _ in range(3):
        factories.endpoint(event_types=["a.*"])
    many = [{"type": "a.b", "data": {"n": n}} for n in range(4)]
    answer = _post(api, "events/bulk/", {"events": many})
    assert (answer.status_code, answer.json()["code"]) == (400, "too_many_deliveries")
    assert "12 deliveries; one call may make 10" in answer.json()["detail"]
    assert "calls of 3 or fewer" in answer.json()["detail"]
    assert (Event.objects.count(), Delivery.objects.count()) == (0, 0)
    assert _post(api, "events/bulk/", {"events": many[:3]}).status_code == 202
    assert Delivery.objects.count() == 9


def test_events_that_are_recorded_already_make_no_deliveries_so_they_do_not_count(settings):
    settings.DELIVERIES_PER_CALL = 3
    factories.endpoint()
    new = [NewEvent("a.b", {"n": n}, uid=f"u{n}", occurred_at=factories.NOW) for n in range(6)]
    events.publish(new[:3])
    assert len(events.publish(new[:3] + new[3:])) == 6
    assert Delivery.objects.count() == 6


def test_one_event_alone_goes_to_all_its_endpoints(api, settings):
    settings.DELIVERIES_PER_CALL = 1
    for _ in range(3):
        factories.endpoint()
    assert _post(api, "events/", {"type": "a.b", "data": {}}).json()["deliveries"] == 3


def test_more_events_than_one_call_may_bring():
    new = [NewEvent("a.b", {})] * (quotas.EVENTS_PER_CALL + 1)
    with pytest.raises(InvalidEvent) as caught:
        events.publish(new)
    assert caught.value.code == "too_many_events"


# --- a subscriber's endpoints


def test_a_subscriber_may_have_so_many_endpoints_and_others_are_not_counted(api, settings):
    settings.ENDPOINTS_PER_SUBSCRIBER = 2
    factories.endpoint(subscriber="other")
    made = [_post(api, "endpoints/", {"url": URL, "subscriber": "acme"}) for _ in range(3)]
    assert [one.status_code for one in made] == [201, 201, 409]
    assert made[2].json()["code"] == "too_many_endpoints"
    assert "'acme' has 2 endpoints, and may have 2" in made[2].json()["detail"]
    endpoints.delete(int(made[0].json()["id"]), **WHO)
    assert _post(api, "endpoints/", {"url": URL, "subscriber": "acme"}).status_code == 201


def test_the_form_says_so_too_and_makes_none(admin_client, settings):
    settings.ENDPOINTS_PER_SUBSCRIBER = 1
    factories.endpoint(subscriber="acme")
    address = reverse("admin:delivery_endpoint_add")
    page = admin_client.post(address, {**fields_of(admin_client.get(address)), "url": URL, "subscriber": "acme"})
    assert page.status_code == 200 and "may have 1" in page.content.decode()
    assert Endpoint.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_who_create_at_the_same_moment_are_counted_one_after_the_other(settings):
    settings.ENDPOINTS_PER_SUBSCRIBER = 1
    refused = []

    def second():
        try:
            endpoints.create(url=URL, subscriber="acme", **WHO)
        except WrongState as error:
            refused.append(error.code)
        finally:
            connection.close()

    other = threading.Thread(target=second)
    with transaction.atomic():
        endpoints.create(url=URL, subscriber="acme", **WHO)
        other.start()
        other.join(0.3)
        assert other.is_alive()  # it waits for us
    other.join(20)
    assert refused == ["too_many_endpoints"]
    assert Endpoint.objects.count() == 1


# --- lists and texts of an endpoint


PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("event_types", [f"a.b{n}" for n in range(101)], "too_many"),
        ("event_types", ["a" * 101], "too_long"),
        ("transient_codes", [404] * 51, "too_many"),
        ("retry_delays", [1] * 51, "bad_retry_delays"),
        ("ca_certificate", "x" * 65_537, "too_long"),
        ("ca_certificate", PEM * 51, "too_long"),
        ("client_certificate", "x" * 65_537, "too_long"),
        ("url", "https://e.com/" + "x" * 8_000, "too_long"),
        ("headers", {f"x-{n}": "1" for n in range(21)}, "too_many"),
        ("headers", {"x-long": "1" * 4_096}, "too_long"),
        ("body_rule", {"success": "x" * 4_001}, "bad_body_rule"),
    ],
)
def test_a_list_or_text_beyond_its_length_is_refused_before_it_is_read(field, value, code):
    with pytest.raises(InvalidEndpoint) as caught:
        endpoints.create(**{"url": URL, field: value}, **WHO)
    assert [(row["field"], row["code"]) for row in caught.value.errors] == [(field, code)]
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize("field", ["event_types", "transient_codes", "retry_delays"])
def test_the_api_counts_a_list_before_it_looks_at_its_entries(api, field):
    answer = _post(api, "endpoints/", {"url": URL, field: ["no such thing"] * 300})
    assert answer.status_code == 400
    assert [(row["field"], row["code"]) for row in answer.json()["errors"]] == [(field, "max_length")]


def test_an_endpoint_stored_under_other_numbers_is_changed_and_sent_to_all_the_same(api):
    old = factories.endpoint(event_types=[f"a.b{n}" for n in range(500)])
    answer = api.patch(f"/api/v1/endpoints/{old.pk}/", {"name": "still here"}, format="json")
    assert answer.status_code == 200
    assert events.record("a.b499", {}).delivery_count == 1


@pytest.mark.parametrize("field", ["body_template", "body_content_type", "missing_default", "url"])
def test_a_preview_takes_no_longer_texts_than_an_endpoint(api, field):
    endpoint = factories.endpoint(request_form="postback")
    answer = _post(api, f"endpoints/{endpoint.pk}/preview-postback/", {field: "x" * 65_537})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "max_length")
