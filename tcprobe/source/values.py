"""Constants: a value, and why it may be another one."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

LARGEST_NUMBER: Final = 2**63  # a size past it is no size, and arithmetic on such numbers may never end
LONGEST_TEXT: Final = 100_000  # characters that formatting makes
LONGEST_RESULT: Final = 1_024  # elements of a tuple, characters of a string that arithmetic makes
MOST_LEAVES: Final = 10_000  # constants in a tuple; `x = (x, x)` in 60 lines has more than there are atoms on Earth

Doubts: TypeAlias = frozenset["ast.AST | None"]
"""Why a value may be another one when the program runs: functions that were handed it, if other calls of them were not
seen; None for any other reason."""
DOUBTED: Final[Doubts] = frozenset({None})


class Known(Struct, frozen=True, gc=False):
    """A constant that the source tells."""

    value: Any  # int, float, str, bool, None, or a tuple of these (a list counts as a tuple)
    elements: tuple[Known, ...] = ()  # of a tuple; empty otherwise
    doubts: Doubts = frozenset()
    leaves: int = 1  # how many constants are in it, those of tuples within tuples counted as often as they stand there
    abroad: bool = False  # whether it rests on a constant of another file

    def doubted(self, doubts: Doubts) -> Known:
        """Return the same value, with more doubts about it and its elements."""
        if doubts <= self.doubts:
            return self
        elements = tuple(element.doubted(doubts) for element in self.elements)
        return replace(self, elements=elements, doubts=self.doubts | doubts)


def doubts_about(parts: Iterable[Known]) -> Doubts:
    """Return the doubts about any of several values."""
    return frozenset(doubt for part in parts for doubt in part.doubts)


def tuple_of(items: Iterable[Known]) -> Known:
    """Return the tuple of known values."""
    elements = tuple(items)
    leaves, abroad = sum(item.leaves for item in elements), any(item.abroad for item in elements)
    return Known(tuple(item.value for item in elements), elements, doubts_about(elements), leaves, abroad)


def derived(value: Any, *parts: Known) -> Known:
    """Return a value that some arithmetic made of others."""
    return Known(value, (), doubts_about(parts), abroad=any(part.abroad for part in parts))


_OPERATORS: Final[dict[type[ast.operator | ast.unaryop | ast.cmpop], Callable[..., Any]]] = {
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
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
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


def operate(op: ast.operator | ast.unaryop | ast.cmpop, *operands: Known) -> Known | None:
    """Return Python's own result; None where it raises, or is no sensible constant (too large, a formatted text)."""
    values = [operand.value for operand in operands]
    if isinstance(op, ast.operator) and not _small(op, *values):
        return None
    value = _apply(_OPERATORS.get(type(op)), *values)
    if isinstance(value, tuple):
        return _joined(op, *operands)
    return None if value is _FAILED else derived(value, *operands)


def item(of: Known, key: Any) -> Known | None:
    """Return an element of a known tuple or text; None where there is none."""
    if isinstance(of.value, tuple) and isinstance(key, slice):
        return tuple_of(of.elements[key])
    if isinstance(of.value, tuple) and isinstance(key, int) and -len(of.elements) <= key < len(of.elements):
        return of.elements[key]
    if isinstance(of.value, str) and isinstance(key, (int, slice)):
        value = _apply(operator.getitem, of.value, key)
        return None if value is _FAILED else derived(value, of)
    return None


def same(values: list[Known]) -> Known | None:
    """Return the one value that all are, with the doubts about each; None where they differ or are none."""
    if not values or any(not identical(v.value, values[0].value) for v in values):
        return None
    if len(values) == 1:
        return values[0]
    elements = [same(list(row)) for row in zip(*(v.elements for v in values), strict=False)]
    known = tuple(element for element in elements if element is not None)
    return Known(values[0].value, known, doubts_about(values), abroad=any(v.abroad for v in values))


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
        numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
        return numbers and (isinstance(a, float) or isinstance(b, float) or b <= 64 or abs(a) <= 1)
    if isinstance(op, ast.LShift):
        return isinstance(a, int) and isinstance(b, int) and b <= 64
    if isinstance(op, ast.Mult) and (isinstance(a, (str, tuple)) or isinstance(b, (str, tuple))):
        sequence, times = (a, b) if isinstance(a, (str, tuple)) else (b, a)
        return isinstance(times, int) and len(sequence) * times <= LONGEST_RESULT
    if isinstance(op, ast.Add) and isinstance(a, (str, tuple)):
        return isinstance(b, type(a)) and len(a) + len(b) <= LONGEST_RESULT
    return not (isinstance(op, ast.Mod) and isinstance(a, str))


def _joined(op: ast.AST, left: Known, right: Known) -> Known | None:
    if isinstance(op, ast.Add):
        return tuple_of((*left.elements, *right.elements))
    of, times = (left, right) if isinstance(left.value, tuple) else (right, left)
    return tuple_of(of.elements * times.value) if isinstance(times.value, int) else None
