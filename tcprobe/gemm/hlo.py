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
    first, second = _side(left, numbers, "lhs", "m"), _side(right, numbers, "rhs", "n")
    if first is None or second is None:
        return [UNKNOWN_GEMM]
    (m, k, batch, of_left), (n, _, _, of_right) = first, second
    return [Gemm(m, n, k, batch, (*of_left, *of_right, Contiguous("n", n)))]


def _side(
    shape: Shape, numbers: Mapping[str, Any], prefix: str, role: str
) -> tuple[Size, Size, Size, tuple[Contiguous, ...]] | None:
    """Return the free, contracted and batch sizes of the operand that XLA calls `prefix`, and its innermost dimension.

    None where a number is none of its dimensions. A free dimension has the `role`.
    """
    batch, contracted = (_dimensions(numbers.get(f"{prefix}_{kind}_dimensions")) for kind in ("batch", "contracting"))
    if not all(0 <= d < len(shape) for d in (*batch, *contracted)):
        return None
    free = [d for d in range(len(shape)) if d not in (*batch, *contracted)]
    size, inner, outer = (product(shape[d] for d in dims) for dims in (free, contracted, batch))
    last = len(shape) - 1
    if last < 0 or last in batch:
        return size, inner, outer, ()
    return size, inner, outer, (Contiguous("k", inner) if last in contracted else Contiguous(role, size),)


def hlo_convolution(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a convolution: output positions x output features x window.

    A dilated input (the gradient of a strided convolution) has holes that are never multiplied, so its contracted
    size is unknown; its FLOPs are not. XLA may use the batch as the features of a gradient, so channels are named for
    the forward pass only.
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
    spatial = {side: _dimensions(numbers.get(f"{side}_spatial_dimensions")) for side in ("input", "kernel", "output")}
    taps = product(_pick(kernel, d) for d in spatial["kernel"])
    elements = product(result)
    rows = None if elements is None or not filters else elements // filters
    window = None if _has_holes(op.attributes) else product((channels, taps))
    count = groups if isinstance(groups, int) and groups > 0 and filters % groups == 0 else 1
    named = (Contiguous("channels", channels), Contiguous("filters", filters // count))
    features = product(size for axis, size in enumerate(result) if axis not in spatial["output"])
    sides = [
        [_pick(shape, d) for d in spatial[side]] for side, shape in zip(spatial, (image, kernel, result), strict=True)
    ]
    needed = product((features, channels, *_meetings(op, *sides)))
    return [Gemm(rows, filters // count, window, count, named if op.pass_ == "forward" else (), needed)]


def _meetings(op: OpRecord, image: list[Size], window: list[Size], result: list[Size]) -> list[Size]:
    """Return how often a tap meets an output position of the forward convolution, by spatial dimension.

    Every pass is a convolution of two of these: image, taps, output. Taps and output of the forward pass are window and
    result here. Those of a weight gradient are result and window. Those of an input gradient are window and image; if
    XLA does not say that it is one, an image that the stride dilates or a reversed window shows it. Where the window is
    larger than the image, XLA exchanges them, and reverses the new window.
    """
    if not len(image) == len(window) == len(result):
        return [None]
    axes = [*_axes(op.attributes), *[{}] * len(image)]
    found: list[Size] = []
    for of_image, of_window, of_result, axis in zip(image, window, result, axes, strict=False):
        turned = axis.get("window_reversal") == 1
        other = of_image if turned else of_window
        strided = axis.get("stride", 1) not in (1, None)
        gradient = op.pass_ == "dgrad" or (op.pass_ != "wgrad" and not strided and (turned or _dilates(axis)))
        found.append(product((of_image, of_window) if gradient else (of_result, other)))
    return found


def _numbers(attributes: Mapping[str, Any], message: str) -> Mapping[str, Any]:
    nested = attributes.get(message)
    return nested if isinstance(nested, Mapping) else attributes


def _dimensions(value: Any) -> list[int]:
    return [n for v in value if (n := whole(str(v))) is not None] if isinstance(value, list) else []


def _pick(shape: Shape, dimension: Any) -> Size:
    return shape[dimension] if isinstance(dimension, int) and 0 <= dimension < len(shape) else None


def _axes(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    window = attributes.get("window")
    axes = window.get("dimensions") if isinstance(window, Mapping) else None
    return [axis if isinstance(axis, Mapping) else {} for axis in axes] if isinstance(axes, list) else []


def _dilates(axis: Mapping[str, Any]) -> bool:
    return axis.get("base_dilation", 1) not in (1, None)


def _has_holes(attributes: Mapping[str, Any]) -> bool:
    return any(map(_dilates, _axes(attributes)))
