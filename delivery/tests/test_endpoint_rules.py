"""What an endpoint may be: every refusal names its field, its reason word and what to do."""

import pytest

from delivery.endpoint_rules import InvalidEndpoint, ask_again, check_destination, clean, host_of
from kernel.network.openings import parse_openings

URL = "https://hooks.example.com/in"


def _refusal(**values):
    with pytest.raises(InvalidEndpoint) as caught:
        clean({"url": URL, **values})
    (error,) = caught.value.errors
    assert error["detail"].endswith((".", "…}.", ")."))
    return error["field"], error["code"]


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
        ({"url": ""}, "url", "required"),
        ({"url": "ftp://example.com/"}, "url", "scheme"),
        ({"url": "https://user:pw@example.com/"}, "url", "userinfo"),
        ({"url": "http://127.0.0.1:8000/"}, "url", "loopback"),
        ({"url": "http://169.254.169.254/latest"}, "url", "metadata"),
        ({"url": "http://[::ffff:10.0.0.1]/"}, "url", "private"),
        ({"url": "http://2130706433/"}, "url", "odd_literal"),
        ({"url": "https://localhost/"}, "url", "loopback"),
        ({"url": "https://example.com/a\\b"}, "url", "backslash"),
        ({"url": "https://example.com/{data.id}"}, "url", "not_a_postback"),
        ({"url": "https://{data.host}/", "request_form": "postback"}, "url", "field_in_host"),
        ({"url": "https://e.com/{oops}", "request_form": "postback"}, "url", "unknown_field"),
        ({"url": "https://e.com/{uid.x}", "request_form": "postback"}, "url", "unknown_field"),
        ({"url": "https://e.com/", "body_template": "{type.x}", "request_form": "postback"}, "url", "unknown_field"),
        ({"url": "https://e.com/{data.a", "request_form": "postback"}, "url", "brace"),
        ({"headers": {"Host": "evil"}}, "headers", "reserved"),
        ({"headers": {"webhook-signature": "v1,x"}}, "headers", "reserved"),
        ({"headers": {"Content-Length": "0"}}, "headers", "reserved"),
        ({"headers": {"x-a": "b\r\nx-evil: 1"}}, "headers", "value"),
        ({"headers": {"x a": "b"}}, "headers", "name"),
        ({"event_types": ["a b"]}, "event_types", "bad_event_type"),
        ({"retry_profile": "custom"}, "retry_delays", "required"),
        ({"retry_delays": [-1]}, "retry_delays", "bad_retry_delays"),
        ({"max_attempts": 0}, "max_attempts", "out_of_range"),
        ({"timeout_ms": 99}, "timeout_ms", "out_of_range"),
        ({"transient_codes": [200]}, "transient_codes", "bad_status_code"),
        ({"transient_codes": [410]}, "transient_codes", "bad_status_code"),
        ({"rate_burst": 5}, "rate_burst", "no_rate"),
        ({"method": "GET"}, "method", "event_is_post"),
        ({"body_template": "x"}, "body_template", "not_a_postback"),
        ({"body_rule": {"nonsense": "x"}}, "body_rule", "bad_body_rule"),
        ({"missing_field": "default", "request_form": "postback"}, "missing_default", "required"),
        ({"ordering_key": "data click"}, "ordering_key", "bad_ordering_key"),
        ({"ordering_key": "click_id"}, "ordering_key", "unknown_field"),
        ({"ordering_key": "k"}, "ordering_key", "unknown_field"),
        ({"ordering_key": "uid"}, "ordering_key", "unknown_field"),
        ({"ordering_key": "data"}, "ordering_key", "unknown_field"),
        ({"ordering_key": "type.x"}, "ordering_key", "unknown_field"),
        ({"ca_certificate": "nope"}, "ca_certificate", "bad_certificate"),
        ({"body_content_type": "a\r\nb: c"}, "body_content_type", "bad_header_value"),
    ],
)
def test_refusals(values, field, code):
    assert _refusal(**values) == (field, code)


@pytest.mark.parametrize("key", ["", "type", "timestamp", "data.click_id", "data.a.b-c.0"])
def test_ordering_keys_that_name_something(key):
    assert clean({"url": URL, "ordering_key": key})["ordering_key"] == key


def test_the_refusal_of_an_ordering_key_says_what_to_write():
    with pytest.raises(InvalidEndpoint, match=r"click_id names nothing in an event: write data\.click_id"):
        clean({"url": URL, "ordering_key": "click_id"})


def test_every_wrong_field_is_named_at_once():
    with pytest.raises(InvalidEndpoint) as caught:
        clean({"url": "nope", "max_attempts": 0, "headers": {"Host": "x"}})
    assert {error["field"] for error in caught.value.errors} == {"url", "max_attempts", "headers"}


def test_no_message_repeats_the_url():
    for url in ("http://10.1.2.3/s3cret-token", "https://e.com/{s3cret-token}", "s3cret-token"):
        with pytest.raises(InvalidEndpoint) as caught:
            clean({"url": url})
        assert "s3cret" not in str(caught.value)


