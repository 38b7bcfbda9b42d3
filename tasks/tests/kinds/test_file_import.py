"""Batches from files: every wrong line is named, and a file with one takes nothing in."""

import json

import pytest

from tasks import kinds
from tasks.kinds.file_import import BadFile, columns_of, items_from

SEARCH = kinds.get("map_search")
EMAIL = kinds.get("email_generation")


def test_csv_fields_are_converted_and_empty_ones_left_out():
    content = "\ufefftrade,place,country,limit,reference\nbakery, Łódź ,PL,5,r1\n寿司屋,東京,,,\n\n".encode()
    assert items_from(content, SEARCH) == [
        {"input": {"trade": "bakery", "place": "Łódź", "country": "PL", "limit": 5}, "reference": "r1"},
        {"input": {"trade": "寿司屋", "place": "東京", "limit": 10}, "reference": ""},
    ]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_delimiters(mark):
    content = f'trade{mark}place\r\nbakery{mark}"Łódź, centre"\r\n'.encode()
    assert items_from(content, SEARCH)[0]["input"]["place"] == "Łódź, centre"


def test_nested_fields_have_dotted_columns():
    assert set(columns_of(EMAIL)) >= {"business.name", "business.rating", "tone"}
    content = b"business.name,business.rating,tone\nBakery,4.5,formal\n"
    assert items_from(content, EMAIL)[0]["input"] == {"business": {"name": "Bakery", "rating": 4.5}, "tone": "formal"}


def test_json_lines_are_inputs_or_items():
    rows = [{"trade": "a", "place": "b"}, {"input": {"trade": "c", "place": "d"}, "reference": "r"}]
    content = "\n".join(map(json.dumps, rows)).encode()
    found = items_from(content, SEARCH, json_lines=True)
    assert [(item["input"]["trade"], item["reference"]) for item in found] == [("a", ""), ("c", "r")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"trade,place\na,b\nc,\n", [(3, "place")]),
        (b"trade,place,limit\na,b,many\nc,d,0\n", [(2, "limit"), (3, "limit")]),
        (b"trade,plaice\na,b\n", [(1, "plaice")]),
        (b"trade,place,trade\na,b,c\n", [(1, "trade")]),
        (b"trade,place\na,b,c\n", [(2, "")]),
        (b'trade,place\n"a\nb",\n', [(3, "place")]),
        (b'trade,place\na,b\n"c"d,e\n', [(3, "")]),
        (b'trade,place\na,b\nc,"d\n', [(3, "")]),
        (b"trade,place,limit\na,b,nan\nc,d,1_0\ne,f,\xd9\xa1\n", [(2, "limit"), (3, "limit"), (4, "limit")]),
        (b"trade,place\n", [(0, "")]),
        (b"", [(0, "")]),
        ("trade,place\na,b\nZürich,x\n".encode("latin-1"), [(3, "")]),
        (b"trade,place\na," + b"x" * 201 + b"\n", [(2, "place")]),
    ],
)
def test_wrong_lines_are_named(content, expected):
    with pytest.raises(BadFile) as refused:
        items_from(content, SEARCH)
    assert [(row.line, row.field) for row in refused.value.errors] == expected


@pytest.mark.parametrize(
    ("content", "line"), [(b'{"trade": "a", "place": "b"}\n{', 2), (b"[]", 1), (b'{"input": {}, "reference": 7}', 1)]
)
def test_wrong_json_lines_are_named(content, line):
    with pytest.raises(BadFile) as refused:
        items_from(content, SEARCH, json_lines=True)
    assert refused.value.errors[0].line == line


def test_too_many_rows_are_refused():
    with pytest.raises(BadFile, match="10000"):
        items_from(b"trade,place\n" + b"a,b\n" * 10_001, SEARCH)


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999", "4_0", "\u0664", "0x1", "9" * 400])
def test_what_json_would_not_call_a_number_is_none_in_csv(text):
    content = f"business.name,business.rating\nBar,{text}\n".encode()
    with pytest.raises(BadFile) as refused:
        items_from(content, kinds.get("scoring"))
    assert [(row.line, row.field) for row in refused.value.errors] == [(2, "business.rating")]
