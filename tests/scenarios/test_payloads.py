"""What a caller writes is what every receiver gets, byte for byte, however odd it is."""

import json
import math

import pytest
from standardwebhooks import Webhook

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
    ["9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "1e308", "5e-324", "0.1"],
)
def test_numbers_beyond_64_bits_arrive_as_they_were_written(api, make_endpoint, sink, drain, number):
    endpoint = make_endpoint(sink.url + "/ok")
    answer = publish(api, b'{"type":"a.b","subscriber":"acme","data":{"n":%s}}' % number.encode())
    assert answer.status_code == 202, answer.content
    drain()
    seen = sink.seen[0]
    Webhook(endpoint.secret).verify(seen.body, seen.headers)
    got = json.loads(seen.body)["data"]["n"]
    assert got == json.loads(number) and type(got) is type(json.loads(number))
    assert isinstance(got, int) or math.isfinite(got)
    shown = api.get(f"/api/v1/events/{Event.objects.get().pk}/")
    assert shown.status_code == 200


@pytest.mark.parametrize("number", ["1e309", "-1e999", "NaN", "Infinity"])
def test_a_number_that_no_receiver_could_read_is_refused_and_nothing_is_stored(api, make_endpoint, number):
    make_endpoint()
    answer = publish(api, b'{"type":"a.b","subscriber":"acme","data":{"n":%s}}' % number.encode())
    assert answer.status_code == 400 and answer.headers["content-type"] == "application/problem+json"
    assert not Event.objects.exists() and not Delivery.objects.exists()
