"""Constant propagation: what an expression is, and which literals it rests on."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from tcprobe.syntax.choices import MOST, NOTHING, Choices, Outcome, merged
from tcprobe.syntax.names import Names
from tcprobe.syntax.origins import Origins
from tcprobe.syntax.scopes import owner
from tcprobe.syntax.values import (
    LONGEST,
    Known,
    Literal_,
    LiteralUse,
    as_role,
    binary,
    compare,
    derived,
    item,
    tuple_of,
    unary,
)
from tcprobe.syntax.walk import Walk

MakeLiteral = Callable[[ast.Constant], Literal_]


class Constants:
    """Constants of one file; every expression is looked at once."""

    def __init__(self, walk: Walk, names: Names, literal: MakeLiteral) -> None:
        self._walk = walk
        self._names = names
        self._literal = literal
        self._memo: dict[ast.AST, Outcome] = {}
        self.origins = Origins(walk, names, self.of)

    def of(self, node: ast.expr) -> Outcome:
        """Return every constant that an expression may be, as far as the file tells."""
        if node not in self._memo:
            self._memo[node] = Outcome((), "is defined by itself")
            try:
                self._memo[node] = self._outcome(node)
            except RecursionError:
                self._memo[node] = Outcome((), "rests on too long a chain of others")
        return self._memo[node]

    def _outcome(self, node: ast.expr) -> Outcome:
        evaluate = _KINDS.get(type(node))
        if evaluate is None:
            return Outcome((), f"is {_WORDS.get(type(node), 'an expression that is not followed')}")
        return evaluate(self, node)

    def _constant(self, node: ast.Constant) -> Outcome:
        if node.value is not None and not isinstance(node.value, int | float | str):
            return Outcome((), "is no number or text")
        use = LiteralUse(self._literal(node), "value")
        return _one(Known(node.value, (use,), node))

    def _followed(self, node: ast.expr) -> Outcome:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self._slice(node, node.slice)
        found = self.origins.of(node)
        options: dict[tuple[int, Choices], tuple[Known, Choices]] = {}
        reason = found.reason
        for thing, choices in found.options:
            if isinstance(thing, Known):
                options[(id(thing), choices)] = (thing, choices)
            elif isinstance(thing, ast.expr) and thing is not node:
                inner = self.of(thing)
                reason = reason or inner.reason
                for known, more in inner.options:
                    both = merged(choices, more)
                    if both is not None:
                        options[(id(known), both)] = (known, both)
            else:
                reason = reason or "is no number or text"
        return _capped(options.values(), reason)

    def _slice(self, node: ast.Subscript, cut: ast.Slice) -> Outcome:
        parts = [self.of(p) if p is not None else None for p in (cut.lower, cut.upper, cut.step)]
        bounds: list[Any] = []
        for part in parts:
            if part is not None and (part.reason or len(part.options) != 1):
                return Outcome((), "is a slice that is not known")
            bounds.append(part.options[0][0].value if part is not None else None)
        if not all(b is None or isinstance(b, int) for b in bounds) or bounds[2] == 0:
            return Outcome((), "is a slice that is not known")
        return self._mapped([node.value], lambda known: item(known[0], slice(*bounds), node))

    def _sequence(self, node: ast.Tuple | ast.List) -> Outcome:
        plain = [e.value if isinstance(e, ast.Starred) else e for e in node.elts]
        starred = [isinstance(e, ast.Starred) for e in node.elts]

        def build(parts: tuple[Known, ...]) -> Known | None:
            flat: list[Known] = []
            for part, spread in zip(parts, starred, strict=True):
                if spread and not isinstance(part.value, tuple):
                    return None
                flat.extend(part.elements if spread else (part,))
            return tuple_of(flat, node)

        return self._mapped(plain, build)

    def _binary(self, node: ast.BinOp) -> Outcome:
        return self._mapped([node.left, node.right], lambda p: binary(node.op, p[0], p[1], node))

    def _unary(self, node: ast.UnaryOp) -> Outcome:
        return self._mapped([node.operand], lambda p: unary(node.op, p[0], node))

    def _compare(self, node: ast.Compare) -> Outcome:
        if len(node.ops) != 1:
            return Outcome((), "is a comparison of several values")
        return self._mapped([node.left, node.comparators[0]], lambda p: compare(node.ops[0], p[0], p[1], node))

    def _bool(self, node: ast.BoolOp) -> Outcome:
        stops = isinstance(node.op, ast.Or)

        def decide(parts: tuple[Known, ...]) -> Known:
            return next((p for p in parts if bool(p.value) is stops), parts[-1])

        return self._mapped(node.values, decide)

    def _list_of(self, node: ast.ListComp | ast.GeneratorExp) -> Outcome:
        """Return the tuple that a comprehension over one known sequence makes."""
        generator = node.generators[0]
        if len(node.generators) != 1 or generator.ifs:
            return Outcome((), "is a comprehension that is not followed")
        whole = self.of(generator.iter)
        if whole.reason is not None or len(whole.options) != 1 or not isinstance(whole.options[0][0].value, tuple):
            return Outcome((), "is a comprehension that is not followed")
        length = len(whole.options[0][0].value)
        each = self.of(node.elt)
        if each.reason is not None or length > MOST:
            return Outcome((), each.reason or "has too many values")
        if len(each.options) == 1:
            return _one(tuple_of([each.options[0][0]] * length, node))
        chosen = {next((i for p, i in c if p == id(node)), -1): k for k, c in each.options if len(c) == 1}
        if sorted(chosen) != list(range(length)):
            return Outcome((), "is a comprehension that is not followed")
        return _one(tuple_of([chosen[i] for i in range(length)], node))

    def _call(self, node: ast.Call) -> Outcome:
        function = self._function(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found = self.origins.of(node)
            if found.options and found.options[0][0] is not node:
                return self._merge_get(node)
        if function is None or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            return Outcome((), f"is the result of {_called(node)}")
        return self._mapped(node.args, lambda parts: applied(function, parts, node))

    def _merge_get(self, node: ast.Call) -> Outcome:
        found = self.origins.of(node)
        parts = [self.of(t) for t, _ in found.options if isinstance(t, ast.expr)]
        if len(parts) != 1 or found.reason is not None:
            return Outcome((), f"is the result of {_called(node)}")
        return parts[0]

    def _function(self, func: ast.expr) -> str | None:
        if isinstance(func, ast.Name):
            use = self._walk.uses.get(func)
            builtin = use is not None and owner(use.scope, func.id) is None
            if builtin:
                return func.id if func.id in FUNCTIONS else None
        name = self._names.written(func)
        return name if name in FUNCTIONS else None

    def _mapped(self, nodes: list[ast.expr], make: Callable[[tuple[Known, ...]], Known | None]) -> Outcome:
        """Combine the possible values of several expressions, choices that exclude each other left out."""
        outcomes = [self.of(n) for n in nodes]
        reason = next((o.reason for o in outcomes if o.reason is not None), None)
        options: list[tuple[Known, Choices]] = []
        for parts, choices in islice(_combined(outcomes), MOST + 1):
            made = make(parts)
            if made is None:
                reason = reason or "cannot be computed"
            else:
                options.append((made, choices))
        return _capped(options, reason)


def _combined(outcomes: list[Outcome]) -> Iterator[tuple[tuple[Known, ...], Choices]]:
    rows: list[tuple[tuple[Known, ...], Choices]] = [((), NOTHING)]
    for outcome in outcomes:
        if len(outcome.options) == 1 and not outcome.options[0][1]:
            rows = [((*row, outcome.options[0][0]), c) for row, c in rows]
            continue
        following = []
        for row, choices in rows:
            for known, more in outcome.options:
                both = merged(choices, more)
                if both is not None:
                    following.append(((*row, known), both))
        rows = following[: MOST + 1]
    return iter(rows)


def _one(known: Known) -> Outcome:
    return Outcome(((known, NOTHING),))


def _capped(options: Iterable[tuple[Known, Choices]], reason: str | None) -> Outcome:
    kept = tuple(options)
    return Outcome(kept, reason) if len(kept) <= MOST else Outcome((), "has too many values")


def _called(node: ast.Call) -> str:
    try:
        text = ast.unparse(node.func)
    except RecursionError:
        text = ""
    return f"{text}()" if 0 < len(text) <= 40 else "a call"


def _range(*bounds: int) -> tuple[int, ...] | None:
    made = range(*bounds)
    return tuple(made) if len(made) <= LONGEST else None


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "abs": abs,
    "round": round,
    "len": len,
    "min": min,
    "max": max,
    "sum": sum,
    "range": _range,
    "tuple": tuple,
    "list": tuple,
    "sorted": lambda values: tuple(sorted(values)),
    "reversed": lambda values: tuple(reversed(values)),
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.sqrt": math.sqrt,
    "math.isqrt": math.isqrt,
    "math.log2": math.log2,
    "math.prod": math.prod,
    "math.pow": math.pow,
    "numpy.prod": math.prod,
}
"""Functions without side effects that are computed, by the name under which they were imported."""

_SAME: Final = ("tuple", "list", "reversed")


def applied(name: str, parts: tuple[Known, ...], node: ast.Call) -> Known | None:
    """Return the result of one of `FUNCTIONS`; None where it raises, or is no sensible constant."""
    if name in _SAME and len(parts) == 1 and isinstance(parts[0].value, tuple):
        elements = parts[0].elements
        return tuple_of(reversed(elements) if name == "reversed" else elements, node)
    if name == "int" and len(parts) == 1 and type(parts[0].value) is int:
        return parts[0].at(node)
    if any(isinstance(p.value, str) for p in parts) and name not in ("len", "bool"):
        return None
    try:
        value = FUNCTIONS[name](*(p.value for p in parts))
    except (ArithmeticError, TypeError, ValueError, AttributeError):
        return None
    if isinstance(value, tuple):
        uses = as_role((use for p in parts for use in p.literals), "other")
        return tuple_of([Known(v, uses, node) for v in value], node)
    return derived(value, parts, node) if isinstance(value, int | float) and abs(value) < 2.0**63 else None


_KINDS: Final[dict[type[ast.expr], Callable[[Constants, Any], Outcome]]] = {
    ast.Constant: Constants._constant,
    ast.Name: Constants._followed,
    ast.Attribute: Constants._followed,
    ast.Subscript: Constants._followed,
    ast.IfExp: Constants._followed,
    ast.NamedExpr: Constants._followed,
    ast.Tuple: Constants._sequence,
    ast.List: Constants._sequence,
    ast.BinOp: Constants._binary,
    ast.UnaryOp: Constants._unary,
    ast.Compare: Constants._compare,
    ast.BoolOp: Constants._bool,
    ast.ListComp: Constants._list_of,
    ast.GeneratorExp: Constants._list_of,
    ast.Call: Constants._call,
}
_WORDS: Final[dict[type[ast.expr], str]] = {
    ast.JoinedStr: "a formatted text",
    ast.Lambda: "a function",
    ast.Dict: "a dictionary",
    ast.Await: "awaited",
}
