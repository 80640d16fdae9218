"""Operators on values, and functions of constants."""

from __future__ import annotations

import ast

from tcprobe.audit.source.arrays.elementwise import combined
from tcprobe.audit.source.arrays.products import multiplied
from tcprobe.audit.source.values.computed import applied
from tcprobe.audit.source.values.kinds import Bound, Entries, Items, Named, SourceValue, Tensor, Unknown, known_constant
from tcprobe.audit.source.values.known import items_of
from tcprobe.audit.source.values.parts import truth, unparsed
from tcprobe.audit.source.values.several import known_of, mapped, through
from tcprobe.source.values import LONGEST_RESULT, MOST_LEAVES, Known, binary, compare_values, unary


def arithmetic(op: ast.operator, left: SourceValue, right: SourceValue, node: ast.expr) -> SourceValue:
    """Return the result of an operator between two values."""
    if _some_of_several(left, right):
        return mapped(_reason([left, right], node), [left, right], lambda row: arithmetic(op, row[0], row[1], node))
    return through(_calculated(op, left, right, node), [left, right], lambda row: arithmetic(op, row[0], row[1], node))


def _calculated(op: ast.operator, left: SourceValue, right: SourceValue, node: ast.expr) -> SourceValue:
    if isinstance(left, Known) and isinstance(right, Known):
        return binary(op, left, right, node) or Unknown(f"{unparsed(node)} cannot be computed")
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _of_tensors(op, left, right)
    if isinstance(op, ast.Add) and items_of(left) is not None and items_of(right) is not None:
        joined = [*(items_of(left) or ()), *(items_of(right) or ())]
        return Items(joined[:MOST_LEAVES], None if len(joined) <= MOST_LEAVES else "is too long a list to be followed")
    times = right if isinstance(right, Known) else left
    repeated = items_of(left) if times is right else items_of(right)
    if isinstance(op, ast.Mult) and repeated is not None and isinstance(times, Known) and type(times.value) is int:
        whole = repeated * times.value if len(repeated) * times.value <= LONGEST_RESULT else None
        return Items(whole) if whole is not None else Items(repeated, "is repeated too often")
    return Unknown(_reason([left, right], node))


def _some_of_several(*values: SourceValue) -> bool:
    """Return whether one of several values may be several, and none is a tensor."""
    options = any(isinstance(v, Unknown) and v.options for v in values)
    return options and not any(isinstance(v, Tensor) for v in values)


def _reason(values: list[SourceValue], node: ast.expr) -> str:
    return next((v.reason for v in values if isinstance(v, Unknown)), f"{unparsed(node)} is not known")


def _of_tensors(op: ast.operator, left: SourceValue, right: SourceValue) -> SourceValue:
    """Return an elementwise result or a product: of two tensors, or of one and a number."""
    if isinstance(op, ast.MatMult) and isinstance(left, Tensor) and isinstance(right, Tensor):
        return multiplied(left, right)
    tensor, other = (left, right) if isinstance(left, Tensor) else (right, left)
    assert isinstance(tensor, Tensor)
    return combined(tensor, other)


def signed_value(op: ast.unaryop, of: SourceValue, node: ast.expr) -> SourceValue:
    """Return the result of an operator on one value: ``-a``, ``not a``."""
    if isinstance(of, Known):
        made = unary(op, of, node) or Unknown(f"{unparsed(node)} cannot be computed")
        return through(made, [of], lambda row: signed_value(op, row[0], node))
    if isinstance(op, ast.Not) and not isinstance(of, Unknown | Tensor | Bound | Named):
        return known_constant(not truth(of), node)
    if isinstance(of, Unknown) and of.options:
        return mapped(of.reason, [of], lambda row: signed_value(op, row[0], node))
    return of


def compared(op: ast.cmpop, left: SourceValue, right: SourceValue, node: ast.expr) -> SourceValue:
    """Return the result of one comparison."""
    if _some_of_several(left, right):
        reason = f"{unparsed(node)} is not known"
        return mapped(reason, [left, right], lambda row: compared(op, row[0], row[1], node))
    if isinstance(left, Known) and isinstance(right, Known):
        made = compare_values(op, left, right, node) or Unknown(f"{unparsed(node)} cannot be computed")
        return through(made, [left, right], lambda row: compared(op, row[0], row[1], node))
    if (isinstance(left, Tensor) or isinstance(right, Tensor)) and not isinstance(
        op, ast.In | ast.NotIn | ast.Is | ast.IsNot
    ):
        return _of_tensors(ast.Add(), left, right)
    looked_up = isinstance(op, ast.In | ast.NotIn) and isinstance(right, Entries) and not right.open
    if looked_up and isinstance(left, Known) and isinstance(right, Entries):
        return known_constant((left.value in right.entries) is isinstance(op, ast.In), node)
    nothing = isinstance(right, Known) and right.value is None and isinstance(op, ast.Is | ast.IsNot)
    if nothing and not isinstance(left, Unknown | Bound | Named):
        return known_constant(isinstance(op, ast.IsNot), node)
    return Unknown(f"{unparsed(node)} is not known")


def computed(name: str, args: list[SourceValue], node: ast.Call) -> SourceValue:
    """Return the result of a function of constants (``math.sqrt``, ``max``)."""
    known = [k for a in args if (k := known_of(a, node)) is not None]
    if len(known) == len(args):
        made = applied(name, tuple(known), node) or Unknown(f"{unparsed(node)} cannot be computed")
        return through(made, known, lambda row: computed(name, row, node))
    if _some_of_several(*args):
        return mapped(_reason(args, node), args, lambda row: computed(name, row, node))
    return Unknown(_reason(args, node))
