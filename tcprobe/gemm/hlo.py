"""Multiplications of XLA's dot and convolution, whose dimension numbers say what each dimension is.

Attributes carry the field names of XLA's DotDimensionNumbers and ConvolutionDimensionNumbers
(xla_data.proto), at the top or in an object of that message's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tcprobe.jsonfile import whole
from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product


def hlo_dot(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a dot; its sizes are unknown without contracting dimensions."""
    numbers = _numbers(op.attributes, "dot_dimension_numbers")
    left, right = op.shape(0), op.shape(1)
    if left is None or right is None or "lhs_contracting_dimensions" not in numbers:
        return [UNKNOWN_GEMM]
    sides = [_Side.of(left, numbers, "lhs", "m"), _Side.of(right, numbers, "rhs", "n")]
    if not all(side.valid for side in sides):
        return [UNKNOWN_GEMM]
    m, n = sides[0].free, sides[1].free
    k, batch = sides[0].contracted, sides[0].batch
    found = [c for c in (sides[0].innermost, sides[1].innermost, Contiguous("n", n)) if c is not None]
    return [Gemm(m, n, k, batch, tuple(found))]


class _Side:
    """One operand of a dot, its dimensions sorted into batch, free and contracted."""

    def __init__(self, shape: Shape, batch: list[int], contracted: list[int], role: str) -> None:
        self.valid = all(0 <= d < len(shape) for d in (*batch, *contracted))
        rest = [d for d in range(len(shape)) if d not in (*batch, *contracted)]
        self.batch, self.contracted, self.free = (
            product(shape[d] for d in dims if d < len(shape)) for dims in (batch, contracted, rest)
        )
        self.innermost = self._innermost(shape, batch, contracted, role)

    @classmethod
    def of(cls, shape: Shape, numbers: Mapping[str, Any], prefix: str, role: str) -> _Side:
        """Sort the dimensions of the operand that XLA calls `prefix`; its free dimensions become `role`."""
        batch = _dimensions(numbers.get(f"{prefix}_batch_dimensions"))
        return cls(shape, batch, _dimensions(numbers.get(f"{prefix}_contracting_dimensions")), role)

    def _innermost(self, shape: Shape, batch: list[int], contracted: list[int], role: str) -> Contiguous | None:
        last = len(shape) - 1
        if last < 0 or last in batch:
            return None
        return Contiguous("k", self.contracted) if last in contracted else Contiguous(role, self.free)


def hlo_convolution(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a convolution: output positions x output features x window.

    A dilated input (the gradient of a strided convolution) has holes that are never multiplied, so its contracted
    size is unknown. XLA may use the batch as the features of a gradient, so channels are named for the forward pass
    only.
    """
    numbers = _numbers(op.attributes, "convolution_dimension_numbers")
    image, kernel, result = op.shape(0), op.shape(1), op.output_shape
    if image is None or kernel is None or result is None:
        return [UNKNOWN_GEMM]
    filters = _pick(result, numbers.get("output_feature_dimension"))
    channels = _pick(kernel, numbers.get("kernel_input_feature_dimension"))
    if filters is None or channels is None:
        return [UNKNOWN_GEMM]
    groups = numbers.get("feature_group_count", op.attributes.get("feature_group_count", 1))
    taps = product(_pick(kernel, d) for d in _dimensions(numbers.get("kernel_spatial_dimensions")))
    elements = product(result)
    rows = None if elements is None or not filters else elements // filters
    window = None if _has_holes(op.attributes) else product((channels, taps))
    return [_grouped(rows, filters, window, groups, channels, op.pass_)]


def _grouped(rows: Size, filters: int, window: Size, groups: Any, channels: int, pass_: str | None) -> Gemm:
    count = groups if isinstance(groups, int) and groups > 0 and filters % groups == 0 else 1
    named = (Contiguous("channels", channels), Contiguous("filters", filters // count))
    return Gemm(rows, filters // count, window, count, named if pass_ == "forward" else ())


def _numbers(attributes: Mapping[str, Any], message: str) -> Mapping[str, Any]:
    nested = attributes.get(message)
    return nested if isinstance(nested, Mapping) else attributes


def _dimensions(value: Any) -> list[int]:
    return [n for v in value if (n := whole(str(v))) is not None] if isinstance(value, list) else []


def _pick(shape: Shape, dimension: Any) -> Size:
    return shape[dimension] if isinstance(dimension, int) and 0 <= dimension < len(shape) else None


def _has_holes(attributes: Mapping[str, Any]) -> bool:
    window = attributes.get("window")
    axes = window.get("dimensions") if isinstance(window, Mapping) else None
    return any(isinstance(a, Mapping) and a.get("base_dilation", 1) not in (1, None) for a in axes or [])
