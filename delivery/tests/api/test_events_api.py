"""`/events/`: accepted in one transaction, counted, repeatable."""

import json

import pytest

from delivery import events
from delivery.models import Delivery, Event
from delivery.tests import factories

pytestmark = pytest.mark.django_db
EVENT = {"type": "order.paid", "data": {"click": "abc", "payout": 12.5}}


def _post(client, body=EVENT, path="events/", **headers):
    return client.post(f"/api/v1/{path}", body, format="json", **headers)


def test_an_accepted_event_is_queued_or_unmatched(api):
    answer = _post(api)
    assert answer.status_code == 202, answer.data
    assert (answer.json()["state"], answer.json()["deliveries"]) == ("unmatched", 0)
    factories.endpoint(event_types=["order.*"])
    second = _post(api).json()
    assert (second["state"], second["deliveries"]) == ("queued", 1)
    assert Delivery.objects.get().event_id == int(second["id"])
    assert second["correlation_id"]


def test_an_events_own_uid(api):
    first = _post(api, {**EVENT, "uid": "conv-1"})
    assert _post(api, {**EVENT, "uid": "conv-1"}).json()["id"] == first.json()["id"]
    other = _post(api, {**EVENT, "data": {}, "uid": "conv-1"})
    assert (other.status_code, other.json()["code"]) == (409, "uid_taken")
    assert Event.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [({"type": "a b"}, "type"), ({"uid": "a.b"}, "uid"), ({"data": []}, "data"), ({"extra": 1}, "extra")],
)
def test_bad_fields_are_named(api, change, field):
    answer = _post(api, {**EVENT, **change})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_bulk_is_all_or_nothing_and_names_the_index(api, django_assert_num_queries):
    factories.endpoint()
    many = {"events": [{**EVENT, "data": {"n": n}} for n in range(1000)]}
    answer = _post(api, many, "events/bulk/")
    assert answer.status_code == 202
    assert [row["deliveries"] for row in answer.json()["events"]] == [1] * 1000
    assert Delivery.objects.count() == 1000
    many["events"][3]["type"] = "no good"
    bad = _post(api, many, "events/bulk/")
    assert bad.json()["errors"][0]["field"] == "events.3.type"
    assert Event.objects.count() == 1000
    many["events"].append(EVENT)
    assert _post(api, many, "events/bulk/").status_code == 400
    assert _post(api, {"events": []}, "events/bulk").status_code == 400


def test_idempotency_key(api):
    first = _post(api, HTTP_IDEMPOTENCY_KEY="one")
    again = _post(api, HTTP_IDEMPOTENCY_KEY="one")
    assert first.json() == again.json()
    assert Event.objects.count() == 1
    assert _post(api, {**EVENT, "data": {}}, HTTP_IDEMPOTENCY_KEY="one").status_code == 422


def test_a_bound_key_publishes_and_reads_its_own(client_with):
    mine = client_with(subscriber="acme")
    assert _post(mine).json()["subscriber"] == "acme"
    assert _post(mine, {**EVENT, "subscriber": "other"}).status_code == 403
    theirs = factories.event(subscriber="other")
    assert mine.get(f"/api/v1/events/{theirs.pk}/").status_code == 404
    assert len(mine.get("/api/v1/events/").json()["results"]) == 1


def test_the_payload_is_in_the_detail_only(api, django_assert_num_queries):
    for _ in range(3):
        _post(api)
    with django_assert_num_queries(2):
        row = api.get("/api/v1/events/?type=order.paid").json()["results"][0]
    assert "payload" not in row
    assert api.get(f"/api/v1/events/{row['id']}/").json()["payload"]["data"] == EVENT["data"]


