"""Expressions of the user's program, evaluated as far as reading tells; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from tcprobe.audit.source.arrays import indexed, kind_of
from tcprobe.audit.source.layers import Layers, unparsed
from tcprobe.audit.source.options import AT_DEFAULTS, is_flags, option
from tcprobe.audit.source.parts import dimension, entry, find_member, marked, of_tensors, truth
from tcprobe.audit.source.values import (
    NOTHING,
    Bound,
    Class,
    Draft,
    Entries,
    Env,
    Graph,
    Instance,
    Items,
    Named,
    Options,
    Routine,
    Stack,
    Tensor,
    Unknown,
    Value,
    items_of,
    number,
    sequence,
    together,
)
from tcprobe.syntax.source import Source
from tcprobe.syntax.values import Known, binary, compare, item, unary

MOST_ELEMENTS: Final = 64  # iterations of a loop that are followed one by one


class Expressions:
    """Evaluates the expressions of one file.

    Attributes:
        source: the file.
        layers: the layers that it has constructed so far.
        env: variables of the frame that runs.
        conditions: how many conditions that are not known the running statement stands under.
        flags: absl's flags.
        notes: what limits the reading, one sentence each.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, source: Source) -> None:
        self.source = source
        self.layers = Layers()
        self.env = Env()
        self.conditions = 0
        self.flags = Options({})

    def value(self, node: ast.expr) -> Value:
        """Return what an expression is."""
        evaluate = _KINDS.get(type(node))
        if evaluate is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
            return Unknown(f"{unparsed(node)} is not followed")
        return evaluate(self, node)

    def call(self, node: ast.Call) -> Value:
        """Return what a call is."""
        raise NotImplementedError

    def bind(self, target: ast.AST, value: Value) -> None:
        """Give a target of an assignment its value."""
        raise NotImplementedError

    def elements(self, value: Value) -> list[Value] | None:
        """Return what a loop over a value meets, one by one; None where that is not known, or too much."""
        if isinstance(value, Entries):
            keys: list[Value] = [number(key) for key in value.entries]
            found = None if value.open else keys
        else:
            found = items_of(value)
        return found if found is not None and len(found) <= MOST_ELEMENTS else None

    def _constant(self, node: ast.Constant) -> Value:
        return self.source.known(node) or Unknown("is no number or text")

    def _name(self, node: ast.Name) -> Value:
        found = self.env.find(node.id)
        if found is not None:
            return found
        name = self.source.written_name_of(node)
        return Named(name) if name else Named(f"builtins.{node.id}")

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node)

    def attribute(self, of: Value, node: ast.Attribute) -> Value:
        """Return an attribute of a value."""
        name = node.attr
        if isinstance(of, Named):
            return self._option(self.flags, name) if is_flags(of.name) else Named(f"{of.name}.{name}")
        if isinstance(of, Options):
            return self._option(of, name)
        if isinstance(of, Instance):
            found = of.attrs.get(name)
            if found is not None:
                return found
            member = find_member(of.of, name)
            if isinstance(member, Routine):
                return Routine(member.node, member.env, of.of if marked(member, "classmethod") else of, member.holder)
            if member is not None:
                return member
            return Bound(of, name) if of.keras else Unknown(f"{name} of {of.of.node.name} is not known")
        if isinstance(of, Class):
            member = find_member(of, name)
            if isinstance(member, Routine) and marked(member, "classmethod"):
                return Routine(member.node, member.env, of, member.holder)
            return member or Unknown(f"{name} of {of.node.name} is not known")
        if isinstance(of, Tensor):
            return self._of_tensor(of, name, node)
        if isinstance(of, Graph) and name in ("output", "outputs", "input", "inputs"):
            return of.outputs if name.startswith("output") else of.inputs
        if isinstance(of, Stack) and name in ("output", "input"):
            return (of.output if name == "output" else of.given) or Unknown(f"{name} of a model that is not built")
        if isinstance(of, Draft) and name == "output":
            return of.output or Unknown("output of a layer that nothing calls")
        return of if isinstance(of, Unknown) else Bound(of, name)

    def _option(self, of: Options, name: str) -> Value:
        found = option(of, name)
        if isinstance(found, Known) and AT_DEFAULTS not in self.notes:
            self.notes += (AT_DEFAULTS,)
        return found

    def _of_tensor(self, of: Tensor, name: str, node: ast.Attribute) -> Value:
        if name == "shape" and of.shape is not None:
            return Items([dimension(size, node) for size in of.shape])
        if name == "shape" and of.features is not None:
            return Items([number(of.features, node)], "its rank is not known")
        return Bound(of, name)

    def _subscript(self, node: ast.Subscript) -> Value:
        of = self.value(node.value)
        if isinstance(of, Tensor):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return indexed(of, [kind_of(part, self.value) for part in parts])
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, of, node.slice)
        index = self.value(node.slice)
        if isinstance(of, Unknown):
            return of
        if not isinstance(index, Known):
            reason = index.reason if isinstance(index, Unknown) else f"{unparsed(node.slice)} is not known"
            return Unknown(reason)
        if isinstance(of, Items) and of.open and index.value == -1 and len(of.items) == 1:
            return of.items[0]
        return entry(of, index, node)

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
            return item(of, slice(*bounds), node) or Unknown(f"{unparsed(node)} is not known")
        if isinstance(of, Items) and not of.open:
            return Items(of.items[slice(*bounds)])
        return of

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values: list[Value] = []
        reason: str | None = None
        for part in node.elts:
            if isinstance(part, ast.Starred):
                spread = self.value(part.value)
                found = self.elements(spread)
                reason = reason or (None if found is not None else "is spread from something that is not known")
                values.extend(found or ())
            else:
                values.append(self.value(part))
        if reason:
            return Items(values, reason)
        return sequence(values, node) if isinstance(node, ast.Tuple) else Items(values)

    def _dict(self, node: ast.Dict) -> Value:
        made = Entries({})
        for key, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            if key is None:
                if isinstance(value, Entries) and not value.open:
                    made.entries.update(value.entries)
                else:
                    made.open = "is spread from something that is not known"
                continue
            found = self.value(key)
            if isinstance(found, Known):
                made.entries[found.value] = value
            else:
                made.open = "has a key that is not known"
        return made

    def _binary(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        return self.arithmetic(node.op, left, right, node)

    def arithmetic(self, op: ast.operator, left: Value, right: Value, node: ast.expr) -> Value:
        """Return the result of an operator."""
        if isinstance(left, Known) and isinstance(right, Known):
            return binary(op, left, right, node) or Unknown(f"{unparsed(node)} cannot be computed")
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return of_tensors(op, left, right)
        if isinstance(op, ast.Add) and items_of(left) is not None and items_of(right) is not None:
            return Items([*(items_of(left) or ()), *(items_of(right) or ())])
        times = right if isinstance(right, Known) else left
        repeated = items_of(left) if times is right else items_of(right)
        if isinstance(op, ast.Mult) and repeated is not None and isinstance(times, Known) and type(times.value) is int:
            return Items(repeated * min(times.value, MOST_ELEMENTS))
        return next((v for v in (left, right) if isinstance(v, Unknown)), Unknown(f"{unparsed(node)} is not known"))

    def _unary(self, node: ast.UnaryOp) -> Value:
        of = self.value(node.operand)
        if isinstance(of, Known):
            return unary(node.op, of, node) or Unknown(f"{unparsed(node)} cannot be computed")
        if isinstance(node.op, ast.Not) and not isinstance(of, Unknown | Tensor | Bound | Named):
            return number(not truth(of), node)
        return of

    def _compare(self, node: ast.Compare) -> Value:
        values = [self.value(part) for part in (node.left, *node.comparators)]
        if len(values) != 2:
            return Unknown(f"{unparsed(node)} is not known")
        left, right, op = values[0], values[1], node.ops[0]
        if isinstance(left, Known) and isinstance(right, Known):
            return compare(op, left, right, node) or Unknown(f"{unparsed(node)} cannot be computed")
        looked_up = isinstance(op, ast.In | ast.NotIn) and isinstance(right, Entries) and not right.open
        if looked_up and isinstance(left, Known) and isinstance(right, Entries):
            return number((left.value in right.entries) is isinstance(op, ast.In), node)
        nothing = isinstance(right, Known) and right.value is None and isinstance(op, ast.Is | ast.IsNot)
        if nothing and not isinstance(left, Unknown | Bound | Named):
            return number(isinstance(op, ast.IsNot), node)
        return Unknown(f"{unparsed(node)} is not known")

    def _bool(self, node: ast.BoolOp) -> Value:
        stops = isinstance(node.op, ast.Or)
        for part in node.values:
            value = self.value(part)
            known = truth(value)
            if known is None:
                return Unknown(f"{unparsed(node)} is not known")
            if known is stops:
                return value
        return value

    def _either(self, node: ast.IfExp) -> Value:
        known = truth(self.value(node.test))
        if known is not None:
            return self.value(node.body if known else node.orelse)
        self.conditions += 1
        both = self.value(node.body), self.value(node.orelse)
        self.conditions -= 1
        return together(*both)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> Value:
        generator = node.generators[0]
        of = self.value(generator.iter)
        elements = self.elements(of) if len(node.generators) == 1 else None
        around, self.env = self.env, Env(self.env)
        made: list[Value] = []
        entries = Entries({})
        reason = None if elements is not None else f"{unparsed(generator.iter)} is not known"
        reason = of.reason if reason and isinstance(of, Unknown) else reason
        for element in elements if elements is not None else [Unknown(reason or "")]:
            self.bind(generator.target, element)
            tests = [truth(self.value(test)) for test in generator.ifs]
            if False in tests:
                continue
            reason = reason or ("is chosen by a condition" if None in tests else None)
            if isinstance(node, ast.DictComp):
                key, value = self.value(node.key), self.value(node.value)
                if isinstance(key, Known):
                    entries.entries[key.value] = value
                else:
                    reason = reason or "has a key that is not known"
            else:
                made.append(self.value(node.elt))
        self.env = around
        entries.open = reason
        return entries if isinstance(node, ast.DictComp) else Items(made, reason)

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.value(node.value)
        self.bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> Value:
        return Routine(node, self.env)

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
        return number("".join(parts), node)


_KINDS: Final[dict[type[ast.expr], Callable[[Expressions, Any], Value]]] = {
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
    ast.Call: lambda self, node: self.call(node),
}
