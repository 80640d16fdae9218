"""What a name stands for: behind imports and simple aliases."""

from __future__ import annotations

import ast
from typing import Final, TypeGuard

from tcprobe.keras.names import canonical_name, public
from tcprobe.source.scopes import Binding, owner, reaching
from tcprobe.source.walk import Walk

# People hand modules to functions under these names, as `build(tf)`; nothing else is ever called so.
PASSED: Final = {"tf": "tensorflow", "tensorflow": "tensorflow", "keras": "keras", "layers": "keras.layers"}
"""Names of parameters that stand for modules."""


class DottedNames:
    """Dotted names of the expressions of one file."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._known: dict[ast.AST, str | None] = {}

    def canonical(self, node: ast.expr) -> str | None:
        """Return the canonical name of an expression; None where it is no import's or not one alone."""
        written = self.written(node)
        return canonical_name(written) if written else None

    def written(self, node: ast.expr) -> str | None:
        """Return the name as it was imported (``tensorflow.keras.layers.Dense``)."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        if node not in self._known:
            self._known[node] = None  # a name that is defined by itself has none
            self._known[node] = self._name(node) if isinstance(node, ast.Name) else self._attribute(node)
        return self._known[node]

    def bindings(self, node: ast.Name) -> list[Binding]:
        """Return what may bind a name that is read; empty where nothing in the file does."""
        use = self._walk.uses.get(node)
        found = owner(use.scope, node.id) if use else None
        if use is None or found is None:
            return []
        scope, flows = found
        return reaching(scope, node.id, use.order)[0] if flows else scope.bindings[node.id]

    def partial_of(self, func: ast.expr) -> ast.Call | None:
        """Return the call of functools.partial that made what a call names; None where none alone did."""
        found = self.bindings(func) if isinstance(func, ast.Name) else []
        value = found[0].value if len(found) == 1 and not found[0].part else None
        return value if value is not None and self.is_partial(value) else None

    def is_partial(self, value: ast.expr) -> TypeGuard[ast.Call]:
        """Return whether an expression is ``functools.partial(function, name=...)``, without further positions."""
        plain = isinstance(value, ast.Call) and len(value.args) == 1
        return plain and isinstance(value, ast.Call) and self.written(value.func) == "functools.partial"

    def _name(self, node: ast.Name) -> str | None:
        found = self.bindings(node)
        if not found:
            return self._starred(node)
        names = {self._of(binding, node.id) for binding in found}
        forms = {canonical_name(name) if name else None for name in names}
        return next(iter(sorted(n for n in names if n)), None) if len(forms) == 1 and None not in forms else None

    def _attribute(self, node: ast.Attribute) -> str | None:
        base = self.written(node.value)
        if base is None:
            return None
        if isinstance(node.value, ast.Name) and node.value.id == "layers" and not public(base, node.attr):
            found = self.bindings(node.value)
            if any(b.kind == "param" for b in found):  # a list of sizes may be called so as well
                return None
        return f"{base}.{node.attr}"

    def _starred(self, node: ast.Name) -> str | None:
        use = self._walk.uses.get(node)
        if use is None or owner(use.scope, node.id) is not None:
            return None
        return next((f"{m}.{node.id}" for m in self._walk.stars if public(m, node.id)), None)

    def _of(self, binding: Binding, name: str) -> str | None:
        if binding.kind == "import":
            return None if (binding.imported or ".").startswith(".") else binding.imported
        if binding.kind == "param":
            return PASSED.get(name)
        if binding.kind == "value" and binding.value is not None and not binding.part:
            if self.is_partial(binding.value):
                return self.written(binding.value.args[0])
            if isinstance(binding.value, ast.Call) and name == "tf":
                return PASSED[name]
            return self.written(binding.value)
        return None
