"""Find what surrounds a node of a syntax tree: its function, its class, the conditions it depends on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from tcprobe.source.scopes import FunctionNode

_BRANCHES: Final = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match, ast.ExceptHandler, ast.BoolOp)
_MODEL_BASE: Final = re.compile(r"(?:Model|Sequential|Functional)$")
_LAYER_BASE: Final = re.compile(r"(?:Layer|Model|Wrapper|Block|Cell|Sequential)$|\blayers\.\w+$")


class Parents:
    """A parsed module, with the parent of each node."""

    def __init__(self, root: ast.Module) -> None:
        self.root = root
        self.nodes = list(ast.walk(root))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node; the module has none."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """Every call, by the last part of the called name as written; under an empty name if it has none."""
        found: dict[str, list[ast.Call]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Call):
                found.setdefault(last_name(node.func), []).append(node)
        return found

    @property
    def every_call(self) -> Iterator[ast.Call]:
        """Every call."""
        return (node for calls in self.calls.values() for node in calls)

    def called(self, *names: str) -> list[ast.Call]:
        """Return the calls of methods or functions whose name ends in one of these."""
        return [node for name in names for node in self.calls.get(name, ())]

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier in the code (names, attributes, arguments, imports) and every string."""
        return frozenset(word for node in self.nodes for word in _words(node))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, from the innermost."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function around a node; None at module level."""
        return next((a for a in self.ancestors(node) if isinstance(a, FunctionNode)), None)

    def unit_of(self, node: ast.AST) -> ast.AST:
        """Return the outermost function or class around a node; the module if there is none."""
        around = [a for a in self.ancestors(node) if isinstance(a, FunctionNode | ast.ClassDef)]
        return around[-1] if around else self.root

    def statement_of(self, node: ast.AST) -> ast.AST:
        """Return the innermost statement around a node, or the node itself; the module if there is none."""
        around = (a for a in (node, *self.ancestors(node)) if isinstance(a, ast.stmt))
        return next(around, self.root)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class around a node; None if there is none."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def conditional(self, node: ast.AST) -> bool:
        """Say whether a condition decides if a node runs, within its function or module."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, FunctionNode | ast.Lambda):
                return False
            if isinstance(ancestor, _BRANCHES) and not _is_main_guard(ancestor):
                return True
        return False

    def functions(self) -> Iterator[FunctionNode]:
        """Yield every function."""
        return (node for node in self.nodes if isinstance(node, FunctionNode))

    def assigned(self, name: str) -> list[ast.expr]:
        """Return every value that plain assignments give to a name (``x``) or attribute (``self.x``)."""
        return self._assignments.get(name, [])

    @cached_property
    def _assignments(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name | ast.Attribute):
                        found.setdefault(ast.unparse(target), []).append(node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                found.setdefault(ast.unparse(node.target), []).append(node.value)
        return found

    def call_behind(self, node: ast.expr) -> ast.Call | None:
        """Return the call that a value comes from: the value itself, or the only value ever assigned to its name."""
        if isinstance(node, ast.Call):
            return node
        values = self.assigned(ast.unparse(node)) if isinstance(node, ast.Name | ast.Attribute) else []
        return values[0] if len(values) == 1 and isinstance(values[0], ast.Call) else None


def is_model_class(node: ast.ClassDef) -> bool:
    """Say whether a class inherits from a Keras model, judging by the names of its bases."""
    return any(_MODEL_BASE.search(ast.unparse(base)) for base in node.bases)


def is_layer_class(node: ast.ClassDef) -> bool:
    """Say whether a class inherits from a Keras layer or model, judging by the names of its bases."""
    return any(_LAYER_BASE.search(ast.unparse(base)) for base in node.bases)


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name as written; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else (node.id if isinstance(node, ast.Name) else "")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument; None if it is not given."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.keyword | ast.arg) and node.arg:
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.name.rpartition(".")[2]
    elif isinstance(node, FunctionNode | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
        yield node.value
