"""The product's own source, parsed: what the checks of this folder read. Tests and migrations are left out."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FLOORS = ("config", "console", "webhooks", "tasks", "delivery", "kernel")
LEFT_OUT = {"tests", "migrations", "__pycache__"}


@dataclass(frozen=True)
class Module:
    """One file; `name` is its path from the root."""

    name: str
    tree: ast.Module

    @property
    def floor(self) -> str:
        return self.name.split("/")[0]

    @property
    def first_line(self) -> str:
        return (ast.get_docstring(self.tree) or "").split("\n", 1)[0]

    @functools.cached_property
    def _nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Every node of these kinds, kind by kind."""
        wanted = (kind for kind in self._nodes if issubclass(kind, kinds))
        return (node for kind in wanted for node in self._nodes[kind])

    def strings(self) -> Iterator[ast.Constant]:
        """Every text that is no docstring."""
        prose = {id(node.value) for node in self.nodes(ast.Expr)}
        for node in self.nodes(ast.Constant):
            if isinstance(node.value, str) and id(node) not in prose:
                yield node


@functools.cache
def modules() -> tuple[Module, ...]:
    paths = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))
    kept = [path for path in paths if not LEFT_OUT & set(path.relative_to(ROOT).parts)]
    return tuple(Module(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())) for path in kept)


def called(node: ast.Call) -> str:
    """The last name of what is called: `cursor.execute(…)` is `execute`."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def place(module: Module, node: ast.AST) -> str:
    return f"{module.name}:{node.lineno}"
