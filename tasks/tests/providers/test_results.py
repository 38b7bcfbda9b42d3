"""A result's bytes: mended where nothing is guessed, refused with the bytes where something would be."""

import pytest

from tasks.providers import results
from tasks.providers.base import BadAnswer


def test_a_good_result_is_taken_as_it_is():
    raw = '{"name": "Łódź", "n": 1.50}'.encode()
    assert results.read(raw) == results.Result({"name": "Łódź", "n": 1.5}, raw)


def test_a_byte_order_mark_is_dropped_without_a_word():
    found = results.read(b'\xef\xbb\xbf{"a": 1}')
    assert (found.value, found.note) == ({"a": 1}, "")


@pytest.mark.parametrize(
    ("raw", "value", "places"),
    [
        (rb'{"a": "x\u0000y"}', {"a": "x\ufffdy"}, "1 place"),
        (b'{"a": "x\x00y"}', {"a": "x\ufffdy"}, "1 place"),
        (rb'{"a": ["\ud800", "\udc00z"]}', {"a": ["\ufffd", "\ufffdz"]}, "2 places"),
        (rb'{"a\u0000": {"b": "\u0000\u0000"}}', {"a\ufffd": {"b": "\ufffd\ufffd"}}, "2 places"),
    ],
)
def test_nul_and_half_characters_are_replaced_and_said_and_the_bytes_go_along(raw, value, places):
    found = results.read(raw)
    assert (found.value, found.raw) == (value, raw)
    assert found.note.startswith(f"In {places} of it NUL or half a character was replaced")


def test_a_whole_pair_is_a_character_and_stays():
    found = results.read(rb'{"a": "\ud83d\ude00"}')
    assert (found.value, found.note) == ({"a": "😀"}, "")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON value"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        (rb'{"a": "\u0000", "b": 1, "b": 2}', "contains the NUL|occurs twice"),
        (rb'{"a\u0000": 1, "a\ud800": 2}', "NUL|surrogate"),
        (b'{"a": "caf\xe9"}', 'read as Latin-1 it would say “{"a": "café"}” there'),
        (b"", "the answer is empty"),
        (b"<html>", "not JSON"),
        (b'{"a": "cut', "not JSON"),
        (b"[" * 101 + b"]" * 101, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_what_would_have_to_be_guessed_at_is_refused_with_its_bytes(raw, why):
    with pytest.raises(BadAnswer, match=why) as caught:
        results.read(raw)
    assert caught.value.raw == raw


def test_a_result_that_an_adapter_parsed_itself_is_judged_alike():
    assert results.of({"a": "x\0"}).value == {"a": "x\ufffd"}
    for bad in ({"a": float("nan")}, {"a": {1, 2}}):
        with pytest.raises(BadAnswer):
            results.of(bad)
    deep = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadAnswer, match="nested"):
        results.of(deep)
