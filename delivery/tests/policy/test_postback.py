"""Postbacks: rightly encoded, never into the host, missing fields by policy, and masked for most eyes."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.policy.postback import (
    MASK,
    FieldRefused,
    Template,
    TemplateInvalid,
    check_template,
    masked,
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
