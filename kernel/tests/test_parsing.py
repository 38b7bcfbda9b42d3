"""JSON that PostgreSQL or a reader would choke on is refused with words; everything else passes unchanged."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ParseError

from kernel.json_fields import StrictDecoder
from kernel.parsing import (
    MAX_DEPTH,
    TOO_DEEP,
    HostileJSON,
    StrictJSONParser,
    cut,
    is_too_deep,
    shown_loads,
    strict_loads,
    tolerant_loads,
)

OTHER_ENCODINGS = [(f"utf-{bits}{order}", f"UTF-{bits}") for bits in (16, 32) for order in ("", "-le", "-be")]
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(json_values, st.booleans())
def test_storable_json_comes_back_as_it_was(value, ascii_only):
    assert strict_loads(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"a": "\\u0000"}', "NUL"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e400}', "1e400 is too large"),
        (b"[-1e999999]", "too large"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": "\xe9"}', "not UTF-8 .byte 7"),
        *[('{"a": 1}'.encode(name), f"not UTF-8: it is {told}") for name, told in OTHER_ENCODINGS],
        (b"", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1} x', "not JSON"),
    ],
)
def test_hostile_json_is_refused_with_words(raw, words):
    with pytest.raises(HostileJSON, match=words):
        strict_loads(raw)


def test_an_escaped_backslash_before_u0000_is_just_text():
    assert strict_loads(b'{"a": "\\\\u0000"}') == {"a": "\\u0000"}


def test_a_surrogate_pair_is_one_character():
    assert strict_loads(b'"\\ud83d\\ude00"') == "\U0001f600"


def nested(depth, inner=b"1"):
    """So many lists and objects, in turn."""
    opened = [b"[", b'{"a":'] * depth
    closed = [b"]", b"}"] * depth
    return b"".join(opened[:depth]) + inner + b"".join(reversed(closed[:depth]))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 952, 960, 993, 50_000])
def test_nesting_beyond_the_limit_is_refused_at_any_depth(depth):
    with pytest.raises(HostileJSON, match="at most 100"):
        strict_loads(nested(depth))
    with pytest.raises(HostileJSON, match="at most 100"):
        strict_loads(b"[" + b"{}," * 200 + nested(depth) + b"]")


def test_nesting_up_to_the_limit_and_any_number_side_by_side_pass():
    assert not is_too_deep(strict_loads(nested(MAX_DEPTH)))
    assert len(strict_loads(b"[" + b",".join([b"[{}]"] * 5_000) + b"]")) == 5_000
    assert strict_loads(b'"' + b"[" * 5_000 + b'"') == "[" * 5_000


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 952, 992, 50_000])
def test_what_is_stored_deeper_is_shown_cut_and_can_be_written(depth):
    shown = shown_loads(nested(depth))
    assert not is_too_deep(shown)
    assert TOO_DEEP in json.dumps(shown, ensure_ascii=False, indent=2)
    assert cut(shown) is shown


def test_a_tolerant_reader_keeps_the_good_entries_and_makes_the_bad_ones_harmless():
    said = tolerant_loads(b'[{"a": "x\\u0000"}, {"a": "\\ud800y"}, {"a": NaN, "b": 1e400}, {"a": 1, "a": 2}, {"a": 1}]')
    assert said == [{"a": "x\ufffd"}, {"a": "\ufffdy"}, {"a": None, "b": None}, {"a": None}, {"a": 1}]
    assert not is_too_deep(tolerant_loads(b"[[1]," + nested(900) + b"]"))
    for junk in (b"", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(HostileJSON):
            tolerant_loads(junk)


@pytest.mark.parametrize("read", [strict_loads, tolerant_loads])
def test_a_byte_order_mark_before_the_json_is_no_part_of_it(read):
    assert read(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    with pytest.raises(HostileJSON, match="not JSON"):
        read(b"\xef\xbb\xbf\xef\xbb\xbf{}")


@pytest.mark.parametrize(("name", "told"), OTHER_ENCODINGS)
def test_a_tolerant_reader_names_another_encoding_too(name, told):
    with pytest.raises(HostileJSON, match=f"it is {told}; send it as UTF-8"):
        tolerant_loads('{"a": 1}'.encode(name))


def test_the_api_reads_over_a_byte_order_mark_and_names_another_encoding():
    assert StrictJSONParser().parse(io.BytesIO(b'\xef\xbb\xbf{"a": 1}')) == {"a": 1}
    with pytest.raises(ParseError, match="it is UTF-16; send it as UTF-8"):
        StrictJSONParser().parse(io.BytesIO('{"a": 1}'.encode("utf-16")))


def test_a_form_reads_over_a_byte_order_mark():
    assert StrictDecoder().decode('\ufeff{"a": 1}') == {"a": 1}
