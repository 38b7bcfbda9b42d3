"""Postbacks: rightly encoded, never into the host, missing fields by policy, and masked for most eyes."""

import json
import time
import tracemalloc
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.policy.postback import (
    MASK,
    MAX_BODY_BYTES,
    FieldRefused,
    Template,
    TemplateInvalid,
    check_template,
    envelope_of,
    is_refusal_of_ours,
    is_refusal_of_the_event,
    masked,
    origin_of,
    render,
)
from kernel.network.addresses import AddressRefused

EVENT = {
    "type": "sale",
    "timestamp": "2026-05-01T12:00:00Z",
    "uid": "evt_1",
    "data": {
        "click_id": "a b&c=d",
        "city": "Łódź & Co",
        "payout": 12.5,
        "count": 3,
        "ok": True,
        "none": None,
        "o": {"x": [1]},
    },
}


def url(template, **options):
    return render(Template(template, **options), EVENT).url


def test_fields_arrive_encoded():
    rendered = url(
        "https://p.example/pb/{data.city}?click={data.click_id}&sum={data.payout}&n={data.count}&ok={data.ok}"
    )
    parts = urlsplit(rendered)
    assert parts.path == "/pb/%C5%81%C3%B3d%C5%BA%20%26%20Co"
    assert parse_qs(parts.query) == {"click": ["a b&c=d"], "sum": ["12.5"], "n": ["3"], "ok": ["true"]}
    assert url("https://p.example/?t={type}&u={uid}&at={timestamp}").endswith(
        "?t=sale&u=evt_1&at=2026-05-01T12%3A00%3A00Z"
    )


@pytest.mark.parametrize("field", ["data.nothing", "data.none", "data.city.deeper"])
def test_missing_fields(field):
    template = f"https://p.example/?a={{{field}}}"
    with pytest.raises(FieldRefused) as caught:
        url(template)
    assert (caught.value.code, caught.value.field) == ("missing_field", field)
    assert url(template, missing="empty") == "https://p.example/?a="
    filled = render(Template(template, missing="default", default="n/a"), EVENT)
    assert (filled.url, filled.missing_fields) == ("https://p.example/?a=n%2Fa", (field,))


def test_a_list_is_no_value():
    with pytest.raises(FieldRefused) as caught:
        url("https://p.example/?a={data.o}", missing="empty")
    assert caught.value.code == "not_plain"


def test_bodies_are_escaped_for_their_type():
    def body(text, content_type):
        return render(Template("https://p.example/", body=text, content_type=content_type), EVENT).body

    event = {"q": 'say "hi"\n'}
    template = Template("https://p.example/", body='{"q": "{data.q}", "n": {data.n}}', content_type="application/json")
    made = render(template, {"data": event | {"n": 5}})
    assert json.loads(made.body) == {"q": 'say "hi"\n', "n": 5}
    assert body("a={data.click_id}", "application/x-www-form-urlencoded") == b"a=a+b%26c%3Dd"
    assert body("<a>{data.city}</a>", "text/xml; charset=utf-8") == "<a>Łódź &amp; Co</a>".encode()
    assert body("{data.city}", "text/plain") == "Łódź & Co".encode()


@pytest.mark.parametrize(
    ("template", "code"),
    [
        ("https://{data.host}/", "field_in_host"),
        ("https://a.{data.host}.example/", "field_in_host"),
        ("https://a.example:{data.port}/", "field_in_host"),
        ("{data.scheme}://a.example/", "field_in_host"),
        ("https://a.example/?x={other.field}", "unknown_field"),
        ("https://a.example/?x={data}", "unknown_field"),
        ("https://a.example/?x={data.a b}", "brace"),
        ("https://a.example/?x={", "brace"),
    ],
)
def test_templates_that_can_never_work(template, code):
    with pytest.raises(TemplateInvalid) as caught:
        check_template(Template(template))
    assert caught.value.code == code


def test_a_template_is_checked_like_any_url():
    with pytest.raises(AddressRefused):
        check_template(Template("https://user@a.example/{data.x}"))
    assert check_template(Template("https://a.example/{data.x}?{type}={data.x}")) == ("data.x", "type")