def test_a_postback_passes_and_the_host_is_derived():
    cleaned = clean({"url": "https://Partner.Example:8443/pb?c={data.click_id}", "request_form": "postback"})
    assert cleaned["host"] == "partner.example:8443"
    assert host_of("https://[2606:4700::1]/") == "[2606:4700::1]"


def test_changing_the_form_judges_the_standing_url_again():
    standing = {"url": "https://e.com/?c={data.id}", "request_form": "postback"}
    with pytest.raises(InvalidEndpoint) as caught:
        clean({"request_form": "event"}, standing)
    assert caught.value.errors[0]["code"] == "not_a_postback"


def test_what_stands_for_a_secret_does_not_come_back_as_its_value():
    postback = {"request_form": "postback", "url": "https://e.com/?a={data.a}"}
    assert _refusal(url="https://e.com/•••") == ("url", "masked")
    assert _refusal(**postback, body_template="•••") == ("body_template", "masked")
    assert _refusal(headers={"x-key": "•••"}) == ("headers", "value")


def test_a_body_rule_has_so_many_phrases_and_no_more():
    fine = {"success": "|".join(f"s{n}" for n in range(60)), "refused": "|".join(f"r{n}" for n in range(40))}
    assert clean({"url": URL, "body_rule": fine})["body_rule"] == fine
    assert _refusal(body_rule={**fine, "duplicate": "one more"}) == ("body_rule", "bad_body_rule")


HEADERS = {"x-key": "s3cret"}
KNOWN = {"url": "https://e.com/in?t=1", "headers": HEADERS, "client_certificate": "PEM"}


@pytest.mark.parametrize(
    "url", ["http://e.com/in", "https://e.com:8443/in", "https://evil.example/in", "https://evil.example/{data.a}"]
)
def test_a_new_address_asks_for_every_secret_that_would_be_sent_there(url):
    with pytest.raises(InvalidEndpoint) as caught:
        ask_again(KNOWN, {"url": url})
    assert [(row["field"], row["code"]) for row in caught.value.errors] == [
        ("headers", "new_origin"),
        ("client_certificate", "new_origin"),
    ]
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidEndpoint) as caught:
        ask_again(KNOWN, {"url": url, "headers": {"x-key": "known"}})
    assert [row["field"] for row in caught.value.errors] == ["client_certificate"]


@pytest.mark.parametrize(
    ("standing", "given"),
    [
        (KNOWN, {"name": "new"}),
        (KNOWN, {"url": "https://E.com:443/other/path?t=2"}),
        (KNOWN, {"url": "https://new.example/", "headers": None, "client_certificate": ""}),
        (KNOWN, {"url": "https://new.example/", "headers": HEADERS, "client_certificate": "PEM"}),
        ({"url": "https://e.com/", "headers": None, "client_certificate": ""}, {"url": "https://new.example/"}),
    ],
)
def test_nothing_is_asked_again_where_nothing_secret_would_go_to_another_address(standing, given):
    assert ask_again(standing, given) is None


@pytest.mark.parametrize("lost", ["url", "headers", "client_certificate"])
def test_what_no_key_opens_counts_as_a_secret_and_as_another_address(lost):
    standing = {name: value for name, value in KNOWN.items() if name != lost}
    with pytest.raises(InvalidEndpoint) as caught:
        ask_again(standing, {"url": "https://new.example/"})
    assert len(caught.value.errors) == 2


def test_a_private_address_is_judged_by_whose_endpoint_it_is(settings):
    settings.DELIVERY_ALLOWED_NETWORKS = parse_openings("acme@10.0.0.0/8:8443, 10.9.0.0/16")
    assert clean({"url": "https://10.0.0.7:8443/", "subscriber": "acme"})["host"] == "10.0.0.7:8443"
    assert clean({"url": "https://10.9.0.7:3000/"})["host"] == "10.9.0.7:3000"
    for values in ({"subscriber": "bob"}, {"subscriber": ""}, {}):
        assert _refusal(**{"url": "https://10.0.0.7:8443/", **values}) == ("url", "private")
    assert _refusal(url="https://10.0.0.7:8444/", subscriber="acme") == ("url", "private")
    assert _refusal(url="https://10.9.0.7:3000/", subscriber="acme") == ("url", "private")
    assert _refusal(url="https://shop.example:25/") == ("url", "blocked_port")


def test_private_receivers_can_be_allowed(settings):
    with pytest.raises(InvalidEndpoint, match="DELIVERY_ALLOWED_NETWORKS"):
        check_destination("http://127.0.0.1:3000/", "")
    settings.DELIVERY_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    check_destination("http://127.0.0.1:3000/", "")


def test_a_name_is_judged_by_where_it_leads(monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ("10.0.0.9",))
    for tells_addresses, code in ((True, "private"), (False, "not_public")):
        with pytest.raises(InvalidEndpoint) as caught:
            check_destination("https://innocent.example/", "", tells_addresses=tells_addresses)
        assert (caught.value.errors[0]["code"], "10.0.0.9" in str(caught.value)) == (code, tells_addresses)
