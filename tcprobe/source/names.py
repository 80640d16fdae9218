"""What a name stands for: behind imports and simple aliases."""

from __future__ import annotations

import ast
import sys
from typing import Final, TypeGuard

from tcprobe.keras.catalogue import canonical_name, public
from tcprobe.source.imports import Meaning, Reexports, is_of_tree, one_name
from tcprobe.source.scopes import Binding, owner
from tcprobe.source.walk import Walk

# People hand modules to functions under these names, as `build(tf)`; nothing else is ever called so.
PASSED: Final = {"tf": "tensorflow", "tensorflow": "tensorflow", "keras": "keras", "layers": "keras.layers"}
"""Names of parameters that stand for modules."""
HANDED: Final = {"layers": "keras.layers", "models": "keras.models"}
"""Names of modules that people unpack from a call, as ``_, layers, models, _ = get_submodules_from_kwargs(kwargs)``."""
_NOT_OF_TREE: Final = frozenset(("keras", "tensorflow", "tf_keras", "numpy", "jax", "torch")) | sys.stdlib_module_names
"""Packages that are not looked for in the tree, which most names of a file are of."""


class DottedNames:
    """Dotted names of the expressions of one file, `reexports` telling what other modules of its tree hand on."""

    def __init__(self, walk: Walk, reexports: Reexports) -> None:
        self._walk = walk
        self._reexports = reexports
        self._known: dict[ast.AST, str | None] = {}
        self._in_tree: dict[ast.AST, frozenset[Meaning]] = {}
        self._imported: dict[tuple[ast.AST, str], frozenset[Meaning]] = {}

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

    def imported(self, node: ast.Import | ast.ImportFrom, name: str) -> str | None:
        """Return what of another package an import from the tree binds a name to; None for any other import."""
        return one_name(self._of_tree(node, name))

    def handed_on(self, node: ast.Attribute) -> str | None:
        """Return what of another package an attribute of a module of the tree is; None for any other attribute."""
        modules = self._modules(node.value)
        return one_name(self._reexports.attribute(modules, node.attr)) if modules else None

    def bindings(self, node: ast.Name) -> list[Binding]:
        """Return what may bind a name that is read; empty where nothing in the file does."""
        scope = self._walk.uses.get(node)
        found = owner(scope, node.id) if scope is not None else None
        return found[0].bindings.get(node.id, []) if found is not None else []

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
        if len(found) > 1:  # `layers = None`, to be set later
            found = [b for b in found if not _is_nothing(b.value)] or found
        names = {self._of(binding, node.id) for binding in found}
        if all(binding.kind == "import" for binding in found):  # one that is not found is not the one that is taken
            names = {name for name in names if name} or names
        forms = {canonical_name(name) if name else None for name in names}
        return next(iter(sorted(n for n in names if n)), None) if len(forms) == 1 and None not in forms else None

    def _attribute(self, node: ast.Attribute) -> str | None:
        handed_on = self.handed_on(node)
        if handed_on is not None:
            return handed_on
        base = self.written(node.value)
        if base is None:
            return None
        if isinstance(node.value, ast.Name) and node.value.id in HANDED and not public(base, node.attr):
            found = self.bindings(node.value)
            if any(b.kind == "param" or b.part for b in found):  # a list of sizes may be called so as well
                return None
        return f"{base}.{node.attr}"

    def _modules(self, node: ast.expr) -> frozenset[Meaning]:
        """Return the modules of the tree that an expression may be; nothing where it is none."""
        if node not in self._in_tree:
            found: frozenset[Meaning] = frozenset()
            if isinstance(node, ast.Name):
                found = frozenset(m for b in self.bindings(node) for m in self._meanings(b, node.id))
            elif isinstance(node, ast.Attribute):
                found = self._reexports.attribute(self._modules(node.value), node.attr)
            self._in_tree[node] = frozenset(filter(is_of_tree, found))
        return self._in_tree[node]

    def _meanings(self, binding: Binding, name: str) -> frozenset[Meaning]:
        imports = isinstance(binding.node, ast.Import | ast.ImportFrom)
        return self._of_tree(binding.node, name) if imports else frozenset()

    def _of_tree(self, node: ast.AST, name: str) -> frozenset[Meaning]:
        """Return what an import of a module of the tree, or from one, may bind a name to; nothing for any other."""
        module = node.module or "" if isinstance(node, ast.ImportFrom) else name
        if not getattr(node, "level", 0) and module.partition(".")[0] in _NOT_OF_TREE:
            return frozenset()
        if (node, name) not in self._imported:
            self._imported[node, name] = self._reexports.of_import(node, name)
        return self._imported[node, name]

    def _starred(self, node: ast.Name) -> str | None:
        scope = self._walk.uses.get(node)
        if scope is None or owner(scope, node.id) is not None:
            return None
        own = next((f"{m}.{node.id}" for m in self._walk.stars if public(m, node.id)), None)
        others = (m for m in self._walk.stars if m.partition(".")[0] not in _NOT_OF_TREE)
        return own or one_name(meaning for m in others for meaning in self._reexports.starred(m, node.id))

    def _of(self, binding: Binding, name: str) -> str | None:
        if binding.kind == "import":
            own = None if (binding.imported or ".").startswith(".") else binding.imported
            return one_name(self._meanings(binding, name)) or own
        if binding.kind == "param":
            return PASSED.get(name)
        if binding.kind == "value" and binding.part and isinstance(binding.value, ast.Call):
            return HANDED.get(name)
        if binding.kind == "value" and binding.value is not None and not binding.part:
            if self.is_partial(binding.value):
                return self.written(binding.value.args[0])
            if isinstance(binding.value, ast.Call) and name == "tf":
                return PASSED[name]
            return self.written(binding.value)
        return None


def _is_nothing(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
