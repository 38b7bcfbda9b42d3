"""Custom headers never override ours and never carry a second line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.engine.transport.handles import checked_lines
from delivery.policy.headers import HeaderRefused, check_headers, header_lines


def test_good_ones():
    assert check_headers({"Authorization": " Bearer x ", "X-Empty": ""}) == {"Authorization": "Bearer x", "X-Empty": ""}
    assert header_lines({"A": "b", "X-Empty": ""}) == ["A: b", "X-Empty;"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        *[
            ({name: "x"}, "reserved")
            for name in ("Host", "content-type", "Content-Length", "webhook-id", "Webhook-Foo")
        ],
        *[({name: "x"}, "reserved") for name in ("Connection", "TE", "Transfer-Encoding", "Proxy-Authorization")],
        *[({name: "x"}, "reserved") for name in ("Webhook_Id", "Content_Length", "X_Forwarded_For")],
        *[({name: "x"}, "reserved") for name in ("User-Agent", "traceparent", "X-Correlation-Id", "Expect")],
        *[({name: "x"}, "name") for name in ("", "a b", "a:b", "a\r\nb", "ü", "a\x00")],
        *[({"x-a": value}, "value") for value in ("a\r\nb: c", "a\nb", "\x00", "ü", "a\x7f", 5)],
        ({f"x-{i}": "v" for i in range(21)}, "too_many"),
        ({"x-a": "v" * 5000}, "too_long"),
        ({"x-a": "1", "X-A": "2"}, "name"),
    ],
)
def test_refused(headers, code):
    with pytest.raises(HeaderRefused) as caught:
        check_headers(headers)
    assert caught.value.code == code


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=5))
def test_what_passes_makes_whole_lines(headers):
    try:
        kept = check_headers(headers)
    except HeaderRefused:
        return
    lines = checked_lines(header_lines(kept))
    assert len("\n".join(lines).splitlines()) == len(kept)


def test_twenty_headers_and_4096_bytes_may_be_had_and_not_one_more():
    assert len(check_headers({f"x-{i}": "v" for i in range(20)})) == 20
    full = {"x-a": "v" * 2045, "x-b": "v" * 2045}
    assert check_headers(full) == full
    with pytest.raises(HeaderRefused, match="4096 bytes"):
        check_headers({**full, "x-b": "v" * 2046})


@pytest.mark.parametrize(
    ("headers", "field", "words"),
    [
        ({"Host": "x"}, "Host", "Host is set by us"),
        ({"x-a": "ü"}, "x-a", "value of x-a may hold printable ASCII"),
        ({"x-a": 5}, "x-a", "must be a text"),
        ({"a b" * 50: "x"}, ("a b" * 50)[:100], "letters, digits and hyphens"),
        ({f"x-{i}": "v" for i in range(21)}, "", "20 headers"),
    ],
)
def test_a_refusal_names_the_header_and_says_what_is_wrong(headers, field, words):
    with pytest.raises(HeaderRefused) as caught:
        check_headers(headers)
    assert caught.value.field == field
    assert words in caught.value.detail and str(caught.value) == caught.value.detail
