"""Lines of a long body: none lost, none longer than the bound, wherever the pieces are cut."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.providers import lines


def test_lines_are_those_of_the_whole_however_it_is_cut():
    whole = b'{"a": 1}\n\n{"b": 2}\r\n  \n{"c": 3}'
    for size in range(1, len(whole) + 1):
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert [line.strip() for line, _ in lines.of(parts)] == [b'{"a": 1}', b'{"b": 2}', b'{"c": 3}']


def test_a_line_that_is_too_long_is_cut_and_its_neighbours_are_whole():
    whole = b"short\n" + b"x" * 100 + b"\nlast\n"
    for size in (1, 7, 1000):
        parts = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert list(lines.of(parts, 10)) == [(b"short", True), (b"x" * 10, False), (b"last", True)]


def test_a_line_of_just_the_bound_is_whole():
    assert list(lines.of([b"x" * 10, b"\n"], 10)) == [(b"x" * 10, True)]
    assert list(lines.of([])) == list(lines.of([b"", b"\n\n"])) == []


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_no_line_is_longer_than_the_bound_and_whole_ones_are_in_the_body(parts, most):
    whole = b"".join(parts)
    for line, is_whole in lines.of(parts, most):
        assert len(line) <= most
        assert not is_whole or line in whole.split(b"\n")
