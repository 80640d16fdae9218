"""Expressions of the user's program, evaluated as far as reading tells; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tcprobe.audit.source.attributes import attribute
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.arrays import indexed, kind_of
from tcprobe.audit.source.values.kinds import (
    NOTHING,
    Entries,
    Env,
    Items,
    Named,
    Routine,
    Tensor,
    Unknown,
    Value,
    items_of,
    sequence,
)
from tcprobe.audit.source.values.operators import arithmetic, compared, signed
from tcprobe.audit.source.values.parts import elements, entry, truth, unparsed
from tcprobe.audit.source.values.several import (
    doubted,
    doubts_of,
    each,
    fork,
    guessed,
    is_open,
    mapped,
    one_of,
    several,
    through,
)
from tcprobe.source.values import Doubt, Known, item

_TEXT: Final = Doubt("is a formatted text", hidden=True)


class Expressions:
    """Evaluates expressions; `call` follows calls, `bind` gives targets their values."""

    def __init__(self, state: State, call: Callable[[ast.Call], Value], bind: Callable[[ast.AST, Value], None]) -> None:
        self._state = state
        self._call = call
        self._bind = bind

    def value(self, node: ast.expr) -> Value:
        """Return what an expression is, and note it."""
        evaluate = _KINDS.get(type(node))
        if evaluate is not None:
            value = evaluate(self, node)
            self._state.seen.note(node, value)
            return value
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return Unknown(f"{unparsed(node)} is not followed")

    def look(self, node: ast.expr) -> Value:
        """Return what an expression would be that is not evaluated here."""
        with self._state.looking(Env(self._state.env)):
            return self.value(node)

    def _followed(self, node: ast.Call) -> Value:
        return self._part(node, self._call(node))

    def _part(self, node: ast.expr, value: Value) -> Value:
        """Return an element or attribute, with the doubt about the whole that it is taken from."""
        if not isinstance(value, Known | Unknown):
            return value
        return doubted(value, self._state.source.doubts.of_part(node))

    def _constant(self, node: ast.Constant) -> Value:
        seen = self._state.seen.values.get(node)
        if seen:
            return seen[0]
        told = node.value is None or isinstance(node.value, int | float | str)
        return self._state.source.literal(node) if told else Unknown("is no number or text")

    def _name(self, node: ast.Name) -> Value:
        found = self._state.env.find(node.id)
        if found is not None:
            return doubted(found, self._state.source.doubts.of_name(node))
        name = self._state.source.written_name_of(node)
        return Named(name) if name else Named(f"builtins.{node.id}")

    def _attribute(self, node: ast.Attribute) -> Value:
        return self._part(node, attribute(self._state, self.value(node.value), node))

    def _subscript(self, node: ast.Subscript) -> Value:
        return self._part(node, self._taken(node))

    def _taken(self, node: ast.Subscript) -> Value:
        of = self.value(node.value)
        if isinstance(of, Tensor):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return indexed(of, [kind_of(part, self.value) for part in parts])
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, of, node.slice)
        return taken(of, self.value(node.slice), node)

    def _slice(self, node: ast.Subscript, of: Value, cut: ast.Slice) -> Value:
        bounds: list[Any] = []
        for part in (cut.lower, cut.upper, cut.step):
            found = self.value(part) if part is not None else NOTHING
            if not isinstance(found, Known) or not (found.value is None or type(found.value) is int):
                return Unknown(f"{unparsed(node)} is not known")
            bounds.append(found.value)
        if bounds[2] == 0:
            return Unknown(f"{unparsed(node)} is not known")
        if isinstance(of, Known):
            return through(_cut(of, slice(*bounds), node), [of], lambda row: _cut(row[0], slice(*bounds), node))
        if isinstance(of, Items) and not of.open:
            return through(Items(of.items[slice(*bounds)]), [of], lambda row: _cut(row[0], slice(*bounds), node))
        if isinstance(of, Unknown) and of.options:
            return mapped(of.reason, [of], lambda row: _cut(row[0], slice(*bounds), node))
        return of

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values: list[Value] = []
        spreads: list[Value] = []
        reason: str | None = None
        for part in node.elts:
            if isinstance(part, ast.Starred):
                spread = self.value(part.value)
                found = elements(spread)
                spreads.append(spread)
                reason = reason or (None if found is not None else "is spread from something that is not known")
                values.extend(found or ())
            else:
                values.append(self.value(part))
        if reason:
            return Items(values, reason)
        made = sequence(values, node) if isinstance(node, ast.Tuple) else Items(values)
        return through(made, spreads)

    def _dict(self, node: ast.Dict) -> Value:
        made = Entries({})
        for key, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            if key is None:
                if isinstance(value, Entries) and not value.open:
                    made.entries.update(value.entries)
                    made.keys.update(value.keys)
                else:
                    made.open = "is spread from something that is not known"
                continue
            found = self.value(key)
            if isinstance(found, Known):
                made.entries[found.value] = value
                made.keys[found.value] = found
            else:
                made.open = "has a key that is not known"
        return made

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return arithmetic(node.op, left, right, node)

    def _unary(self, node: ast.UnaryOp) -> Value:
        return signed(node.op, self.value(node.operand), node)

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        if len(values) != 2:
            return Unknown(f"{unparsed(node)} is not known")
        return compared(node.ops[0], values[0], values[1], node)

    def _bool(self, node: ast.BoolOp) -> Value:
        stops = isinstance(node.op, ast.Or)
        values: list[Value] = []
        for index, part in enumerate(node.values):
            values.append(self.value(part))
            known = truth(values[-1])
            if known is None:
                values += [self.look(rest) for rest in node.values[index + 1 :]]
                return mapped(f"{unparsed(node)} is not known", values, lambda row: _decided(row, stops))
            if known is stops:
                for rest in node.values[index + 1 :]:
                    self._unless_seen(rest)
                break
        doubts = [doubt for value in values[:-1] for doubt in doubts_of(value)]
        return guessed(values[-1], Unknown(""), doubts) if doubts else values[-1]

    def _unless_seen(self, node: ast.expr) -> None:
        """Look at an expression that is left out."""
        if node not in self._state.seen.values:
            self.look(node)

    def _either(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        known = truth(test)
        if known is not None:
            taken, other = (node.body, node.orelse) if known else (node.orelse, node.body)
            return self._weighed(test, taken, other)
        with self._state.condition():
            return one_of([self.value(node.body), self.value(node.orelse)])

    def _weighed(self, test: Value, taken: ast.expr, other: ast.expr) -> Value:
        """Return one of two expressions, with what the other would be where the test is taken for granted."""
        value, doubts = self.value(taken), doubts_of(test)
        if not is_open(test):
            self._unless_seen(other)
            return guessed(value, Unknown(""), doubts) if doubts else value
        point = fork()
        whole = several("", [(value, frozenset({(point, 0)})), (self.look(other), frozenset({(point, 1)}))])
        return guessed(value, whole, doubts)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> Value:
        made = _Made(isinstance(node, ast.DictComp), len(self._state.doubts))
        with self._state.within(Env(self._state.env)):
            made.reason = self._each(node.generators, made, lambda: self._collect(node, made)) or made.reason
            for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
                self._unless_seen(part)
        whole = Entries(made.entries, made.reason, made.keys) if made.is_dict else Items(made.items, made.reason)
        return through(whole, made.over)

    def _each(self, generators: list[ast.comprehension], made: _Made, collect: Callable[[], None]) -> str | None:
        """Run through all that generators yield; return why there may be more or less of it."""
        generator, *rest = generators
        of = self.value(generator.iter)
        found = elements(of)
        made.over.append(of)
        reason: str | None = None
        if found is None:
            reason = of.reason if isinstance(of, Unknown) else f"{unparsed(generator.iter)} is not known"
        doubt = self._state.source.doubts.of_part(generator.iter)
        for element in found if found is not None else [each(of, reason or "")]:
            self._bind(generator.target, doubted(element, doubt))
            tests = [self.value(test) for test in generator.ifs]
            chosen = [truth(test) for test in tests]
            if False in chosen:
                continue
            reason = reason or ("is chosen by a condition" if None in chosen else None)
            with self._state.doubting(doubt for test in tests for doubt in doubts_of(test)):
                if rest:
                    self._state.step()
                    reason = self._each(rest, made, collect) or reason
                else:
                    collect()
        return reason

    def _collect(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, made: _Made) -> None:
        """Add what a comprehension makes of the elements that are bound now."""
        if not isinstance(node, ast.DictComp):
            made.items.append(self._state.doubted(self.value(node.elt), made.outer))
            return
        key, value = self.value(node.key), self._state.doubted(self.value(node.value), made.outer)
        if isinstance(key, Known):
            made.entries[key.value], made.keys[key.value] = value, key
        else:
            made.reason = made.reason or "has a key that is not known"

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self._bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> Value:
        made = self._state.routines[node] = Routine(node, self._state.env)
        return made

    def _text(self, node: ast.JoinedStr) -> Value:
        """A formatted text: known where all in it is, as names of layers in a loop are."""
        parts: list[str] = []
        for part in node.values:
            whole = part.value if isinstance(part, ast.FormattedValue) else part
            found = self.value(whole)
            plain = isinstance(part, ast.Constant) or (
                isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None
            )
            if not plain or not isinstance(found, Known) or not isinstance(found.value, int | str):
                return Unknown("is a formatted text")
            parts.append(str(found.value))
        return Known("".join(parts), (), node, (), (_TEXT,))


@dataclass(slots=True)
class _Made:
    """What a comprehension has made so far.

    Attributes:
        is_dict: whether it makes a dictionary.
        outer: how many doubts are from outside of it.
        items, entries, keys: what it has made.
        reason: why there may be more.
        over: what it runs over.
    """

    is_dict: bool
    outer: int
    items: list[Value] = field(default_factory=list)
    entries: dict[Any, Value] = field(default_factory=dict)
    keys: dict[Any, Known] = field(default_factory=dict)
    reason: str | None = None
    over: list[Value] = field(default_factory=list)


def taken(of: Value, index: Value, node: ast.Subscript) -> Value:
    """Return an element of a list, tuple or dictionary; where it is not known which, every one that it may be."""
    if isinstance(of, Unknown):
        return mapped(of.reason, [of, index], lambda row: taken(row[0], row[1], node)) if of.options else of
    if isinstance(index, Known):
        last = isinstance(of, Items) and of.open and index.value == -1 and len(of.items) == 1
        made = of.items[0] if last and isinstance(of, Items) else entry(of, index, node)
        if index.doubts and not index.options:
            return guessed(made, every(of, "") if is_open(index) else Unknown(""), index.doubts)
        return through(made, [of, index], lambda row: taken(row[0], row[1], node))
    reason = index.reason if isinstance(index, Unknown) else f"{unparsed(node.slice)} is not known"
    if isinstance(index, Unknown) and index.options:
        return mapped(reason, [index], lambda row: taken(of, row[0], node))
    return every(of, reason)


def every(of: Value, reason: str) -> Unknown:
    """Return any of the elements of a list, tuple or dictionary."""
    whole = list(of.entries.values()) if isinstance(of, Entries) and not of.open else items_of(of)
    point = fork()
    return several(reason, ((v, frozenset({(point, i)})) for i, v in enumerate(whole or ())), bool(whole))


def _cut(of: Value, cut: slice, node: ast.Subscript) -> Value:
    if isinstance(of, Known):
        return item(of, cut, node) or Unknown(f"{unparsed(node)} is not known")
    return Items(of.items[cut]) if isinstance(of, Items) and not of.open else Unknown(f"{unparsed(node)} is not known")


def _decided(row: list[Value], stops: bool) -> Value:
    """Return what `or` (`and`) makes of values; `stops` is the truth that ends it."""
    for value in row:
        known = truth(value)
        if known is None or known is stops:
            return value if known is not None else Unknown("is not known")
    return row[-1]


_KINDS: Final[dict[type[ast.expr], Callable[[Expressions, Any], Value]]] = {
    ast.Call: Expressions._followed,
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Tuple: Expressions._sequence,
    ast.List: Expressions._sequence,
    ast.Set: Expressions._sequence,
    ast.Dict: Expressions._dict,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._bool,
    ast.IfExp: Expressions._either,
    ast.ListComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.NamedExpr: Expressions._named,
    ast.Lambda: Expressions._lambda,
    ast.JoinedStr: Expressions._text,
}
