"""The tests themselves: none that cannot fail, none that measures the machine's mood, none that a choice forgot."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import INTEGRATION

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("config", "console", "delivery", "kernel", "sandbox", "tasks", "tests", "webhooks")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("test_*.py"))]
TIMERS = ("monotonic", "perf_counter", "time")
LIVENESS_SECONDS = 5.0  # a bound this generous says "it did not hang"; a tighter one fails on a busy machine
CHECKS = ("assert", "raises", "expect", "until", "wait_for", "run_state_machine_as_test", "fail")


def found_in(source: str) -> list[str]:
    """Each suspicious place of a test file, as "line: what"."""
    tree = ast.parse(source)
    checkers = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _checks(node, set())}
    return sorted(f"{line}: {what}" for node in ast.walk(tree) for line, what in _suspicions(node, checkers))


def _suspicions(node: ast.AST, checkers: set[str]) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
        if not _checks(node, checkers):
            yield node.lineno, "asserts nothing"
    elif isinstance(node, ast.Assert):
        for what in _always_true(node.test):
            yield node.lineno, what
    elif isinstance(node, ast.Call):
        for what in _empty_call(node):
            yield node.lineno, what
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare):
        yield node.lineno, "compares and forgets the answer"
    elif isinstance(node, ast.Try) and any(map(_catches_all, node.handlers)) and any(map(_asserts, node.body)):
        yield node.lineno, "swallows its own assertion"


def _checks(function: ast.FunctionDef | ast.AsyncFunctionDef, checkers: set[str]) -> bool:
    """Whether it asserts by itself, or calls what does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in checkers or any(word in name for word in CHECKS):
                return True
    return False


def _always_true(test: ast.expr) -> Iterator[str]:
    if isinstance(test, ast.Tuple | ast.Constant):
        yield "asserts a constant"
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and any(map(_is_true, test.values)):
        yield "is true by its second half"
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from _about(node.left, node.ops[0], node.comparators[0])


def _about(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Iterator[str]:
    if ast.dump(left) == ast.dump(right) and not any(isinstance(node, ast.Call) for node in ast.walk(left)):
        yield "compares something with itself"
    if isinstance(operator, ast.GtE) and _is_call_of(left, "len") and ast.unparse(right) == "0":
        yield "no length is below 0"
    if isinstance(operator, ast.Lt | ast.LtE) and _is_elapsed(left) and _is_tight(right):
        yield f"measures the machine: less than {ast.unparse(right)} s"


def _empty_call(call: ast.Call) -> Iterator[str]:
    name = ast.unparse(call.func)
    if name == "pytest.raises" and call.args and ast.unparse(call.args[0]) in ("Exception", "BaseException"):
        yield "expects any exception at all"
    if name.endswith("parametrize") and len(call.args) > 1 and _is_empty(call.args[1]):
        yield "has no parameters"


def _asserts(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(statement))


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or ast.unparse(handler.type) in ("Exception", "BaseException", "AssertionError")


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and not node.elts


def _is_tight(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value < LIVENESS_SECONDS


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == name


def _is_elapsed(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Call)
        and ast.unparse(node.left.func) in {f"time.{timer}" for timer in TIMERS}
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_can_fail_and_none_measures_the_machine(path):
    assert found_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def test_a():\n    work()", "asserts nothing"),
        ("def test_a():\n    assert work() or True", "is true by its second half"),
        ("def test_a():\n    assert (work(), 'words')", "asserts a constant"),
        ("def test_a():\n    assert x == x", "compares something with itself"),
        ("def test_a():\n    assert len(rows) >= 0", "no length is below 0"),
        ("def test_a():\n    assert x\n    x == 1", "compares and forgets the answer"),
        ("def test_a():\n    assert time.monotonic() - began < 1", "measures the machine: less than 1 s"),
        ("def test_a():\n    with pytest.raises(Exception):\n        work()", "expects any exception at all"),
        (
            "def test_a():\n    try:\n        assert x\n    except Exception:\n        pass",
            "swallows its own assertion",
        ),
        ("@pytest.mark.parametrize('x', [])\ndef test_a(x):\n    assert x", "has no parameters"),
    ],
)
def test_each_kind_is_found(source, what):
    assert [place.partition(": ")[2] for place in found_in(source)] == [what]


@pytest.mark.parametrize(
    "source",
    [
        "def test_a():\n    assert throws() == throws()",
        "def test_a():\n    assert time.monotonic() - began < 20",
        "def test_a():\n    assert work() or other()",
        "def check(x):\n    assert x\ndef test_a():\n    check(1)",
    ],
)
def test_what_can_fail_is_let_alone(source):
    assert found_in(source) == []


@pytest.mark.parametrize("chosen", INTEGRATION)
def test_what_is_chosen_for_every_topology_exists(chosen):
    path, _, name = chosen.partition("::")
    files = [ROOT / path] if name else list(ROOT.glob(f"{path}*.py"))
    assert len(files) == 1 and files[0].is_file()
    assert not name or f"def {name}" in files[0].read_text(encoding="utf-8")
