"""Expressions of the user's program, evaluated as far as reading tells; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.audit.source.arrays.indexing import index_kind, indexed
from tcprobe.audit.source.arrays.own_products import note_operator
from tcprobe.audit.source.attributes import attribute_of, bind
from tcprobe.audit.source.calls import call
from tcprobe.audit.source.functions import defaults_of
from tcprobe.audit.source.kinds import (
    NOTHING,
    Entries,
    Env,
    Items,
    Named,
    Routine,
    SourceValue,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.operators import arithmetic, compared, signed_value, taken
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values import (
    doubted,
    doubts_of,
    elements,
    guessed,
    is_read,
    not_known,
    one_of,
    sequence,
    through,
    truth,
    unparsed,
)
from tcprobe.source.names import HANDED
from tcprobe.source.values import DOUBTED, LARGEST_NUMBER, LONGEST_TEXT, Known, item

_Comprehension: TypeAlias = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp


def _followed(p: State, node: ast.Call) -> SourceValue:
    return _part(p, node, call(p, node))


def _part(p: State, node: ast.expr, value: SourceValue) -> SourceValue:
    """Return an element or attribute, with the doubt about the whole that it is taken from."""
    return value.doubted(p.here.routines.of_part(node)) if type(value) is Known else value


def _constant(p: State, node: ast.Constant) -> SourceValue:
    if isinstance(node.value, int) and node.value > LARGEST_NUMBER:
        return Unknown("is a number that is too large for a size")
    if node.value is None or isinstance(node.value, (int, float, str)):
        return Known(node.value, abroad=p.here is not p.source)
    return Unknown("is no number or text")


def _name(p: State, node: ast.Name) -> SourceValue:
    found = p.env.find(node.id)
    if found is None:
        return Named(p.here.names.written(node) or f"builtins.{node.id}")
    # A variable is a module of Keras where nothing but its name tells.
    if node.id in HANDED and (type(found) is Unknown or (type(found) is Known and found.value is None)):
        name = p.here.names.written(node)
        if name:
            return Named(name)
    return found.doubted(doubts) if type(found) is Known and (doubts := p.here.routines.of_name(node)) else found


def _attribute(p: State, node: ast.Attribute) -> SourceValue:
    of = p.value(node.value)
    if (type(of) is Named or type(of) is Unknown) and (handed_on := p.here.names.handed_on(node)) is not None:
        return Named(handed_on)
    return _part(p, node, attribute_of(p, of, node.attr))


def _subscript(p: State, node: ast.Subscript) -> SourceValue:
    of = p.value(node.value)
    if type(of) is Tensor:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return indexed(of, [index_kind(part, p.value) for part in parts])
    if isinstance(node.slice, ast.Slice):
        return _part(p, node, _slice(p, node, of, node.slice))
    return _part(p, node, taken(of, p.value(node.slice), node))


def _slice(p: State, node: ast.Subscript, of: SourceValue, cut: ast.Slice) -> SourceValue:
    bounds = [p.value(part) if part is not None else NOTHING for part in (cut.lower, cut.upper, cut.step)]
    ends = [b.value for b in bounds if type(b) is Known and (b.value is None or type(b.value) is int)]
    if len(ends) < 3 or ends[2] == 0:
        return not_known(node)
    if type(of) is Known:
        return item(of, slice(*ends)) or not_known(node)
    return replace(of, items=of.items[slice(*ends)]) if type(of) is Items and not of.open else of


def _sequence(p: State, node: ast.Tuple | ast.List | ast.Set) -> SourceValue:
    values: list[SourceValue] = []
    spreads: list[SourceValue] = []
    reason: str | None = None
    for part in node.elts:
        if isinstance(part, ast.Starred):
            spreads.append(p.value(part.value))
            found = elements(spreads[-1])
            reason = reason or (None if found is not None else "is spread from something that is not known")
            values.extend(found or ())
        else:
            values.append(p.value(part))
    if reason:
        return Items(values, reason)
    return through(sequence(values) if isinstance(node, ast.Tuple) else Items(values), *spreads)


def _dict(p: State, node: ast.Dict) -> SourceValue:
    made = Entries({})
    for key, value_node in zip(node.keys, node.values, strict=True):
        value = p.value(value_node)
        if key is not None:
            made.put(p.value(key), value)
        elif type(value) is Entries and not value.open:
            made.entries.update(value.entries)
            made.keys.update(value.keys)
        else:
            made.open = "is spread from something that is not known"
    return made


def _binary(p: State, node: ast.BinOp) -> SourceValue:
    left, right = p.value(node.left), p.value(node.right)
    if isinstance(node.op, ast.MatMult):
        note_operator(p, left, right, node)
    elif type(left) is Tensor and type(right) is Tensor and not p.aside:
        p.met.append([left, right])
        if p.taped and not p.in_model and isinstance(node.op, ast.Sub):  # an error, whatever is made of it
            p.compared.append([left, right])
    return arithmetic(node.op, left, right, node)


def _compare(p: State, node: ast.Compare) -> SourceValue:
    left, *others = [p.value(part) for part in (node.left, *node.comparators)]
    return compared(node.ops[0], left, others[0], node) if len(others) == 1 else not_known(node)


def _bool(p: State, node: ast.BoolOp) -> SourceValue:
    stops, doubts = isinstance(node.op, ast.Or), frozenset[ast.AST | None]()
    value: SourceValue = NOTHING
    for index, part in enumerate(node.values):
        value = guessed(p.value(part), doubts)
        known = truth(value)
        if known is None:
            for rest in node.values[index + 1 :]:
                p.look(rest)
            return not_known(node)
        if known is stops:
            for rest in node.values[index + 1 :]:
                _unless_seen(p, rest)
            break
        doubts |= doubts_of(value)
    return value


def _unless_seen(p: State, node: ast.expr) -> None:
    """Look at an expression that is left out."""
    if p.is_own(p.env) and node not in p.seen.values:
        p.look(node)


def _either(p: State, node: ast.IfExp) -> SourceValue:
    test = p.value(node.test)
    known = truth(test)
    if known is None:
        with p.being(conditions=p.conditions + 1):
            return one_of([p.value(node.body), p.value(node.orelse)])
    chosen, other = (node.body, node.orelse) if known else (node.orelse, node.body)
    value = p.value(chosen)
    _unless_seen(p, other)
    return guessed(value, doubts_of(test))


class _Made(Struct):
    """What a comprehension has made so far."""

    whole: Items | Entries
    outer: int  # how many doubts are from outside of it
    over: list[SourceValue] = field(default_factory=list)  # what it runs over


def _comprehension(p: State, node: _Comprehension) -> SourceValue:
    """Run through a comprehension where what it runs over is known."""
    made = _Made(Entries({}) if isinstance(node, ast.DictComp) else Items([]), len(p.doubts))
    with p.being(env=Env(p.env)):
        reason = _each(p, node.generators, made, node)
    made.whole.open = reason or made.whole.open
    for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
        _unless_seen(p, part)
    return through(made.whole, *made.over)


def _each(p: State, generators: list[ast.comprehension], made: _Made, node: _Comprehension) -> str | None:
    """Run through all that generators yield; return why there may be more or less of it."""
    generator, *rest = generators
    of = p.value(generator.iter)
    found = elements(of)
    made.over.append(of)
    reason: str | None = None
    if found is None:
        reason = of.reason if type(of) is Unknown else not_known(generator.iter).reason
        found = [Unknown(reason, is_read(of))]
        made.whole.read = made.whole.read or is_read(of)
    doubts = p.here.routines.of_part(generator.iter)
    for element in found:
        bind(p, generator.target, doubted(element, doubts))
        tests = [p.value(test) for test in generator.ifs]
        chosen = [truth(test) for test in tests]
        if False in chosen:
            continue
        reason = reason or ("is chosen by a condition" if None in chosen else None)
        with p.doubting(frozenset().union(*map(doubts_of, tests))):
            if rest:
                p.step()
                reason = _each(p, rest, made, node) or reason
            else:
                _collect(p, node, made)
    return reason


def _collect(p: State, node: _Comprehension, made: _Made) -> None:
    """Add what a comprehension makes of the elements that are bound now."""
    if isinstance(node, ast.DictComp):
        assert type(made.whole) is Entries
        made.whole.put(p.value(node.key), p.guessed(p.value(node.value), made.outer))
    else:
        assert type(made.whole) is Items
        made.whole.items.append(p.guessed(p.value(node.elt), made.outer))


def _named(p: State, node: ast.NamedExpr) -> SourceValue:
    value = p.value(node.value)
    bind(p, node.target, value)
    return value


def _lambda(p: State, node: ast.Lambda) -> SourceValue:
    made = p.routines[node] = Routine(node, p.env, defaults_of(node.args, p.value))
    return made


def _text(p: State, node: ast.JoinedStr) -> SourceValue:
    """A formatted text: known where all in it is, as names of layers in a loop are."""
    unknown, parts = Unknown("is a formatted text"), list[str]()
    for part in node.values:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        found = p.value(inner)
        formatted = isinstance(part, ast.FormattedValue) and (part.conversion != -1 or part.format_spec is not None)
        if formatted or type(found) is not Known or not isinstance(found.value, (int, str)):
            return unknown
        parts.append(str(found.value))
    text = "".join(parts)
    return Known(text, doubts=DOUBTED) if len(text) <= LONGEST_TEXT else unknown


def other_expression(p: State, node: ast.expr) -> SourceValue:
    """Evaluate the parts of an expression that is not followed."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            p.value(child)
    return Unknown(f"{unparsed(node)} is not followed")


EXPRESSIONS: Final[dict[type[ast.expr], Callable[[State, Any], SourceValue]]] = {
    ast.Call: _followed,
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: lambda p, node: signed_value(node.op, p.value(node.operand), node),
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.IfExp: _either,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.NamedExpr: _named,
    ast.Lambda: _lambda,
    ast.JoinedStr: _text,
}
