"""JSON that PostgreSQL or a reader would choke on is refused with words; everything else passes unchanged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.parsing import HostileJSON, strict_loads

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
