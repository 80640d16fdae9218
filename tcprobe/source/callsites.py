"""Which functions of a file its calls may reach, as the syntax alone tells."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tcprobe.source.names import DottedNames
from tcprobe.source.scopes import FunctionNode
from tcprobe.source.walk import Walk


@dataclass(frozen=True, slots=True)
class Sites:
    """Calls of one function.

    Attributes:
        calls: the calls, each with the number of leading parameters that it does not pass (`self`).
        escapes: whether it is used otherwise than by calling it, so that there may be other calls.
    """

    calls: tuple[tuple[ast.Call, int], ...]
    escapes: bool


class CallSites:
    """Calls of the functions, methods and classes of one file."""

    def __init__(self, walk: Walk, names: DottedNames) -> None:
        self._walk = walk
        self._names = names
        self._calls: dict[ast.AST, list[tuple[ast.Call, int]]] = {}
        self._escaped: set[ast.AST] = set()
        self._owned = {f.name for f, _ in walk.functions}
        self._read_calls()
        self._read_escapes()

    def of(self, function: FunctionNode | ast.Lambda) -> Sites:
        """Return the calls that may reach a function."""
        return Sites(tuple(self._calls.get(function, ())), function in self._escaped)

    def _read_calls(self) -> None:
        for call, _ in self._walk.calls:
            for function, skipped in self.targets(call.func):
                self._calls.setdefault(function, []).append((call, skipped))

    def targets(self, func: ast.expr) -> list[tuple[FunctionNode, int]]:
        """Return the functions of the file that a called expression may be, each with its unpassed parameters."""
        if isinstance(func, ast.Attribute) and _is_super(func.value):
            return self._above(func)
        if isinstance(func, ast.Attribute):
            methods = self._walk.methods.get(func.attr, []) if self._names.written(func) is None else []
            return [(m, 0 if _static(m) else 1) for m in methods]
        if not isinstance(func, ast.Name):
            return []
        found: list[tuple[FunctionNode, int]] = []
        for binding in self._names.bindings(func):
            node = binding.node
            if binding.kind == "def" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((node, 0))
            elif isinstance(node, ast.ClassDef):
                found.extend((m, 1) for m in self._constructors(node))
        return found

    def _constructors(self, node: ast.ClassDef) -> list[FunctionNode]:
        """Return what a call of a class runs: its own ``__init__``, or the nearest that it inherits in the file."""
        seen: set[ast.ClassDef] = set()
        todo = [node]
        while todo:
            at = todo.pop(0)
            if at in seen:
                continue
            seen.add(at)
            own = [m for m in at.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
            if own:
                return list(own)
            named = [b.node for base in at.bases if isinstance(base, ast.Name) for b in self._names.bindings(base)]
            todo = [*(c for c in named if isinstance(c, ast.ClassDef)), *todo]
        return []

    def _above(self, func: ast.Attribute) -> list[tuple[FunctionNode, int]]:
        """Return the methods of the file that ``super().name`` may be: those of the bases of the class around it."""
        name = func.value.func if isinstance(func.value, ast.Call) else func.value
        use = self._walk.uses.get(name)
        scope = use.scope if use else None
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        bases = scope.node.bases if scope is not None and isinstance(scope.node, ast.ClassDef) else []
        above = {b.node for base in bases if isinstance(base, ast.Name) for b in self._names.bindings(base)}
        named = self._walk.methods.get(func.attr, [])
        return [(m, 1) for m in named if any(isinstance(c, ast.ClassDef) and m in c.body for c in above)]

    def _read_escapes(self) -> None:
        for node in self._walk.uses:
            if isinstance(node, ast.Name) and node.id in self._owned and node not in self._walk.called:
                self._escaped.update(f for f, _ in self.targets(node))


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _static(function: FunctionNode) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
