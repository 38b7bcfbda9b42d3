"""Custom headers never override ours and never carry a second line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.engine.handles import checked_lines
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
