"""No regular expression can be kept busy by a stranger: none looks at a character again and again.

Python's engine tries every way to divide a text between repetitions. One repetition inside another is safe only where
the inner one cannot take what separates them; those are named here, and met with a text that would never end otherwise.
"""

import ast
import re
from importlib import import_module
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]

import pytest

from tests.house.source import modules, place

SEPARATED = {  # each with what the inner repetition cannot take
    "delivery/endpoint_rules.py EVENT_TYPE": "the dot",
    "delivery/endpoint_rules.py _FIELD_PATH": "the dot",
    "delivery/events.py TYPE": "the dot",
    "delivery/policy/postback.py _FIELD": "the dot",
}
LONG = 100_000
ENDLESS = (
    "a",
    "a.",
    "0",
    "_",
    "-",
    "{",
    "{a",
    "{a.",
    "//",
    ":",
    "[",
    "v1,",
    " ",
    "-----BEGIN CERTIFICATE-----",
    "0a",
    "%a",
)
FUNCTIONS = {
    f"re.{name}" for name in ("compile", "match", "search", "fullmatch", "sub", "split", "findall", "finditer")
}


def _named():
    """(`file NAME`, pattern) of every compiled pattern of the product that has a name."""
    for module in modules():
        if any(ast.unparse(call.func) == "re.compile" for call in module.nodes(ast.Call)):
            for name, value in vars(import_module(module.name.removesuffix(".py").replace("/", "."))).items():
                if isinstance(value, re.Pattern):
                    yield f"{module.name} {name}", value


def _unnamed():
    """(where, pattern) of those that are written where they are used, or in a list."""
    known = {pattern.pattern for _, pattern in _named()}
    for module in modules():
        for call in module.nodes(ast.Call):
            text = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            if text is not None and text not in known and ast.unparse(call.func) in FUNCTIONS:
                yield place(module, call), re.compile(text)


def _is_nested(tree, inside: bool = False) -> bool:
    """Whether an endless repetition stands inside of another one."""
    for operation, argument in tree:
        endless = operation in (sre.MAX_REPEAT, sre.MIN_REPEAT) and argument[1] == sre.MAXREPEAT
        if endless and inside:
            return True
        if any(_is_nested(part, inside or endless) for part in _parts(argument)):
            return True
    return False


def _parts(argument):
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for one in argument:
            yield from _parts(one)


def test_no_endless_repetition_stands_inside_another_but_where_something_keeps_them_apart():
    found = {name for name, pattern in [*_named(), *_unnamed()] if _is_nested(_parser.parse(pattern.pattern))}
    assert found == set(SEPARATED)


def test_the_check_finds_what_it_looks_for():
    assert _is_nested(_parser.parse(r"(a+)+$")) and _is_nested(_parser.parse(r"x(?:[ab]*c?)*"))
    assert not _is_nested(_parser.parse(r"a+b+(c{1,3}d)*"))


@pytest.mark.parametrize("name", SEPARATED)
def test_those_come_to_an_end_on_a_hundred_thousand_characters(name):
    pattern = dict(_named())[name]
    for unit in ENDLESS:
        text = (unit * LONG)[:LONG] + "!"
        assert pattern.fullmatch(text) is None


def test_a_pattern_of_a_schema_is_a_plain_one():
    """Those of kinds meet inputs of a megabyte: a class, counted or not, between its anchors."""
    found = [
        f"{place(module, value)} {value.value}"
        for module in modules()
        for node in module.nodes(ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "pattern" and isinstance(value, ast.Constant)
        if _is_nested(_parser.parse(value.value))
    ]
    assert found == []
