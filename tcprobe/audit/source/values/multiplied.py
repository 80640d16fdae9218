"""Products that the user's code calls by itself: what they multiply, how often, and where."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tcprobe.audit.source.values.kinds import Arguments, Env, Instance, SourceValue, Tensor, Unknown
from tcprobe.audit.source.values.known import items_of
from tcprobe.keras.products.own import OwnOp
from tcprobe.schema.place import Place
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
_Key: TypeAlias = tuple[ast.expr, Tensor, Tensor, str, Instance | None]


@dataclass(frozen=True, slots=True)
class OwnProduct:
    """What a call multiplies.

    Attributes:
        op: which product.
        a, b: of which tensors.
        settings: as `tcprobe.keras.products.own.own_records` takes them.
    """

    op: OwnOp
    a: Tensor
    b: Tensor
    settings: dict[str, Any]


@dataclass(slots=True, eq=False)
class Multiplied:
    """One product of the user's own.

    Attributes:
        op, a, b, settings: as in `OwnProduct`.
        name: the last part of the function's name.
        dtype: that it computes in; None where unknown.
        place: where it stands.
        node: the call, or the expression with the operator.
        runs: how often it ran, by the variables of the function around it: each call of a function has its own.
    """

    op: OwnOp
    name: str
    a: Tensor
    b: Tensor
    settings: dict[str, Any]
    dtype: str | None
    place: Place
    node: ast.expr
    runs: dict[Env, int] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """How often one step runs it: as often as one call of the function around it does."""
        return max(self.runs.values())


class OwnProducts:
    """The products of one file.

    Attributes:
        found: in the order in which they are met, those of one call that are alike once.
        operators: every ``@`` with a tensor, and where it stands.
    """

    def __init__(self) -> None:
        self.found: dict[_Key, Multiplied] = {}
        self.operators: dict[ast.expr, Place] = {}

    def add(self, made: Multiplied, run: Env, instance: Instance | None) -> None:
        """Count a product once more, in a call of the function around it and as part of an object."""
        key = made.node, made.a, made.b, repr(made.settings), instance
        runs = self.found.setdefault(key, made).runs
        runs[run] = runs.get(run, 0) + 1


def product_of(name: str, given: Arguments) -> OwnProduct | None:
    """Return what a call of a canonical name multiplies; None where it is no product, or of what are no tensors."""
    op = _NAMES.get(name)
    if op is None or given.lacking:
        return None
    if op == "einsum":
        operands = given.args[1:] if len(given.args) == 3 else []
        equation = given.first.value if isinstance(given.first, Known) else ...
        settings: dict[str, Any] = {"equation": equation if isinstance(equation, str) else ...}
    else:
        operands = [v for i, names in enumerate(_OPERANDS[op]) if (v := _argument(given, i, names)) is not None]
        settings = _turned(given) if op == "matmul" else _windows(given, keras=name.startswith("keras."))
    a, b = (tensor_of(value) for value in operands) if len(operands) == 2 else (None, None)
    return OwnProduct(op, a, b, settings) if a is not None and b is not None else None


def tensor_of(value: SourceValue) -> Tensor | None:
    """Return an operand as a tensor, of no known shape where it is not known; None where it is something else."""
    return Tensor() if isinstance(value, Unknown) else value if isinstance(value, Tensor) else None


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
