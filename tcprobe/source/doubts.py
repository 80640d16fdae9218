"""What the syntax tells against a value that was seen: assigned in other functions, overridden by other classes."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Final

from tcprobe.source.enclosing import self_class
from tcprobe.source.names import DottedNames
from tcprobe.source.scopes import Scope, owner, reaching
from tcprobe.source.values import Doubt
from tcprobe.source.walk import Walk

_END: Final = 2**61  # an order after all that happens in a file
_CONSTRUCTORS: Final = ("__init__", "build", "setup", "__post_init__")  # run before any other method


class Doubts:
    """Doubts about the names and attributes of one file."""

    def __init__(self, walk: Walk, names: DottedNames) -> None:
        self._walk = walk
        self._names = names
        self._of_names: dict[ast.AST, Doubt | None] = {}
        self._parameters: dict[ast.AST, Doubt | None] = {}
        self._of_attributes: dict[tuple[ast.ClassDef, str], Doubt | None] = {}

    def of_name(self, node: ast.Name) -> Doubt | None:
        """Return the doubt about what a name is read as: a function sets it, or it is another earlier on."""
        if node not in self._of_names:
            self._of_names[node] = self._set_elsewhere(node)
        return self._of_names[node]

    def of_part(self, node: ast.expr) -> Doubt | None:
        """Return the doubt about an element or attribute of a parameter: other calls may hand over another whole."""
        root = node
        while isinstance(root, ast.Subscript | ast.Attribute | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        if root not in self._parameters:
            self._parameters[root] = self._handed(root) if isinstance(root, ast.Name) else None
        return self._parameters[root]

    def of_attribute(self, holder: ast.ClassDef, name: str) -> Doubt | None:
        """Return the doubt about an attribute of an object: set by several methods, or by classes that extend its."""
        key = holder, name
        if key not in self._of_attributes:
            self._of_attributes[key] = self._set_by_several(holder, name)
        return self._of_attributes[key]

    def _set_elsewhere(self, node: ast.Name) -> Doubt | None:
        use = self._walk.uses.get(node)
        found = owner(use.scope, node.id) if use is not None else None
        if use is None or found is None:
            return None
        scope, flows = found
        if node.id in scope.shared:
            return Doubt(f"{node.id} is set in a function")
        if flows or len(scope.bindings[node.id]) < 2:
            return None
        last, _ = reaching(scope, node.id, _END)
        overwritten = [b for b in scope.bindings[node.id] if b not in last and b.kind == "value"]
        return Doubt(f"{node.id} is set again") if overwritten else None

    def _handed(self, node: ast.Name) -> Doubt | None:
        use = self._walk.uses.get(node)
        found = owner(use.scope, node.id) if use is not None else None
        if use is None or found is None or self_class(use.scope, node) is not None:
            return None
        function = next((b.function for b in found[0].bindings[node.id] if b.kind == "param"), None)
        if function is None:
            return None
        gathers = {arg.arg for arg in (function.args.vararg, function.args.kwarg) if arg is not None}
        return Doubt(f"{node.id} comes from a function argument", None if node.id in gathers else function)

    def _set_by_several(self, holder: ast.ClassDef, name: str) -> Doubt | None:
        own = [self._walk.scopes[node] for node in self._with_bases(holder) if node in self._walk.scopes]
        stores = [binding for scope in own for binding in scope.attributes.get(name, ())]
        if len(stores) > 1 and any(self._method(b.node, own) not in _CONSTRUCTORS for b in stores):
            return Doubt(f"{name} is set by several methods of {holder.name}")
        below = [self._walk.scopes[node] for node in self._below.get(holder, ())]
        if any(scope.attributes.get(name) or scope.bindings.get(name) for scope in below):
            return Doubt(f"{name} is set in a class that extends {holder.name}")
        return None

    def _method(self, node: ast.AST, scopes: list[Scope]) -> str:
        """Return the method of a class in which a statement stands."""
        line = getattr(node, "lineno", 0)
        for scope in scopes:
            for method in getattr(scope.node, "body", ()):
                if isinstance(method, ast.FunctionDef) and method.lineno <= line <= (method.end_lineno or 0):
                    return method.name
        return ""

    def _with_bases(self, holder: ast.ClassDef) -> list[ast.ClassDef]:
        found: dict[ast.ClassDef, None] = {}
        at: ast.ClassDef | None = holder
        while at is not None and at not in found:
            found[at] = None
            at = self._base(at)
        return list(found)

    @cached_property
    def _below(self) -> dict[ast.ClassDef, list[ast.ClassDef]]:
        """Classes of the file that extend each, directly or not."""
        found: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        for node in self._walk.scopes:
            for above in self._with_bases(node)[1:] if isinstance(node, ast.ClassDef) else ():
                found.setdefault(above, []).append(node)  # type: ignore[arg-type]
        return found

    def _base(self, of: ast.ClassDef) -> ast.ClassDef | None:
        for base in of.bases:
            found = [b.node for b in self._names.bindings(base)] if isinstance(base, ast.Name) else []
            if len(found) == 1 and isinstance(found[0], ast.ClassDef):
                return found[0]
        return None
