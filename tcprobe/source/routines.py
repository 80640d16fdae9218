"""Which functions of a file its calls may reach, as the syntax alone tells, and what that tells against a value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

from msgspec import Struct

from tcprobe.source.names import DottedNames
from tcprobe.source.scopes import FunctionNode, Scope, method_of, owner
from tcprobe.source.values import DOUBTED, Doubts
from tcprobe.source.walk import Walk

_CONSTRUCTORS: Final = {"__init__", "build", "setup", "__post_init__"}  # run before any other method
_SURE: Final[Doubts] = frozenset()


class Sites(Struct, frozen=True):
    """Calls of one function."""

    calls: tuple[ast.Call, ...]
    escapes: bool  # whether it is used otherwise than by calling it, so that there may be other calls


class Routines:
    """The functions, methods and classes of one file."""

    def __init__(self, walk: Walk, names: DottedNames) -> None:
        self._walk = walk
        self._names = names
        self._of_names: dict[ast.Name, Doubts] = {}
        self._of_parts: dict[ast.expr, Doubts] = {}
        self._of_attributes: dict[tuple[ast.ClassDef, str], Doubts] = {}

    def sites(self, function: ast.AST) -> Sites:
        """Return the calls that may reach a function."""
        return Sites(tuple(self._calls.get(function, ())), function in self._escaped)

    @cached_property
    def _calls(self) -> dict[ast.AST, list[ast.Call]]:
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self._walk.calls:
            for function in self._targets(call.func):
                found.setdefault(function, []).append(call)
        return found

    @cached_property
    def _escaped(self) -> set[ast.AST]:
        names = {function.name for function in self._walk.functions}
        uses = self._walk.uses.keys() - self._walk.called
        passed = (node for node in uses if isinstance(node, ast.Name) and node.id in names)
        return {function for node in passed for function in self._targets(node)}

    def _targets(self, func: ast.expr) -> Iterator[FunctionNode]:
        """Yield the functions that a called expression may be: of a class its constructors."""
        if isinstance(func, ast.Attribute) and self._names.written(func) is None:
            yield from self._walk.methods.get(func.attr, ())
        for binding in self._names.bindings(func) if isinstance(func, ast.Name) else ():
            if isinstance(binding.node, ast.ClassDef):
                line = self._lineage(binding.node)
                yield from (m for m in self._walk.methods.get("__init__", ()) if any(m in c.body for c in line))
            elif isinstance(binding.node, FunctionNode) and binding.kind == "def":
                yield binding.node

    def _lineage(self, of: ast.ClassDef) -> dict[ast.ClassDef, None]:
        """Return a class and those of the file that it extends."""
        found = {of: None}
        todo = [of]
        for at in todo:
            named = [b.node for base in at.bases if isinstance(base, ast.Name) for b in self._names.bindings(base)]
            todo += [c for c in named if isinstance(c, ast.ClassDef) and c not in found]
            found.update(dict.fromkeys(todo))
        return found

    # Doubts: values that are assigned in other functions, or overridden by other classes.

    def of_name(self, node: ast.Name) -> Doubts:
        """Return the doubt about what a name is read as: a function sets it, or it is another earlier on."""
        found = self._of_names.get(node)
        if found is None:
            found = self._of_names[node] = self._made(node, self._set_elsewhere)
        return found

    def of_part(self, node: ast.expr) -> Doubts:
        """Return the doubt about an element or attribute of a parameter: other calls may hand over another whole."""
        found = self._of_parts.get(node)
        if found is None:
            root = node
            while isinstance(root, (ast.Subscript, ast.Attribute, ast.Call)):
                root = root.func if isinstance(root, ast.Call) else root.value
            found = self._made(root, self._handed) if isinstance(root, ast.Name) else _SURE
            self._of_parts[node] = found
        return found

    def of_attribute(self, holder: ast.ClassDef, name: str) -> Doubts:
        """Return the doubt about an attribute of an object: set by several methods, or by classes that extend its."""
        if (holder, name) not in self._of_attributes:
            self._of_attributes[holder, name] = self._set_by_several(holder, name)
        return self._of_attributes[holder, name]

    def _made(self, node: ast.Name, make: Callable[[ast.Name, Scope], Doubts]) -> Doubts:
        scope = self._walk.uses.get(node)
        return make(node, scope) if scope is not None else _SURE

    def _set_elsewhere(self, node: ast.Name, scope: Scope) -> Doubts:
        found = owner(scope, node.id)
        if found is None:
            return _SURE
        values = [b for b in found[0].bindings.get(node.id, ()) if b.kind != "import"]
        several = not found[1] and len(values) > 1
        return DOUBTED if several or node.id in found[0].shared else _SURE

    def _handed(self, node: ast.Name, scope: Scope) -> Doubts:
        found = owner(scope, node.id)
        bindings = found[0].bindings.get(node.id, ()) if found is not None else ()
        function = next((b.node for b in bindings if b.kind == "param"), None)
        if not isinstance(function, (FunctionNode, ast.Lambda)) or method_of(scope, node) is not None:
            return _SURE
        gathers = {arg.arg for arg in (function.args.vararg, function.args.kwarg) if arg is not None}
        return DOUBTED if node.id in gathers else frozenset({function})

    def _set_by_several(self, holder: ast.ClassDef, name: str) -> Doubts:
        scopes = self._walk.scopes
        own = (scopes[node] for node in self._lineage(holder) if node in scopes)
        methods = [method for scope in own for method in scope.attributes.get(name, ())]
        if len(methods) > 1 and not _CONSTRUCTORS.issuperset(methods):
            return DOUBTED
        below = (scopes[node] for node in self._below.get(holder, ()))
        return DOUBTED if any(name in scope.attributes or name in scope.bindings for scope in below) else _SURE

    @cached_property
    def _below(self) -> dict[ast.ClassDef, list[ast.ClassDef]]:
        """Classes of the file that extend each, directly or not."""
        found: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        for node in [node for node in self._walk.scopes if isinstance(node, ast.ClassDef)]:
            for above in self._lineage(node).keys() - {node}:
                found.setdefault(above, []).append(node)
        return found
