"""The mutants of one module: its source with one small mistake each, made by cosmic-ray and by two rules of our own.

Cosmic-ray changes operators, numbers, conditions, decorators and loops. A lifecycle's mistakes are rather something
forgotten, so we also leave out one statement or one keyword argument at a time. What is no mistake in behaviour is
not tried: type annotations, whether a dataclass is frozen or a function cached, `is` for `==`, the order of words
(`state < "open"`). Of the eleven replacements of an arithmetic operator one is enough, since the tests that see one
of them see them all.
"""

import ast
import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ARITHMETIC = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "FloorDiv": "Mul", "Mod": "Mul", "Pow": "Mul",
    "BitOr": "BitAnd", "BitAnd": "BitOr", "BitXor": "BitAnd", "LShift": "RShift", "RShift": "LShift",
}  # fmt: skip
IDENTITY = ("Is", "IsNot")
ORDERINGS = ("_Lt", "_LtE", "_Gt", "_GtE")

Place = tuple[int, int]  # line from 1, column from 0


@dataclass(frozen=True)
class Mutant:
    """`change` is "before -> after" of the lines that differ, stripped: stable while the lines above move."""

    rule: str
    line: int
    change: str
    source: str


def mutants_of(source: str, changes: Collection[str] | None = None) -> list[Mutant]:
    """Every mutant of a module's source that compiles, each once, in the order of the lines.

    With `changes` only those in whose lines one of them begins, which costs a tenth.
    """
    found: dict[str, Mutant] = {}
    for rule, mutated in (*_by_cosmic_ray(source, _lines_of(source, changes)), *_left_out(source)):
        if mutated != source and _compiles(mutated):
            found.setdefault(mutated, Mutant(rule, *_difference(source, mutated), mutated))
    return sorted(found.values(), key=lambda mutant: (mutant.line, mutant.change))


def _lines_of(source: str, changes: Collection[str] | None) -> set[int]:
    """The lines, from 1, with which a change may begin; without any named, all."""
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    return {
        number
        for number, line in lines
        if changes is None or (line and any(change.startswith(line) for change in changes))
    }


def _by_cosmic_ray(source: str, lines: set[int]) -> Iterator[tuple[str, str]]:
    nodes = list(ast_nodes(get_ast(source)))
    excepted, of_words = _annotations(source) + _tuning(source), _comparisons_of_words(source)
    for name in sorted(cosmic_ray.plugins.operator_names()):
        operator_class = cosmic_ray.plugins.get_operator(name)
        if operator_class.arguments() or not _is_wanted(name):
            continue
        operator = operator_class()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, end) in enumerate(places):
            if lines.isdisjoint(range(start[0], end[0] + 1)):
                continue
            if _lies_in(excepted, start, end) or source.startswith("*,", _offset(source, start)):
                continue
            if name.endswith(ORDERINGS) and _lies_in(of_words, start, end):
                continue
            with contextlib.suppress(AttributeError):  # its rule for exceptions cannot take a dotted name
                yield name, mutate_code(source, operator, occurrence) or source


def _lies_in(spans: list[tuple[Place, Place]], start: Place, end: Place) -> bool:
    return any(first <= start and end <= last for first, last in spans)


def _comparisons_of_words(source: str) -> list[tuple[Place, Place]]:
    """Where a text or a member of an enum is compared."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare))
    return [_span(node) for node in found if any(map(_is_word, (node.left, *node.comparators)))]


def _is_word(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id.istitle()


def _is_wanted(name: str) -> bool:
    rule, _, words = name.partition("_")
    old, _, new = words.partition("_")
    if rule == "core/ReplaceBinaryOperator":
        return ARITHMETIC[old] == new
    if rule == "core/ReplaceComparisonOperator":
        return (old in IDENTITY) == (new in IDENTITY)
    return True


def _is_tuning(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("dataclass", "lru_cache")


def _tuning(source: str) -> list[tuple[Place, Place]]:
    """The options of dataclasses, and caches with all that belongs to them."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _is_tuning(node)]
    options = [_span(keyword.value) for node in calls for keyword in node.keywords]
    caches = [_span(node) for node in calls if ast.unparse(node.func) == "lru_cache"]
    return options + [((line, 0), (end_line + 1, 0)) for (line, _), (end_line, _) in caches]


def _annotations(source: str) -> list[tuple[Place, Place]]:
    nodes: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes.append(node.returns)
    return [_span(node) for node in nodes if node is not None]


def _span(node: ast.expr | ast.stmt) -> tuple[Place, Place]:
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


def _left_out(source: str) -> Iterator[tuple[str, str]]:
    """Without one statement (its place is taken by `pass`), and without one keyword argument of a call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and not _is_tuning(node):
            for keyword in node.keywords:
                yield "keyword left out", _without_keyword(source, keyword)
        elif _is_a_step(node):
            yield "statement left out", _replaced(source, *_span(node), "pass")


def _is_a_step(node: ast.AST) -> bool:
    """A statement done for its effect within a function or loop; not a docstring."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.AugAssign | ast.Raise) or (isinstance(node, ast.Assign) and node.col_offset > 0)


def _without_keyword(source: str, keyword: ast.keyword) -> str:
    value_end = (keyword.value.end_lineno or 0, keyword.value.end_col_offset or 0)
    start, end = _offset(source, (keyword.lineno, keyword.col_offset)), _offset(source, value_end)
    rest = source[end:]
    if rest.lstrip().startswith(","):
        end += rest.index(",") + 1
    return source[:start] + source[end:]


def _replaced(source: str, start: Place, end: Place, text: str) -> str:
    return source[: _offset(source, start)] + text + source[_offset(source, end) :]


def _offset(source: str, place: Place) -> int:
    """The character at a place; `ast` counts a column in bytes."""
    lines = source.splitlines(keepends=True)
    line, column = place
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _difference(source: str, mutated: str) -> tuple[int, str]:
    """The first line that differs, and "before -> after" of all that do."""
    before, after = source.splitlines(), mutated.splitlines()
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    return head + 1, f"{_joined(old)} -> {_joined(new)}"


def _joined(lines: list[str]) -> str:
    return " ".join(filter(None, map(str.strip, lines)))
