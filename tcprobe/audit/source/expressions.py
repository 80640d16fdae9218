"""Expressions of the user's program, evaluated as far as reading tells; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from tcprobe.audit.source.arrays.indexing import index_kind, indexed
from tcprobe.audit.source.attributes import attribute_of
from tcprobe.audit.source.comprehensions import Comprehension, Comprehensions
from tcprobe.audit.source.functions import defaults_of
from tcprobe.audit.source.outside.products import note_operator
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import NOTHING, Entries, Env, Items, Named, Routine, SourceValue, Tensor, Unknown
from tcprobe.audit.source.values.known import sequence
from tcprobe.audit.source.values.operators import arithmetic, compared, signed_value
from tcprobe.audit.source.values.parts import elements, truth, unparsed
from tcprobe.audit.source.values.several import (
    doubted,
    doubts_of,
    fork,
    guessed,
    is_open,
    mapped,
    one_of,
    several,
    through,
)
from tcprobe.audit.source.values.taken import cut_out, decided, taken
from tcprobe.source.names import HANDED
from tcprobe.source.values import LARGEST_NUMBER, LONGEST_TEXT, Doubt, Known

_TEXT: Final = Doubt("is a formatted text", hidden=True)


class Expressions:
    """Evaluates expressions; `call` follows calls, `bind` gives targets their values."""

    def __init__(
        self, state: State, call: Callable[[ast.Call], SourceValue], bind: Callable[[ast.AST, SourceValue], None]
    ) -> None:
        self._state = state
        self._call = call
        self._bind = bind
        self._comprehensions = Comprehensions(state, self.value, bind)

    def value(self, node: ast.expr) -> SourceValue:
        """Return what an expression is, and note it."""
        evaluate = _KINDS.get(type(node))
        if evaluate is not None:
            self._state.evaluate()
            value = evaluate(self, node)
            if self._state.env.home is self._state.source:
                self._state.seen.note(node, value)
            return value
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return Unknown(f"{unparsed(node)} is not followed")

    def look(self, node: ast.expr) -> SourceValue:
        """Return what an expression would be that is not evaluated here."""
        with self._state.looking(Env(self._state.env)):
            return self.value(node)

    def _followed(self, node: ast.Call) -> SourceValue:
        return self._part(node, self._call(node))

    def _part(self, node: ast.expr, value: SourceValue) -> SourceValue:
        """Return an element or attribute, with the doubt about the whole that it is taken from."""
        if not isinstance(value, Known | Unknown):
            return value
        return doubted(value, self._state.here.doubts.of_part(node))

    def _constant(self, node: ast.Constant) -> SourceValue:
        seen = self._state.seen.values.get(node)
        if seen:
            return seen[0]
        told = node.value is None or isinstance(node.value, int | float | str)
        if isinstance(node.value, int) and node.value > LARGEST_NUMBER:
            return Unknown("is a number that is too large for a size")
        if not told:
            return Unknown("is no number or text")
        return Known(node.value, node, abroad=self._state.here is not self._state.source)

    def _name(self, node: ast.Name) -> SourceValue:
        found = self._state.env.find(node.id)
        if found is not None and node.id in HANDED and (name := self._module_handed(node, found)):
            return Named(name)
        if found is not None:
            return doubted(found, self._state.here.doubts.of_name(node))
        name = self._state.here.written_name_of(node)
        return Named(name) if name else Named(f"builtins.{node.id}")

    def _module_handed(self, node: ast.Name, found: SourceValue) -> str | None:
        """Return the module of Keras that a variable is, where nothing but its name tells; None where it is another."""
        nothing = isinstance(found, Known) and found.value is None
        return self._state.here.written_name_of(node) if nothing or isinstance(found, Unknown) else None

    def _attribute(self, node: ast.Attribute) -> SourceValue:
        of = self.value(node.value)
        if isinstance(of, Named | Unknown) and (handed_on := self._state.here.handed_on(node)) is not None:
            return Named(handed_on)
        return self._part(node, attribute_of(self._state, of, node))

    def _subscript(self, node: ast.Subscript) -> SourceValue:
        return self._part(node, self._taken(node))

    def _taken(self, node: ast.Subscript) -> SourceValue:
        of = self.value(node.value)
        if isinstance(of, Tensor):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return indexed(of, [index_kind(part, self.value) for part in parts])
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, of, node.slice)
        return taken(of, self.value(node.slice), node)

    def _slice(self, node: ast.Subscript, of: SourceValue, cut: ast.Slice) -> SourceValue:
        bounds: list[Any] = []
        for part in (cut.lower, cut.upper, cut.step):
            found = self.value(part) if part is not None else NOTHING
            if not isinstance(found, Known) or not (found.value is None or type(found.value) is int):
                return Unknown(f"{unparsed(node)} is not known")
            bounds.append(found.value)
        if bounds[2] == 0:
            return Unknown(f"{unparsed(node)} is not known")
        if isinstance(of, Known):
            return through(cut_out(of, slice(*bounds), node), [of], lambda row: cut_out(row[0], slice(*bounds), node))
        if isinstance(of, Items) and not of.open:
            return through(Items(of.items[slice(*bounds)]), [of], lambda row: cut_out(row[0], slice(*bounds), node))
        if isinstance(of, Unknown) and of.options:
            return mapped(of.reason, [of], lambda row: cut_out(row[0], slice(*bounds), node))
        return of

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> SourceValue:
        values: list[SourceValue] = []
        spreads: list[SourceValue] = []
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

    def _dict(self, node: ast.Dict) -> SourceValue:
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

    def _binary(self, node: ast.BinOp) -> SourceValue:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.MatMult):
            note_operator(self._state, left, right, node)
        return arithmetic(node.op, left, right, node)

    def _unary(self, node: ast.UnaryOp) -> SourceValue:
        return signed_value(node.op, self.value(node.operand), node)

    def _compare(self, node: ast.Compare) -> SourceValue:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        if len(values) != 2:
            return Unknown(f"{unparsed(node)} is not known")
        return compared(node.ops[0], values[0], values[1], node)

    def _bool(self, node: ast.BoolOp) -> SourceValue:
        stops = isinstance(node.op, ast.Or)
        values: list[SourceValue] = []
        for index, part in enumerate(node.values):
            values.append(self.value(part))
            known = truth(values[-1])
            if known is None:
                values += [self.look(rest) for rest in node.values[index + 1 :]]
                return mapped(f"{unparsed(node)} is not known", values, lambda row: decided(row, stops))
            if known is stops:
                for rest in node.values[index + 1 :]:
                    self._unless_seen(rest)
                break
        doubts = [doubt for value in values[:-1] for doubt in doubts_of(value)]
        return guessed(values[-1], Unknown(""), doubts) if doubts else values[-1]

    def _unless_seen(self, node: ast.expr) -> None:
        """Look at an expression that is left out."""
        if self._state.is_own(self._state.env) and node not in self._state.seen.values:
            self.look(node)

    def _either(self, node: ast.IfExp) -> SourceValue:
        test = self.value(node.test)
        known = truth(test)
        if known is not None:
            taken, other = (node.body, node.orelse) if known else (node.orelse, node.body)
            return self._weighed(test, taken, other)
        with self._state.condition():
            return one_of([self.value(node.body), self.value(node.orelse)])

    def _weighed(self, test: SourceValue, taken: ast.expr, other: ast.expr) -> SourceValue:
        """Return one of two expressions, with what the other would be where the test is taken for granted."""
        value, doubts = self.value(taken), doubts_of(test)
        if not is_open(test):
            self._unless_seen(other)
            return guessed(value, Unknown(""), doubts) if doubts else value
        point = fork()
        whole = several("", [(value, frozenset({(point, 0)})), (self.look(other), frozenset({(point, 1)}))])
        return guessed(value, whole, doubts)

    def _comprehension(self, node: Comprehension) -> SourceValue:
        made = self._comprehensions.value(node)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self._unless_seen(part)
        return made

    def _named(self, node: ast.NamedExpr) -> SourceValue:
        value = self.value(node.value)
        self._bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> SourceValue:
        made = Routine(node, self._state.env, defaults_of(node.args, self.value))
        self._state.routines[node] = made
        return made

    def _text(self, node: ast.JoinedStr) -> SourceValue:
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
        text = "".join(parts)
        return Known(text, node, (), (_TEXT,)) if len(text) <= LONGEST_TEXT else Unknown("is a formatted text")


_KINDS: Final[dict[type[ast.expr], Callable[[Expressions, Any], SourceValue]]] = {
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