def test_masks():
    assert masked("https://p.example:8443/pb/secret?click=1") == f"https://p.example:8443/{MASK}"
    assert masked("https://me:pw@p.example/x") == f"https://p.example/{MASK}"
    assert masked("https://p.example?token=1") == f"https://p.example/{MASK}"
    assert masked("nonsense ?token=1") == MASK
    assert "click" not in repr(render(Template("https://p.example/?c={data.click_id}"), EVENT))


@given(st.text(max_size=100))
def test_any_value_stays_inside_its_parameter(value):
    rendered = render(Template("https://p.example/a/{data.v}/b?x={data.v}&y=1"), {"data": {"v": value}})
    parts = urlsplit(rendered.url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "p.example", "")
    assert parts.path.startswith("/a/")
    assert parts.path.count("/") == 3
    query = parse_qs(parts.query, keep_blank_values=True)
    assert query == {"x": [value.encode("utf-8", "replace").decode()], "y": ["1"]}


def test_a_value_cannot_leave_the_xml_attribute_it_stands_in():
    template = Template("https://p.example/", "<a b='{data.x}' c=\"{data.x}\"/>", "text/xml")
    body = render(template, {"data": {"x": "' evil='1\" d=\"<&"}}).body.decode()
    assert body == "<a b='&#39; evil=&#39;1&quot; d=&quot;&lt;&amp;' c=\"&#39; evil=&#39;1&quot; d=&quot;&lt;&amp;\"/>"


@pytest.mark.parametrize(
    "error",
    [
        (check_template, Template("https://{data.host}/"), "not in the host"),
        (lambda template: render(template, {"data": {}}), Template("https://p.example/{data.x}"), "has no data.x"),
    ],
)
def test_a_refusal_says_what_is_wrong(error):
    judge, template, words = error
    with pytest.raises((TemplateInvalid, FieldRefused)) as caught:
        judge(template)
    assert words in caught.value.detail and str(caught.value) == caught.value.detail


def test_what_a_postback_holds_is_in_no_repr():
    template = Template("https://p.example/?token=hush-url&c={data.c}", body="hush-body {data.c}")
    shown = repr(template) + repr(render(template, {"data": {"c": "hush-value"}}))
    assert "hush" not in shown and "p.example" not in shown


def test_a_path_may_hold_two_slashes_before_a_field():
    assert check_template(Template("https://p.example/go//{data.x}")) == ("data.x",)


def test_the_host_is_sent_in_ascii():
    assert url("https://Bücher.example/{data.count}") == "https://xn--bcher-kva.example/3"


def test_a_value_that_makes_the_url_too_long_is_refused_for_this_event():
    with pytest.raises(FieldRefused) as caught:
        render(Template("https://p.example/{data.x}"), {"data": {"x": "x" * 8_000}})
    assert (caught.value.code, caught.value.field) == ("too_long", "url")
    assert "8,000" in caught.value.detail


def test_half_a_character_becomes_a_question_mark_everywhere():
    template = Template("https://p.example/{data.x}", "v={data.x}", "application/x-www-form-urlencoded")
    rendered = render(template, {"data": {"x": "a\ud800b"}})
    assert (rendered.url, rendered.body) == ("https://p.example/a%3Fb", b"v=a%3Fb")
    text = Template("https://p.example/", "{data.x}", "text/plain")
    assert render(text, {"data": {"x": "a\ud800b"}}).body == b"a?b"


def test_a_json_body_is_written_in_utf8():
    template = Template("https://p.example/", '{"city": "{data.city}"}', "application/json")
    assert render(template, EVENT).body == '{"city": "Łódź & Co"}'.encode()


@pytest.mark.parametrize("value", [".", ".."])
def test_dots_alone_do_not_climb(value):
    template = Template("https://p.example/a/{data.x}/b")
    assert render(template, {"data": {"x": value}}).url == f"https://p.example/a/{'%2E' * len(value)}/b"


def refusal(template, envelope):
    with pytest.raises(FieldRefused) as caught:
        render(template, envelope)
    return caught.value


