"""Functions without side effects that are computed: of Python, `math` and NumPy."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any, Final

from tcprobe.source.values import LONGEST_RESULT, Known, derived, tuple_of


def _range(*bounds: int) -> tuple[int, ...] | None:
    made = range(*bounds)
    return tuple(made) if len(made) <= LONGEST_RESULT else None


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
    "math.log": math.log,
    "numpy.prod": math.prod,
    "numpy.sqrt": math.sqrt,
    "numpy.ceil": lambda value: float(math.ceil(value)),
    "numpy.floor": lambda value: float(math.floor(value)),
    "numpy.log2": math.log2,
    "numpy.abs": abs,
    "numpy.sum": sum,
    "numpy.max": max,
    "numpy.min": min,
    "tensorflow.sqrt": math.sqrt,
    "tensorflow.math.sqrt": math.sqrt,
    "tensorflow.reduce_prod": math.prod,
    "keras.ops.sqrt": math.sqrt,
    "keras.ops.prod": math.prod,
}
"""The functions, by the names under which they are imported."""

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
        whole = derived(value, parts, node)
        return tuple_of([Known(v, node, (), whole.doubts, abroad=whole.abroad) for v in value], node)
    return derived(value, parts, node) if isinstance(value, int | float) and abs(value) < 2.0**63 else None
