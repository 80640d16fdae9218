"""Where a value comes from: names, attributes and subscripts followed to the expressions behind them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tcprobe.syntax.callsites import CallSites, parameter, passed, spread
from tcprobe.syntax.choices import (
    MOST,
    NOTHING,
    Choices,
    Evaluate,
    Found,
    LoopRow,
    Outcome,
    Thing,
    capped,
    merged,
    union,
)
from tcprobe.syntax.enclosing import self_class
from tcprobe.syntax.names import Names
from tcprobe.syntax.records import Fields
from tcprobe.syntax.scopes import Binding, Step, branch, owner, reaching
from tcprobe.syntax.values import Known, item
from tcprobe.syntax.walk import Walk


class Origins:
    """Follows the expressions of one file; `evaluate` finds the constant that an index is."""

    def __init__(self, walk: Walk, names: Names, evaluate: Evaluate) -> None:
        self._walk = walk
        self._names = names
        self._evaluate = evaluate
        self._memo: dict[ast.AST, Found] = {}
        self._sites: CallSites | None = None
        self._fields = Fields(walk, names)

    @property
    def sites(self) -> CallSites:
        """Calls of the file's own functions."""
        self._sites = self._sites or CallSites(self._walk, self._names)
        return self._sites

    def of(self, node: ast.expr) -> Found:
        """Return what an expression may be; literals, arithmetic and calls are themselves."""
        if isinstance(node, ast.NamedExpr):
            return self.of(node.value)
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.IfExp):
            return self._get(node) if _is_get(node) else Found(((node, NOTHING),))
        if node not in self._memo:
            self._memo[node] = Found((), "is defined by itself")
            self._memo[node] = capped(self._follow(node))
        return self._memo[node]

    def _follow(self, node: ast.Name | ast.Attribute | ast.Subscript | ast.IfExp) -> Found:
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, node.value, node.slice)
        test = self._evaluate(node.test)
        if test.reason is None and len(test.options) == 1:
            return self.of(node.body if test.options[0][0].value else node.orelse)
        return union((self.of(side), frozenset({(id(node), i)})) for i, side in enumerate((node.body, node.orelse)))

    # names

    def _name(self, node: ast.Name) -> Found:
        use = self._walk.uses.get(node)
        place = owner(use.scope, node.id) if use else None
        if use is None or place is None:
            return Found((), f"{node.id} is not defined in this file")
        scope, flows = place
        if not flows:
            bindings, reason = scope.bindings[node.id], None
        else:
            bindings, reason = reaching(scope, node.id, use.order)
        if node.id in scope.changed:
            reason = "is changed in place"
        found = union((self._binding(b, node.id), _choice(b, use.order if flows else None, bindings)) for b in bindings)
        return Found(found.options, found.reason or (f"{node.id} {reason}" if reason else None))

    def _binding(self, binding: Binding, name: str) -> Found:
        if binding.kind == "class" and isinstance(binding.node, ast.ClassDef):
            return Found(((binding.node, NOTHING),))
        if binding.kind == "param":
            return self._parameter(binding, name)
        if binding.value is None:
            return Found((), f"{name} comes from {_WHENCE.get(binding.kind, 'a statement that is not followed')}")
        return self._along(self.of(binding.value), binding.path, binding)

    def _parameter(self, binding: Binding, name: str) -> Found:
        function = binding.function
        slot = parameter(function, name) if function is not None else None
        if function is None or slot is None or slot[2] or isinstance(function, ast.Lambda):
            return Found((), f"{name} comes from a function argument")
        sites = self.sites.of(function)
        unknown = Found((), f"{name} comes from a function argument")
        if not sites.calls:
            return unknown if slot[1] is None or sites.escapes else self.of(slot[1])
        if len(sites.calls) > MOST:
            return Found((), f"{name} has too many values")
        parts: list[tuple[Found, Choices]] = []
        for index, (call, skipped) in enumerate(sites.calls):
            value = passed(call, skipped, function, name)
            value = slot[1] if value is None else value
            found = self.of(value) if isinstance(value, ast.expr) else unknown
            if isinstance(value, str) and (gathered := spread(call)) is not None:
                spread_out = self._subscript(gathered, gathered, ast.Constant(name), slot[1])
                found = spread_out if spread_out.options else unknown
            parts.append((found, frozenset({(id(function), index)}) if len(sites.calls) > 1 else NOTHING))
        found = union(parts)
        return Found(found.options, unknown.reason) if sites.escapes else found

    # attributes

    def _attribute(self, node: ast.Attribute) -> Found:
        use = self._walk.uses.get(node.value)
        holder = self_class(use.scope, node.value) if use else None
        if holder is not None and isinstance(holder.node, ast.ClassDef):
            return self._member(holder.node, node.attr)
        base = self.of(node.value)
        parts = []
        for thing, choices in base.options:
            value = self._fields.of(thing, node.attr) if isinstance(thing, ast.Call) else None
            if value is not None:
                parts.append((self.of(value), choices))
                continue
            owner_class = self._fields.class_of(thing)
            unknown = Found((), f"{node.attr} of {_short(node.value)} is not known")
            parts.append((self._member(owner_class, node.attr) if owner_class else unknown, choices))
        found = union(parts)
        return Found(found.options, found.reason or base.reason)

    def _member(self, holder: ast.ClassDef, name: str) -> Found:
        bindings, changed = self._fields.members(holder, name)
        if not bindings:
            return Found((), f"{name} of {holder.name} is not set in this file")
        parts = [(self._binding(b, name), _choice(b, None, bindings)) for b in bindings]
        found = union(parts)
        return Found(found.options, found.reason or (f"{name} is changed in place" if changed else None))

    # subscripts and loops

    def _get(self, node: ast.expr) -> Found:
        """Return what ``d.get("key", default)`` of a known dictionary is."""
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        default = node.args[1] if len(node.args) == 2 else None
        found = self._subscript(node, node.func.value, node.args[0], default)
        return found if found.options else Found(((node, NOTHING),))

    def _subscript(self, node: ast.expr, of: ast.expr, index: ast.expr, default: ast.expr | None = None) -> Found:
        base = self.of(of)
        if not base.options:
            return base
        keys = Outcome((), "is a slice") if isinstance(index, ast.Slice) else self._evaluate(index)
        parts: list[tuple[Found, Choices]] = []
        for thing, choices in base.options:
            for key, more in keys.options:
                both = merged(choices, more)
                if both is not None:
                    parts.append((self._at(thing, key, default), both))
            if keys.reason is not None and not isinstance(index, ast.Slice):
                every = list(enumerate(self._elements(thing, values=True)))
                parts.extend((self._thing(t), choices | {(id(node), i)}) for i, t in every)
                if not every:
                    parts.append((Found((), keys.reason), choices))
        if isinstance(index, ast.Slice):
            return Found(((node, NOTHING),))
        found = union(parts)
        return Found(found.options, found.reason or base.reason)

    def _at(self, thing: Thing, key: Known, default: ast.expr | None = None) -> Found:
        missing = self.of(default) if default is not None else Found((), f"{key.value!r} is not in it")
        if isinstance(thing, Known):
            part = item(thing, key, thing.expression)
            return missing if part is None else Found(((part, NOTHING),))
        if isinstance(thing, LoopRow) and isinstance(key.value, int) and key.value < len(thing.things):
            return self._thing(thing.things[key.value])
        if isinstance(thing, ast.Tuple | ast.List) and not any(isinstance(e, ast.Starred) for e in thing.elts):
            inside = isinstance(key.value, int) and -len(thing.elts) <= key.value < len(thing.elts)
            return self.of(thing.elts[key.value]) if inside else missing
        if isinstance(thing, ast.Dict | ast.Call):
            value = self._fields.entry(thing, key.value, self._evaluate)
            return self.of(value) if isinstance(value, ast.expr) else (missing if value is None else Found((), value))
        if isinstance(thing, ast.expr):
            whole = self._evaluate(thing)
            if len(whole.options) == 1 and whole.reason is None:
                return self._at(whole.options[0][0], key, default)
        return Found((), "is taken from something that is not followed")

    def _along(self, found: Found, path: tuple[Step, ...], binding: Binding) -> Found:
        for step in path:
            if step == "each":
                parts = [
                    (self._thing(t), c | {(id(binding.node), i)} if i >= 0 else c)
                    for thing, c in found.options
                    for i, t in _numbered(self._elements(thing))
                ]
                reason = None if parts else "is the element of something that is not followed"
            else:
                key = Known(step, (), ast.Constant(step))
                parts = [(self._at(thing, key), c) for thing, c in found.options]
                reason = None
            following = union(parts)
            found = Found(following.options, following.reason or found.reason or reason)
        return found

    def _thing(self, thing: Thing) -> Found:
        return self.of(thing) if isinstance(thing, ast.expr) else Found(((thing, NOTHING),))

    def _elements(self, thing: Thing, values: bool = False) -> list[Thing]:
        """Return the elements that a loop over `thing` meets (of a dictionary its keys, or its values)."""
        if isinstance(thing, Known):
            return list(thing.elements)
        if isinstance(thing, ast.Tuple | ast.List | ast.Set):
            return [] if any(isinstance(e, ast.Starred) for e in thing.elts) else list(thing.elts)
        if isinstance(thing, ast.Dict):
            return [] if None in thing.keys else list(thing.values if values else [k for k in thing.keys if k])
        if isinstance(thing, ast.Call):
            return self._iterated(thing)
        if isinstance(thing, ast.expr):
            whole = self._evaluate(thing)
            return list(whole.options[0][0].elements) if len(whole.options) == 1 and whole.reason is None else []
        return []

    def _iterated(self, call: ast.Call) -> list[Thing]:
        func = call.func
        if isinstance(func, ast.Attribute) and not call.args and func.attr in ("items", "values", "keys"):
            return self._of_dictionary(func)
        name = func.id if isinstance(func, ast.Name) else ""
        if name in ("enumerate", "zip") and call.args and not any(isinstance(a, ast.Starred) for a in call.args):
            columns = [self._whole(a) for a in (call.args[:1] if name == "enumerate" else call.args)]
            if any(c is None for c in columns):
                return []
            rows = list(zip(*(c for c in columns if c is not None), strict=False))
            start = self._start(call) if name == "enumerate" else None
            if start is None:
                return [LoopRow(row) for row in rows] if name == "zip" else []
            return [LoopRow((Known(start + i, (), call), *row)) for i, row in enumerate(rows)]
        whole = self._evaluate(call)
        return list(whole.options[0][0].elements) if len(whole.options) == 1 and whole.reason is None else []

    def _start(self, call: ast.Call) -> int | None:
        given = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords), None)
        if given is None:
            return 0
        found = self._evaluate(given)
        known = found.options[0][0].value if found.reason is None and len(found.options) == 1 else None
        return known if isinstance(known, int) else None

    def _of_dictionary(self, func: ast.Attribute) -> list[Thing]:
        base = self.of(func.value)
        if base.reason is not None or len(base.options) != 1 or not isinstance(base.options[0][0], ast.Dict):
            return []
        found = base.options[0][0]
        pairs = [(k, v) for k, v in zip(found.keys, found.values, strict=True) if k is not None]
        if func.attr == "items":
            return [LoopRow(pair) for pair in pairs]
        return [k if func.attr == "keys" else v for k, v in pairs]

    def _whole(self, node: ast.expr) -> list[Thing] | None:
        base = self.of(node)
        one = base.reason is None and len(base.options) == 1
        return self._elements(base.options[0][0]) or None if one else None


_WHENCE: Final = {"import": "another module", "def": "a function"}


def _is_get(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and len(node.args) in (1, 2)
        and not node.keywords
    )


def _numbered(things: list[Thing]) -> Iterator[tuple[int, Thing]]:
    """Number the elements of a loop; -1 where there is one alone, which is no choice."""
    return iter([(-1, things[0])]) if len(things) == 1 else enumerate(things)


def _choice(binding: Binding, order: int | None, among: list[Binding]) -> Choices:
    """Return what must have been chosen for one of several bindings to hold."""
    if len(among) < 2:
        return NOTHING
    taken = branch(binding, order) if order is not None else None
    if taken is not None and taken.group is not None and not taken.loop:
        return frozenset({(id(taken.group), taken.index)})
    return frozenset({(id(among[0]), among.index(binding))}) if order is None else NOTHING


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else "an expression"
