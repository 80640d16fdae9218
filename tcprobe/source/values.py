"""Constants: a value, and why it may be another one."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

Choices: TypeAlias = frozenset[tuple[int, int]]
"""Which way was taken at each of several points, by their numbers."""

LARGEST_NUMBER: Final = 2**63  # a size past it is no size, and arithmetic on such numbers may never end
LONGEST_TEXT: Final = 100_000  # characters that formatting makes
LONGEST_RESULT: Final = 1_024  # elements of a tuple, characters of a string that arithmetic makes
MOST_LEAVES: Final = 10_000  # constants in a tuple; `x = (x, x)` in 60 lines has more than there are atoms on Earth


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a value may be another one when the program runs.

    Attributes:
        reason: the reason, as it follows the name of what has the value.
        function: the function that was handed the value: there is a doubt only if it may be called in ways that
            were not seen. None where there is one anyway.
        hidden: whether the value stands for nothing that the source tells (a formatted text, a dimension of a tensor).
    """

    reason: str
    function: ast.AST | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A value that the source tells.

    Attributes:
        value: int, float, str, bool, None, or a tuple of these (a list counts as a tuple).
        expression: the expression that was asked for.
        elements: of a tuple; empty otherwise.
        doubts: why it may be another value.
        options: all that it may be, itself among them, each under the choices that lead to it; empty where nobody
            can tell, or it is this one.
        leaves: how many constants are in it, those of tuples within tuples counted as often as they stand there.
        abroad: whether it rests on a constant of another file.
    """

    value: Any
    expression: ast.expr
    elements: tuple[Known, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    options: tuple[tuple[Known, Choices], ...] = ()
    leaves: int = 1
    abroad: bool = False

    def at(self, expression: ast.expr) -> Known:
        """Return the same value as that of another expression."""
        return replace(self, expression=expression)

    def doubted(self, doubt: Doubt) -> Known:
        """Return the same value, with one more doubt about it and its elements."""
        if doubt in self.doubts:
            return self
        elements = tuple(item.doubted(doubt) for item in self.elements)
        options = tuple((option.doubted(doubt), choices) for option, choices in self.options)
        return replace(self, elements=elements, doubts=(*self.doubts, doubt), options=options)


def _doubts(parts: Iterable[Known]) -> tuple[Doubt, ...]:
    """Return the doubts about any of several values."""
    return tuple(dict.fromkeys(doubt for part in parts for doubt in part.doubts))


def _abroad(parts: Iterable[Known]) -> bool:
    return any(part.abroad for part in parts)


def tuple_of(items: Iterable[Known], expression: ast.expr) -> Known:
    """Return the tuple of known values."""
    elements = tuple(items)
    whole = tuple(item.value for item in elements)
    leaves = sum(item.leaves for item in elements)
    return Known(whole, expression, elements, _doubts(elements), leaves=leaves, abroad=_abroad(elements))


def derived(value: Any, parts: Iterable[Known], expression: ast.expr) -> Known:
    """Return a value that some arithmetic made of others."""
    whole = tuple(parts)
    return Known(value, expression, (), _doubts(whole), abroad=_abroad(whole))


_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: a is b if a is None or b is None else a == b and type(a) is type(b),
    ast.IsNot: lambda a, b: a is not b if a is None or b is None else not (a == b and type(a) is type(b)),
}


def binary(op: ast.operator, left: Known, right: Known, expression: ast.expr) -> Known | None:
    """Return Python's own result; None where it raises, or is no sensible constant (too large, a formatted text)."""
    a, b = left.value, right.value
    if not _small(op, a, b):
        return None
    value = _apply(_BINARY.get(type(op)), a, b)
    if value is _FAILED:
        return None
    if isinstance(value, tuple):
        return _joined(op, left, right, expression)
    return derived(value, (left, right), expression)


def unary(op: ast.unaryop, operand: Known, expression: ast.expr) -> Known | None:
    """Return Python's own result; None where it raises."""
    value = _apply(_UNARY[type(op)], operand.value)
    return None if value is _FAILED else derived(value, (operand,), expression)


def compare_values(op: ast.cmpop, left: Known, right: Known, expression: ast.expr) -> Known | None:
    """Return Python's own result; None where it raises."""
    value = _apply(_COMPARE[type(op)], left.value, right.value)
    return None if value is _FAILED else derived(value, (left, right), expression)


def item(of: Known, index: Known | int | slice, expression: ast.expr) -> Known | None:
    """Return an element of a known tuple or text; None where there is none."""
    key = index.value if isinstance(index, Known) else index
    if isinstance(of.value, tuple) and isinstance(key, slice):
        return tuple_of(of.elements[key], expression)
    if isinstance(of.value, tuple) and isinstance(key, int) and -len(of.elements) <= key < len(of.elements):
        return of.elements[key].at(expression)
    if isinstance(of.value, str) and isinstance(key, int | slice):
        value = _apply(operator.getitem, of.value, key)
        return None if value is _FAILED else derived(value, (of,), expression)
    return None


def same(values: list[Known], expression: ast.expr) -> Known | None:
    """Return the one value that all are, with the doubts about each; None where they differ or are none."""
    if not values or any(not identical(v.value, values[0].value) for v in values):
        return None
    if len(values) == 1:
        return values[0]
    rows = zip(*(v.elements for v in values), strict=False)
    elements = tuple(e for row in rows if (e := same(list(row), expression)) is not None)
    return Known(values[0].value, expression, elements, _doubts(values), abroad=_abroad(values))


def identical(a: Any, b: Any) -> bool:
    """Return whether two constants are the same, in type as well: 1 is not True, nor 1.0."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(identical(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and (a == b or (a != a and b != b))


_FAILED: Final = object()


def _apply(function: Callable[..., Any] | None, *operands: Any) -> Any:
    if function is None:
        return _FAILED
    try:
        value = function(*operands)
    except (ArithmeticError, TypeError, ValueError, LookupError):
        return _FAILED
    if isinstance(value, complex) or (isinstance(value, int) and abs(value) > LARGEST_NUMBER):
        return _FAILED
    return value


def _small(op: ast.operator, a: Any, b: Any) -> bool:
    """Say whether the operation ends soon and makes nothing huge."""
    if isinstance(op, ast.Pow):
        numbers = isinstance(a, int | float) and isinstance(b, int | float)
        return numbers and (isinstance(a, float) or isinstance(b, float) or b <= 64 or abs(a) <= 1)
    if isinstance(op, ast.LShift):
        return isinstance(a, int) and isinstance(b, int) and b <= 64
    if isinstance(op, ast.Mult) and (isinstance(a, str | tuple) or isinstance(b, str | tuple)):
        sequence, times = (a, b) if isinstance(a, str | tuple) else (b, a)
        return isinstance(times, int) and len(sequence) * times <= LONGEST_RESULT
    if isinstance(op, ast.Add) and isinstance(a, str | tuple):
        return isinstance(b, type(a)) and len(a) + len(b) <= LONGEST_RESULT
    return not (isinstance(op, ast.Mod) and isinstance(a, str))


def _joined(op: ast.operator, left: Known, right: Known, expression: ast.expr) -> Known | None:
    if isinstance(op, ast.Add):
        return tuple_of((*left.elements, *right.elements), expression)
    of, times = (left, right) if isinstance(left.value, tuple) else (right, left)
    return tuple_of(of.elements * times.value, expression) if isinstance(times.value, int) else None
