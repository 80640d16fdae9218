"""Products that the user's code calls by itself: what they multiply, how often, and where."""

from __future__ import annotations

import ast
from typing import Any, Final

from tcprobe.audit.source.kinds import Arguments, Instance, Multiplied, SourceValue, Tensor, Unknown
from tcprobe.audit.source.layers import policy_dtypes
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values import items_of
from tcprobe.keras.products.own import OwnOp
from tcprobe.source.values import Known

_NAMES: Final[dict[str, OwnOp]] = {
    "tensorflow.matmul": "matmul",
    "tensorflow.linalg.matmul": "matmul",
    "tensorflow.einsum": "einsum",
    "tensorflow.linalg.einsum": "einsum",
    "tensorflow.nn.conv1d": "conv",
    "tensorflow.nn.conv2d": "conv",
    "tensorflow.nn.conv3d": "conv",
    "tensorflow.nn.convolution": "conv",
    "keras.ops.matmul": "matmul",
    "keras.ops.einsum": "einsum",
    "keras.ops.conv": "conv",
}
_OPERANDS: Final = {
    "matmul": (("a", "x1"), ("b", "x2")),
    "conv": (("input", "inputs"), ("filters", "kernel", "filter")),
}


def note_call(p: State, name: str, given: Arguments, node: ast.Call) -> None:
    """Note a call of a canonical name where it multiplies tensors."""
    op = _NAMES.get(name)
    if op is None or given.lacking:
        return
    if op == "einsum":
        operands = given.args[1:] if len(given.args) == 3 else []
        equation = given.first.value if isinstance(given.first, Known) else ...
        settings: dict[str, Any] = {"equation": equation if isinstance(equation, str) else ...}
    else:
        operands = [v for i, names in enumerate(_OPERANDS[op]) if (v := _argument(given, i, names)) is not None]
        settings = _turned(given) if op == "matmul" else _windows(given, keras=name.startswith("keras."))
    if len(operands) == 2:
        _note(p, op, operands, settings, name.rpartition(".")[2], node)


def note_operator(p: State, left: SourceValue, right: SourceValue, node: ast.BinOp) -> None:
    """Note ``left @ right`` where it multiplies tensors, not NumPy's arrays alone."""
    tensors = isinstance(left, Tensor) or isinstance(right, Tensor)
    if p.aside or not tensors or all(isinstance(v, Tensor) and v.fresh and not v.symbolic for v in (left, right)):
        return
    p.operators.setdefault(node, p.here.place(node))
    _note(p, "matmul", [left, right], {"transpose_a": False, "transpose_b": False}, "matmul", node)


def _note(
    p: State, op: OwnOp, operands: list[SourceValue], settings: dict[str, Any], name: str, node: ast.expr
) -> None:
    """Note a product of two tensors; an operand that is not known counts as one of no known shape."""
    a, b = (Tensor() if isinstance(value, Unknown) else value for value in operands)
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return
    instance = next((frame.bound for frame in reversed(p.frames) if isinstance(frame.bound, Instance)), None)
    made = Multiplied(op, name, a, b, settings, _dtype(p, instance), p.here.place(node), node)
    runs = p.multiplied.setdefault((node, a, b, repr(settings), instance), made).runs
    runs[p.env] = runs.get(p.env, 0) + 1


def _dtype(p: State, instance: Instance | None) -> str | None:
    """Return what a product computes in: inside a layer of Keras what the policy says; None where unknown.

    Elsewhere what its operands are, which is float32 where the file names nothing narrower.
    """
    if instance is not None and instance.keras in ("model", "layer"):
        return policy_dtypes(p.policy)[0]
    return None if "float16" in p.here.text else "float32"


def _argument(given: Arguments, index: int, names: tuple[str, ...]) -> SourceValue | None:
    found = (given.get(index, name) for name in names)
    return next((value for value in found if value is not None), None)


def _turned(given: Arguments) -> dict[str, Any]:
    """Return whether the operands are transposed; ``...`` where that is not known."""
    settings: dict[str, Any] = {}
    for index, side in enumerate("ab"):
        flags = [given.get(2 + index, f"transpose_{side}"), given.keywords.get(f"adjoint_{side}")]
        told = [flag.value if isinstance(flag, Known) else ... for flag in flags if flag is not None]
        settings[f"transpose_{side}"] = ... if ... in told else any(told)
    return settings


def _windows(given: Arguments, keras: bool) -> dict[str, Any]:
    """Return how a convolution's filter slides, in Keras' words; ``...`` where that is not known."""
    strides, padding = given.get(2, "strides"), given.get(3, "padding")
    layout, dilations = given.keywords.get("data_format"), given.keywords.get("dilations")
    if keras:
        dilations = given.keywords.get("dilation_rate")
    settings = {"strides": _steps(strides), "dilation_rate": _steps(dilations), "padding": "valid"}
    if padding is not None or not keras:
        word = padding.value if isinstance(padding, Known) else None
        settings["padding"] = word.lower() if isinstance(word, str) and word.lower() in ("same", "valid") else ...
    last = layout is None or (isinstance(layout, Known) and layout.value in (None, "NHWC", "NDHWC", "channels_last"))
    return settings if last else {**settings, "data_format": ...}


def _steps(value: SourceValue | None) -> Any:
    """Return the steps along the image: one for all, or one each, those of batch and channels left out."""
    if value is None or (isinstance(value, Known) and value.value is None):
        return 1
    if isinstance(value, Known) and type(value.value) is int:
        return value.value
    items = items_of(value)
    sizes = [item.value if isinstance(item, Known) and type(item.value) is int else ... for item in items or ()]
    if not sizes or ... in sizes:
        return ...
    return tuple(sizes[1:-1] if len(sizes) > 3 or (len(sizes) == 3 and sizes[0] == sizes[-1] == 1) else sizes)
