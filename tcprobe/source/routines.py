"""Which functions of a file its calls may reach, as the syntax alone tells, and what that tells against a value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

from msgspec import Struct

from tcprobe.source.names import DottedNames
from tcprobe.source.scopes import FunctionNode, Scope, Use, is_static, owner, reaching, self_class
from tcprobe.source.values import DOUBTED, Doubts
from tcprobe.source.walk import Walk

_END: Final = 2**61  # an order after all that happens in a file
_CONSTRUCTORS: Final = ("__init__", "build", "setup", "__post_init__")  # run before any other method
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
        self._of_names: dict[tuple[ast.Name, str], Doubts] = {}
        self._of_attributes: dict[tuple[ast.ClassDef, str], Doubts] = {}

    def sites(self, function: ast.AST) -> Sites:
        """Return the calls that may reach a function."""
        return Sites(tuple(self._calls.get(function, ())), function in self._escaped)

    @cached_property
    def _calls(self) -> dict[ast.AST, list[ast.Call]]:
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self._walk.calls:
            for function, _ in self.targets(call.func):
                found.setdefault(function, []).append(call)
        return found

    @cached_property
    def _escaped(self) -> set[ast.AST]:
        names = {function.name for function, _ in self._walk.functions}
        uses = self._walk.uses.keys() - self._walk.called
        passed = (node for node in uses if isinstance(node, ast.Name) and node.id in names)
        return {function for node in passed for function, _ in self.targets(node)}

    def targets(self, func: ast.expr) -> list[tuple[FunctionNode, int]]:
        """Return the functions that a called expression may be, each with how many parameters a call does not pass."""
        if isinstance(func, ast.Attribute):
            methods = self._walk.methods.get(func.attr, [])
            if _is_super(func.value):
                around = self._class_around(func.value)
                above = list(self.lineage(around))[1:] if around is not None else []
                return [(m, 1) for m in methods if any(m in base.body for base in above)]
            return [(m, 0 if is_static(m) else 1) for m in methods] if self._names.written(func) is None else []
        found: list[tuple[FunctionNode, int]] = []
        for binding in self._names.bindings(func) if isinstance(func, ast.Name) else ():
            if isinstance(binding.node, FunctionNode) and binding.kind == "def":
                found.append((binding.node, 0))
            elif isinstance(binding.node, ast.ClassDef):
                found.extend((m, 1) for m in self._constructors(binding.node))
        return found

    def _constructors(self, of: ast.ClassDef) -> list[ast.FunctionDef]:
        """Return what a call of a class runs: its own ``__init__``, or the nearest that it inherits in the file."""
        for at in self.lineage(of):
            own = [m for m in at.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
            if own:
                return own
        return []

    def _class_around(self, node: ast.expr) -> ast.ClassDef | None:
        use = self._walk.uses.get(node.func if isinstance(node, ast.Call) else node)
        scope = use.scope if use else None
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope.node if scope is not None and isinstance(scope.node, ast.ClassDef) else None

    def lineage(self, of: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield a class and those of the file that it extends, each once, what stands first among its bases first."""
        seen, todo = set[ast.ClassDef](), [of]
        while todo:
            at = todo.pop(0)
            if at not in seen:
                seen.add(at)
                yield at
                named = [b.node for base in at.bases if isinstance(base, ast.Name) for b in self._names.bindings(base)]
                todo = [*(c for c in named if isinstance(c, ast.ClassDef)), *todo]

    # Doubts: values that are assigned in other functions, or overridden by other classes.

    def of_name(self, node: ast.Name) -> Doubts:
        """Return the doubt about what a name is read as: a function sets it, or it is another earlier on."""
        return self._kept(node, self._set_elsewhere)

    def of_part(self, node: ast.expr) -> Doubts:
        """Return the doubt about an element or attribute of a parameter: other calls may hand over another whole."""
        root = node
        while isinstance(root, ast.Subscript | ast.Attribute | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        return self._kept(root, self._handed) if isinstance(root, ast.Name) else _SURE

    def of_attribute(self, holder: ast.ClassDef, name: str) -> Doubts:
        """Return the doubt about an attribute of an object: set by several methods, or by classes that extend its."""
        if (holder, name) not in self._of_attributes:
            self._of_attributes[holder, name] = self._set_by_several(holder, name)
        return self._of_attributes[holder, name]

    def _kept(self, node: ast.Name, make: Callable[[ast.Name, Use], Doubts]) -> Doubts:
        """Return what is made of a name that is read, made once."""
        key = node, make.__name__
        if key not in self._of_names:
            use = self._walk.uses.get(node)
            self._of_names[key] = make(node, use) if use is not None else _SURE
        return self._of_names[key]

    def _set_elsewhere(self, node: ast.Name, use: Use) -> Doubts:
        found = owner(use.scope, node.id)
        if found is None:
            return _SURE
        scope, flows = found
        if node.id in scope.shared:
            return DOUBTED
        if flows or len(scope.bindings[node.id]) < 2:
            return _SURE
        last = reaching(scope, node.id, _END)
        overwritten = any(b not in last and b.kind == "value" for b in scope.bindings[node.id])
        return DOUBTED if overwritten else _SURE

    def _handed(self, node: ast.Name, use: Use) -> Doubts:
        found = owner(use.scope, node.id)
        if found is None or self_class(use.scope, node) is not None:
            return _SURE
        function = next((b.function for b in found[0].bindings[node.id] if b.kind == "param"), None)
        if function is None:
            return _SURE
        gathers = {arg.arg for arg in (function.args.vararg, function.args.kwarg) if arg is not None}
        return DOUBTED if node.id in gathers else frozenset({function})

    def _set_by_several(self, holder: ast.ClassDef, name: str) -> Doubts:
        scopes = self._walk.scopes
        own = [scopes[node] for node in self.lineage(holder) if node in scopes]
        stores = [binding for scope in own for binding in scope.attributes.get(name, ())]
        if len(stores) > 1 and any(_method_around(b.node, own) not in _CONSTRUCTORS for b in stores):
            return DOUBTED
        below = (scopes[node] for node in self._below.get(holder, ()))
        return DOUBTED if any(name in scope.attributes or name in scope.bindings for scope in below) else _SURE

    @cached_property
    def _below(self) -> dict[ast.ClassDef, list[ast.ClassDef]]:
        """Classes of the file that extend each, directly or not."""
        found: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        for node in self._walk.scopes:
            for above in list(self.lineage(node))[1:] if isinstance(node, ast.ClassDef) else ():
                found.setdefault(above, []).append(node)  # type: ignore[arg-type]
        return found


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _method_around(node: ast.AST, scopes: list[Scope]) -> str:
    """Return the method of a class in which a statement stands."""
    line = getattr(node, "lineno", 0)
    for scope in scopes:
        for method in getattr(scope.node, "body", ()):
            if isinstance(method, ast.FunctionDef) and method.lineno <= line <= (method.end_lineno or 0):
                return method.name
    return ""
