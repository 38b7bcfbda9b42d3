"""What a caller writes is what every receiver gets, byte for byte, however odd it is."""

import json
import math

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from delivery import endpoint_secrets, endpoints, events
from delivery.models import Delivery, Event

pytestmark = pytest.mark.django_db(transaction=True)

# Keys out of order, a key twice in different spelling, whitespace of every sort, escapes that could be written shorter.
ODD = rb"""  { "type" :  "order.paid",
   "data":{"z":1 ,"a" : [ 1,2 ,{"\u0041":"\u0141\u00f3d\u017a \/ \ud83d\ude00"} ], "Z":"", "":null, "m":{"b":1,"a":2}},
	"subscriber" : "acme", "uid":"odd_1" }"""


def publish(api, raw: bytes):
    return api.post("/api/v1/events/", raw, content_type="application/json")


def test_odd_key_order_and_whitespace_sign_the_very_bytes_that_are_sent(api, make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.answer("/first-500", 500), retry_profile="custom", retry_delays=[0], max_attempts=3)
    assert publish(api, ODD).status_code == 202
    drain(linger_seconds=1.0)  # three attempts
    event = Event.objects.get()
    assert [seen.body for seen in sink.seen] == [bytes(event.payload)] * 3
    for seen in sink.seen:
        body = Webhook(endpoint.secret).verify(seen.body, seen.headers)
        assert list(body["data"]) == ["z", "a", "Z", "", "m"]
        assert body["data"]["a"][2] == {"A": "Łódź / 😀"}
        assert list(body["data"]["m"]) == ["b", "a"]


@pytest.mark.parametrize(
    "number",
    [
        "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "1e308", "5e-324", "0.1",
        "0.1234567890123456789", "-0", "-0.0", "1e2", "1E+2", "1.50",
    ],
)  # fmt: skip
def test_numbers_beyond_64_bits_arrive_as_they_were_written(api, make_endpoint, sink, drain, number):
    endpoint = make_endpoint(sink.url + "/ok")
    answer = publish(api, b'{"type":"a.b","subscriber":"acme","data":{"n":%s}}' % number.encode())
    assert answer.status_code == 202, answer.content
    drain()
    seen = sink.seen[0]
    Webhook(endpoint.secret).verify(seen.body, seen.headers)
    assert seen.body.endswith(b'"data":{"n":%s}}' % number.encode())
    got = json.loads(seen.body)["data"]["n"]
    assert got == json.loads(number) and type(got) is type(json.loads(number))
    assert isinstance(got, int) or math.isfinite(got)
    shown = api.get(f"/api/v1/events/{Event.objects.get().pk}/")
    assert shown.status_code == 200
    assert b'"data":{"n":%s}' % number.encode() in shown.content


def test_a_postback_and_a_replay_carry_numbers_as_they_were_written(api, make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.url + "/pb?a={data.a}&b={data.b}", request_form="postback", method="GET")
    publish(api, b'{"type":"a.b","subscriber":"acme","data":{"a":0.1234567890123456789,"b":-0}}')
    endpoints.replay(endpoint, actor="test", event_ids=[Event.objects.get().pk])
    drain()
    assert [seen.path for seen in sink.seen] == ["/pb?a=0.1234567890123456789&b=-0"] * 2


def test_every_request_is_signed_by_each_secret_whose_time_is_not_over(make_endpoint, sink, drain):
    first = make_endpoint(sink.url + "/ok")
    second, third = (endpoints.rotate_secret(first, actor="test") for _ in "12")
    events.record("a.b", {}, subscriber="acme")
    drain()
    endpoints.end_secret(first, endpoint_secrets.id_of(first.secret), actor="test", reason="leaked")
    events.record("a.b", {}, subscriber="acme")
    drain()
    before, after = sink.seen
    for secret in (first.secret, second.secret, third.secret):
        Webhook(secret).verify(before.body, before.headers)
    for secret in (second.secret, third.secret):
        Webhook(secret).verify(after.body, after.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(first.secret).verify(after.body, after.headers)
    assert len(after.headers["webhook-signature"].split(" ")) == 2


@pytest.mark.parametrize("number", ["1e309", "-1e999", "NaN", "Infinity"])
def test_a_number_that_no_receiver_could_read_is_refused_and_nothing_is_stored(api, make_endpoint, number):
    make_endpoint()
    answer = publish(api, b'{"type":"a.b","subscriber":"acme","data":{"n":%s}}' % number.encode())
    assert answer.status_code == 400 and answer.headers["content-type"] == "application/problem+json"
    assert not Event.objects.exists() and not Delivery.objects.exists()
