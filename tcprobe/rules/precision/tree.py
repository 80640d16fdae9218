"""A file as the precision rules read it: its calls, what surrounds a node, names and numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from tcprobe.source.enclosing import is_main_guard
from tcprobe.source.scopes import FunctionNode

if TYPE_CHECKING:
    from tcprobe.source.source import Source

_BRANCHES: Final = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match, ast.ExceptHandler, ast.BoolOp)
_MODEL_BASE: Final = re.compile(r"(?:Model|Sequential|Functional)$")


class Tree:
    """A parsed module with its calls, and the parent of each node."""

    def __init__(self, root: ast.Module) -> None:
        self.root = root
        self.nodes = list(ast.walk(root))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node; the module has none."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    def called(self, *names: str) -> list[ast.Call]:
        """Return the calls of methods or functions whose name as written ends in one of these."""
        return [call for call in self.calls if _last_name(call.func) in names]

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

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class around a node; None if there is none."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def unit_of(self, node: ast.AST) -> ast.AST:
        """Return the outermost function or class around a node; the module if there is none."""
        around = [a for a in self.ancestors(node) if isinstance(a, FunctionNode | ast.ClassDef)]
        return around[-1] if around else self.root

    def statement_of(self, node: ast.AST) -> ast.AST:
        """Return the innermost statement around a node; the module if there is none."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.stmt)), self.root)

    def conditional(self, node: ast.AST) -> bool:
        """Say whether a condition decides if a node runs, within its function or module."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, FunctionNode | ast.Lambda):
                return False
            if isinstance(ancestor, _BRANCHES) and not (isinstance(ancestor, ast.If) and is_main_guard(ancestor.test)):
                return True
        return False

    def assigned(self, name: str) -> list[ast.expr]:
        """Return every value that plain assignments give to a name (``x``) or attribute (``self.x``)."""
        return self._assignments.get(name, [])

    @cached_property
    def _assignments(self) -> dict[str, list[ast.expr]]:
        values: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name | ast.Attribute):
                        values.setdefault(ast.unparse(target), []).append(node.value)
        return values

    def call_behind(self, node: ast.expr | None) -> ast.Call | None:
        """Return the call that a value comes from: the value itself, or the only value ever assigned to its name."""
        values = self.assigned(ast.unparse(node)) if isinstance(node, ast.Name | ast.Attribute) else [node]
        return values[0] if len(values) == 1 and isinstance(values[0], ast.Call) else None


# Per file, and only while the file is in use: an audit of a thousand files keeps no more than it needs.
_TREES: Final[WeakKeyDictionary[Source, Tree]] = WeakKeyDictionary()


def tree_of(source: Source) -> Tree:
    """Return the tree of a file, built once for all rules."""
    tree = _TREES.get(source)
    if tree is None:
        tree = _TREES[source] = Tree(source.tree)
    return tree


def name_of(source: Source, node: ast.expr) -> str:
    """Return the canonical dotted name of an expression; empty if unknown."""
    return source.name_of(node) or ""


def number_of(source: Source, node: ast.expr | None) -> float | None:
    """Return the number that an expression is known to be; None if it is none or unknown."""
    known = source.known(node) if node is not None else None
    value = known.value if known is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument; None if it is not given."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def is_model_class(node: ast.ClassDef) -> bool:
    """Say whether a class inherits from a Keras model, judging by the names of its bases."""
    return any(_MODEL_BASE.search(ast.unparse(base)) for base in node.bases)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else (node.id if isinstance(node, ast.Name) else "")


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        yield _last_name(node)
    elif isinstance(node, ast.keyword | ast.arg) and node.arg:
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.name.rpartition(".")[2]
    elif isinstance(node, FunctionNode | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
        yield node.value