def test_a_console_user_needs_the_permission_for_payloads(client, django_user_model):
    from django.contrib.auth.models import Permission

    user = django_user_model.objects.create(username="ada", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_delivery"))
    client.force_login(user)
    event = factories.event()
    assert client.get(f"/api/v1/events/{event.pk}/").json()["payload"] is None
    user.user_permissions.add(Permission.objects.get(codename="view_payload_event"))
    assert client.get(f"/api/v1/events/{event.pk}/").json()["payload"]["data"] == {"n": 1}


def test_scopes(client_with):
    assert _post(client_with("deliveries:read")).status_code == 403
    assert client_with("events:write").get("/api/v1/events/").status_code == 403


def test_hostile_json_is_refused_with_words(api):
    raw = json.dumps(EVENT)[:-1] + ', "type": "twice"}'
    answer = api.post("/api/v1/events/", raw, content_type="application/json")
    assert answer.status_code == 400
    assert "twice" in answer.json()["detail"]


ODD = (
    '{"a":0.1234567890123456789,"b":-0,"c":1e2,"d":123456789012345678901234567890,"e":[1.50,-0.0,1E+3],"f":12.5,"g":7}'
)


def _send(client, raw, path="events/"):
    return client.post(f"/api/v1/{path}", raw, content_type="application/json")


def test_numbers_keep_their_text_on_the_way_in_and_out(api):
    made = _send(api, f'{{"type":"order.paid","data":{ODD}}}')
    assert made.status_code == 202, made.data
    assert bytes(Event.objects.get().payload).endswith(f'"data":{ODD}}}'.encode())
    shown = api.get(f"/api/v1/events/{made.json()['id']}/").content.decode()
    assert f'"data":{ODD}}}' in shown
    assert _send(api, f'{{"events":[{{"type":"a.b","data":{ODD}}},{{"type":"a.b","data":{{}}}}]}}', "events/bulk/")
    assert bytes(Event.objects.order_by("id")[1].payload).endswith(f'"data":{ODD}}}'.encode())


def test_an_integer_longer_than_python_reads_keeps_its_digits(api):
    digits = "9" * 10_000
    made = _send(api, f'{{"type":"order.paid","data":{{"n":{digits}}}}}')
    assert made.status_code == 202, made.data
    assert digits.encode() in bytes(Event.objects.get().payload)
    assert digits in api.get(f"/api/v1/events/{made.json()['id']}/").content.decode()


def test_a_number_that_is_infinity_once_read_is_refused(api):
    answer = _send(api, '{"type":"order.paid","data":{"n":1e400}}')
    assert (answer.status_code, "too large" in answer.json()["detail"]) == (400, True)


def test_the_same_uid_with_the_same_odd_numbers_is_the_same_event(api):
    body = f'{{"type":"order.paid","uid":"conv-1","data":{ODD}}}'
    first, again = _send(api, body), _send(api, body)
    assert first.json()["id"] == again.json()["id"]
    other = _send(api, body.replace("0.1234567890123456789", "0.1234567890123456788"))
    assert (other.status_code, other.json()["code"]) == (409, "uid_taken")


@pytest.mark.parametrize("field", ["type", "uid", "subscriber", "occurred_at"])
def test_an_odd_number_is_no_text(api, field):
    others = "" if field == "type" else ',"type":"a.b"'
    answer = _send(api, f'{{"data":{{}},"{field}":1e2{others}}}')
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_a_postbacks_preview_keeps_the_text_of_numbers(api):
    endpoint = factories.endpoint(
        url="https://partner.example.com/pb?a={data.a}&b={data.b}&c={data.c}", request_form="postback", method="GET"
    )
    shown = _send(api, f'{{"data":{ODD}}}', f"endpoints/{endpoint.pk}/preview-postback/").json()
    assert shown["url"] == "https://partner.example.com/pb?a=0.1234567890123456789&b=-0&c=1e2"
    _send(api, f'{{"type":"order.paid","data":{ODD}}}')
    event = Event.objects.get()
    recorded = _send(api, f'{{"event":"{event.pk}"}}', f"endpoints/{endpoint.pk}/preview-postback/").json()
    assert recorded["url"] == shown["url"]


def test_an_ordering_key_is_a_numbers_text(api):
    factories.endpoint(ordering_key="data.k")
    for text in ("0.1234567890123456789", "0.1234567890123456788", "-0", "1e2", "7", '{"x":1.50}'):
        _send(api, f'{{"type":"a.b","data":{{"k":{text}}}}}')
    keys = list(Delivery.objects.order_by("id").values_list("ordering_key", flat=True))
    assert keys == ["0.1234567890123456789", "0.1234567890123456788", "-0", "1e2", "7", '{"x": 1.50}']


@pytest.mark.parametrize(
    ("change", "code"), [({"type": "task.succeeded"}, "reserved_type"), ({"uid": "rt_1"}, "reserved_uid")]
)
def test_our_own_types_and_uids_are_refused_and_named(api, change, code):
    one = _post(api, {**EVENT, **change})
    assert (one.status_code, one.json()["errors"][0]["code"]) == (400, code)
    many = _post(api, {"events": [EVENT, {**EVENT, **change}]}, "events/bulk/")
    assert (many.status_code, many.json()["errors"][0]["code"]) == (400, code)
    assert many.json()["errors"][0]["field"].startswith("events.1.")
    assert not Event.objects.exists()


def test_an_event_nested_too_deeply_is_refused_and_one_stored_before_is_shown(api):
    body = '{"type":"a.b","data":' + '{"a":' * 952 + "1" + "}" * 953
    answer = api.post("/api/v1/events/", body, content_type="application/json")
    assert answer.status_code == 400 and "at most 100" in answer.json()["detail"]
    for depth in (99, 952, 20_000):
        made = events.record("a.b", {}, uid=f"e{depth}")
        Event.objects.filter(pk=made.pk).update(payload=b'{"data":' * depth + b"1" + b"}" * depth)
        shown = api.get(f"/api/v1/events/{made.pk}/")
        assert shown.status_code == 200
        assert ("not shown" in json.dumps(shown.json(), ensure_ascii=False)) is (depth > 100)
