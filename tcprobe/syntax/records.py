"""Fields of what a file builds: named tuples, data classes, namespaces, dictionaries, its own classes."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Any, Final

from tcprobe.syntax.choices import Evaluate
from tcprobe.syntax.names import Names
from tcprobe.syntax.scopes import Binding
from tcprobe.syntax.values import identical
from tcprobe.syntax.walk import Walk

MOST_CLASSES: Final = 32
_NAMESPACES: Final = ("types.SimpleNamespace", "argparse.Namespace", "ml_collections.ConfigDict")
_TUPLES: Final = ("typing.NamedTuple", "collections.namedtuple")


class Fields:
    """Looks up fields of the records of one file."""

    def __init__(self, walk: Walk, names: Names) -> None:
        self._walk = walk
        self._names = names

    def class_of(self, thing: object) -> ast.ClassDef | None:
        """Return the class of the file that a thing is, or is an instance of; None where it is neither."""
        if isinstance(thing, ast.ClassDef):
            return thing
        if not isinstance(thing, ast.Call) or not isinstance(thing.func, ast.Name):
            return None
        found = [b.node for b in self._names.bindings(thing.func)]
        return found[0] if len(found) == 1 and isinstance(found[0], ast.ClassDef) else None

    def of(self, call: ast.Call, name: str) -> ast.expr | None:
        """Return the expression of one field of a record that a call builds; None where it builds none, or not so."""
        keywords = {k.arg: k.value for k in call.keywords}
        if None in keywords or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        if self._names.written(call.func) in _NAMESPACES:
            return keywords.get(name)
        fields = self._declared(call)
        if fields is None or name not in fields:
            return None
        position = list(fields).index(name)
        return keywords.get(name) or (call.args[position] if position < len(call.args) else fields[name])

    def entry(self, thing: ast.Dict | ast.Call, key: Any, evaluate: Evaluate) -> ast.expr | str | None:
        """Return the expression under a key of a dictionary; None where it has none, a reason where that is unknown."""
        if isinstance(thing, ast.Call):
            if not (isinstance(thing.func, ast.Name) and thing.func.id == "dict") or thing.args:
                return "is taken from a call that is not followed"
            return next((k.value for k in thing.keywords if k.arg == key), None)
        for node, value in zip(reversed(thing.keys), reversed(thing.values), strict=True):
            found = evaluate(node) if node is not None else None
            if found is None or found.reason is not None or len(found.options) != 1:
                return "is taken from a dictionary that is not known"
            if identical(found.options[0][0].value, key):
                return value
        return None

    def members(self, holder: ast.ClassDef, name: str) -> tuple[list[Binding], bool]:
        """Return what binds an attribute of a class or of its instances, and whether it is changed in place."""
        seen: set[ast.ClassDef] = set()
        at: ast.ClassDef | None = holder
        while at is not None and at not in seen:
            seen.add(at)
            scope = self._walk.scopes[at]
            own = [b for b in scope.bindings.get(name, ()) if b.kind == "value" and b.value is not None]
            found = [*scope.attributes.get(name, ()), *own]
            if found:
                changed = f"self.{name}" in scope.changed or name in scope.changed
                # An attribute of the instance hides the class's; set once in __init__ it is the value.
                return [*(scope.attributes.get(name, ()) or own), *self._overridden(holder, name)], changed
            at = self._base(at)
        return [], False

    def _overridden(self, holder: ast.ClassDef, name: str) -> list[Binding]:
        """Return what binds the attribute in classes of the file that extend a class: `self` may be one of them."""
        found: list[Binding] = []
        pending = list(self._below.get(holder, ()))
        for node in pending[:MOST_CLASSES]:
            scope = self._walk.scopes[node]
            found.extend(scope.attributes.get(name) or [b for b in scope.bindings.get(name, ()) if b.kind == "value"])
        return found

    @cached_property
    def _below(self) -> dict[ast.ClassDef, list[ast.ClassDef]]:
        """Classes of the file that extend each, directly or not."""
        found: dict[ast.ClassDef, list[ast.ClassDef]] = {}
        for node in self._walk.scopes:
            at = self._base(node) if isinstance(node, ast.ClassDef) else None
            for _ in range(MOST_CLASSES):
                if at is None or at is node or not isinstance(node, ast.ClassDef):
                    break
                found.setdefault(at, []).append(node)
                at = self._base(at)
        return found

    def _base(self, of: ast.ClassDef) -> ast.ClassDef | None:
        for base in of.bases:
            if isinstance(base, ast.Name):
                found = [b.node for b in self._names.bindings(base)]
                if len(found) == 1 and isinstance(found[0], ast.ClassDef):
                    return found[0]
        return None

    def _declared(self, call: ast.Call) -> dict[str, ast.expr | None] | None:
        """Return fields and defaults of a named tuple or data class in order; None where the call builds neither."""
        if not isinstance(call.func, ast.Name):
            return None
        found = list(self._names.bindings(call.func))
        if len(found) != 1:
            return None
        if isinstance(found[0].value, ast.Call):
            return self._named_tuple(found[0].value)
        node = found[0].node
        if not isinstance(node, ast.ClassDef) or not self._is_record(node):
            return None
        above = self._base(node)
        inherited = self._fields_of(above) if above is not None and self._is_record(above) else {}
        return {**inherited, **self._fields_of(node)}

    def _fields_of(self, node: ast.ClassDef) -> dict[str, ast.expr | None]:
        declared = [s for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
        return {s.target.id: _default(s.value) for s in declared if isinstance(s.target, ast.Name)}

    def _is_record(self, node: ast.ClassDef) -> bool:
        if any(isinstance(s, ast.FunctionDef) and s.name in ("__init__", "__post_init__") for s in node.body):
            return False
        if any(self._names.written(base) in _TUPLES for base in node.bases):
            return True
        marks = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        return any((self._names.written(m) or "").endswith("dataclass") for m in marks) or any(
            (self._names.written(m) or "") in ("attr.s", "attrs.define", "attr.define", "attrs.frozen") for m in marks
        )

    def _named_tuple(self, call: ast.Call) -> dict[str, ast.expr | None] | None:
        if self._names.written(call.func) not in _TUPLES or len(call.args) < 2 or call.keywords:
            return None
        fields = call.args[1]
        if isinstance(fields, ast.Constant) and isinstance(fields.value, str):
            return dict.fromkeys(fields.value.replace(",", " ").split())
        if not isinstance(fields, ast.Tuple | ast.List):
            return None
        heads = [e.elts[0] if isinstance(e, ast.Tuple) and e.elts else e for e in fields.elts]
        return {h.value: None for h in heads if isinstance(h, ast.Constant) and isinstance(h.value, str)}


def _default(value: ast.expr | None) -> ast.expr | None:
    """Return a field's default; of ``field(default=64)`` what it holds."""
    if isinstance(value, ast.Call):
        return next((k.value for k in value.keywords if k.arg == "default"), None)
    return value
