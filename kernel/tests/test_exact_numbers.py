"""A number goes out letter by letter as it came in."""

import json
import random

import pytest

from kernel import exact_numbers
from kernel.exact_numbers import Number
from kernel.parsing import HostileJSON, strict_loads


def _compact(value, **options):
    return exact_numbers.dumps(value, separators=(",", ":"), **options)


@pytest.mark.parametrize(
    "text",
    ["0.1234567890123456789", "-0", "-0.0", "1e2", "1E2", "1e+2", "1.0", "1.50", "5e-324", "1e-400", "0", "7",
     "1" * 9_000, "1.7976931348623157e308", "123456789012345678901234567890", "0.1", "100.0", "1e16", "1e-7"],
)  # fmt: skip
def test_there_and_back(text):
    assert _compact(strict_loads(f'{{"n":[{text}]}}'.encode(), keeps_numbers=True)) == f'{{"n":[{text}]}}'
    assert _compact(exact_numbers.loads(text)) == text


def test_an_ordinary_number_stays_an_ordinary_number():
    assert [type(one) for one in exact_numbers.loads("[1, 12.5, -3, 0.1]")] == [int, float, int, float]
    assert strict_loads(b"[1e2, 0.1234567890123456789]") == [100.0, 0.1234567890123456789]


def test_any_number_at_all():
    rng = random.Random(4)
    for _ in range(2_000):
        whole = str(rng.randrange(10 ** rng.randrange(1, 40)))
        fraction = rng.choice(["", f".{rng.randrange(10**20):0{rng.randrange(1, 25)}d}"])
        exponent = rng.choice(["", f"{rng.choice('eE')}{rng.choice(['', '+', '-'])}{rng.randrange(200)}"])
        text = rng.choice(["", "-"]) + whole + fraction + exponent
        assert _compact(exact_numbers.loads(text)) == text


def test_a_text_that_looks_like_a_mark_stays_a_text():
    value = {"a": Number("1e2"), "b": ":0", "c": '":0"', "1:0": "0" * 32 + ":0"}
    assert json.loads(_compact(value)) == {**value, "a": 100.0}


def test_other_strange_values_are_refused_as_ever():
    with pytest.raises(TypeError):
        _compact({"a": object()})
    assert _compact({"a": {1}}, default=sorted) == '{"a":[1]}'
    with pytest.raises(HostileJSON, match="too large"):
        strict_loads(b"1e999", keeps_numbers=True)