def test_a_body_is_rendered_up_to_its_bound_and_refused_beyond_it():
    template = Template("https://p.example/", body="{data.x}" * 64, content_type="text/plain")
    assert len(render(template, {"data": {"x": "a" * (MAX_BODY_BYTES // 64)}}).body) == MAX_BODY_BYTES
    refused = refusal(template, {"data": {"x": "a" * (MAX_BODY_BYTES // 64 + 1)}})
    assert (refused.code, refused.field) == ("too_large", "body")
    assert refused.stored.startswith("too_large: The rendered body would be larger than 65,536 bytes.")
    assert is_refusal_of_ours(refused.stored) and is_refusal_of_the_event(refused.stored)
    assert len(refused.stored) <= 300


@pytest.mark.parametrize(
    ("content_type", "text", "size"),
    [("application/json", "\x01", 6), ("text/xml", "&", 5), ("", "€", 9), ("text/plain", "€", 3)],
)
def test_what_counts_is_the_encoded_size_in_bytes(content_type, text, size):
    template = Template("https://p.example/", body="{data.x}", content_type=content_type)
    most = MAX_BODY_BYTES // size
    assert len(render(template, {"data": {"x": text * most}}).body) == most * size
    assert refusal(template, {"data": {"x": text * (most + 1)}}).code == "too_large"


def test_a_url_is_refused_beyond_what_any_url_may_have():
    template = Template("https://p.example/?a={data.x}")
    rest = 8_000 - len("https://p.example/?a=")
    assert len(render(template, {"data": {"x": "b" * rest}}).url) == 8_000
    refused = refusal(template, {"data": {"x": "b" * (rest + 1)}})
    assert (refused.code, refused.field) == ("too_long", "url")
    assert "b" * 10 not in refused.stored


def test_a_refusal_costs_neither_the_memory_nor_the_time_of_what_it_refuses():
    """6 KB of template times half a megabyte would be 400 MB."""
    template = Template("https://p.example/", body="{data.x}" * 800, content_type="application/json")
    envelope = {"data": {"x": "\x01" * 500_000}}
    tracemalloc.start()
    try:
        assert refusal(template, envelope).code == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_field_that_stands_a_thousand_times_is_encoded_once(monkeypatch):
    encoded = []
    monkeypatch.setattr("delivery.policy.postback.quote_plus", lambda value, **_: encoded.append(value) or value)
    made = render(Template("https://p.example/", body="{data.x}" * 1_000), {"data": {"x": "ab"}})
    assert (made.body, encoded) == (b"ab" * 1_000, ["ab"])


@pytest.mark.parametrize("missing", ["refuse", "empty"])
def test_a_fields_name_is_cut_in_what_is_stored(missing):
    name = "data." + "x" * 7_000
    value = [] if missing == "empty" else None
    refused = refusal(Template(f"https://p.example/?a={{{name}}}", missing=missing), {"data": {"x" * 7_000: value}})
    assert len(refused.stored) < 200 and is_refusal_of_ours(refused.stored)
    with pytest.raises(TemplateInvalid) as caught:
        check_template(Template("https://p.example/?a={other" + "x" * 7_000 + "}"))
    assert len(caught.value.detail) < 200


def test_a_payload_from_before_there_was_a_limit_is_refused_and_breaks_nothing():
    deep = b'{"type": "a.b", "data": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    for payload, code in ((deep, "too_deep"), (b"[1]", "unreadable"), (b'{"data": 1', "unreadable")):
        with pytest.raises(FieldRefused) as caught:
            envelope_of(payload, "evt_1")
        assert caught.value.code == code
        assert caught.value.stored.startswith(f"{code}: ") and is_refusal_of_the_event(caught.value.stored)
    assert envelope_of(b'{"data": {"n": 1e2}}', "evt_1")["uid"] == "evt_1"


def test_reading_a_template_takes_time_in_proportion_to_its_length():
    """Sixteen times as long, where a square would be 256 times; the least of three, since the machine has others."""

    def seconds(length):
        times = []
        for _ in range(3):
            began = time.perf_counter()
            with pytest.raises((TemplateInvalid, AddressRefused)):
                check_template(Template("a" * length, body="{a" * length))
            times.append(time.perf_counter() - began)
        return min(times)

    seconds(1_000)
    assert seconds(80_000) < 100 * seconds(5_000)


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("https://a.example/x?t=1", "https://A.example:443/y/{data.z}", True),
        ("https://a.example/", "http://a.example/", False),
        ("https://a.example/", "https://a.example:8443/", False),
        ("https://a.example/", "https://b.example/", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one, other, are_same):
    assert (origin_of(one) == origin_of(other)) is are_same
