"""Multiplications of MatMul and BatchMatMul, from shapes and transposes.

Matrix multiplications of an Einsum with two operands.

Multiplications of XLA's dot and convolution, whose dimension numbers say what each dimension is.

Attributes carry the field names of XLA's DotDimensionNumbers and ConvolutionDimensionNumbers
(xla_data.proto), at the top or in an object of that message's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product as combinations
from typing import Any

from tcprobe.gemm.record import first_known
from tcprobe.jsonfile import whole
from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product


def matmul_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a MatMul or BatchMatMul.

    If the right-hand side has no batch dimensions, all rows form one multiplication (a Dense layer on sequences).
    Without the transpose attributes, the sizes are known only if the shapes allow a single reading.
    """
    a, b = op.shape(0), op.shape(1)
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return [UNKNOWN_GEMM]
    transposes = transposes_of(op, a, b)
    return [UNKNOWN_GEMM if transposes is None else _gemm(op, a, b, transposes)]


def transposes_of(op: OpRecord, a: Shape, b: Shape) -> tuple[bool, bool] | None:
    """Return whether each operand is transposed; None if neither attributes nor shapes tell."""
    given = [
        op.attributes.get(x, op.attributes.get(y)) for x, y in (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    ]
    if any(flag is not None for flag in given):
        return bool(given[0]), bool(given[1])
    fits = [(x, y) for x, y in combinations((False, True), repeat=2) if _fits(a, b, op.output_shape, x, y)]
    return fits[0] if len(fits) == 1 else None


def _fits(a: Shape, b: Shape, out: Shape | None, flip_a: bool, flip_b: bool) -> bool:
    rows, inner_a = _flip(a, flip_a)
    inner_b, columns = _flip(b, flip_b)
    pairs = [(inner_a, inner_b)]
    if out is not None and len(out) >= 2:
        pairs += [(rows, out[-2]), (columns, out[-1])]
    return all(x is None or y is None or x == y for x, y in pairs)


def _flip(shape: Shape, flip: bool) -> tuple[Size, Size]:
    return (shape[-1], shape[-2]) if flip else (shape[-2], shape[-1])


def _gemm(op: OpRecord, a: Shape, b: Shape, transposes: tuple[bool, bool]) -> Gemm:
    flip_a, flip_b = transposes
    rows, inner_a = _flip(a, flip_a)
    inner_b, columns = _flip(b, flip_b)
    out = op.output_shape if op.output_shape is not None and len(op.output_shape) >= 2 else (None, None)
    m, n, k = first_known(rows, out[-2]), first_known(columns, out[-1]), first_known(inner_a, inner_b)
    contiguous = (
        Contiguous("m", m) if flip_a else Contiguous("k", k),
        Contiguous("k", k) if flip_b else Contiguous("n", n),
        Contiguous("n", n),
    )
    batch = _batch(a[:-2], b[:-2])
    if product(b[:-2]) == 1 and not flip_a:
        return Gemm(product((batch, m)), n, k, 1, contiguous)
    return Gemm(m, n, k, batch, contiguous)


def _batch(a: Shape, b: Shape) -> Size:
    """Return the number of multiplications; leading dimensions broadcast as in numpy."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return product(y if x == 1 else x for x, y in zip(left, right, strict=True))


ELLIPSIS_LABELS = "αβγδεζηθ"  # labels for the dimensions that "..." covers, aligned to the right


def einsum_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a two-operand Einsum; an empty list if it multiplies no matrices.

    Labels in both operands and the result are batch; in both operands only, contracted; in one operand and the
    result, rows (left) or columns (right). An equation with one operand, or without a contracted label, multiplies
    no matrices. Without the equation, or if an operand repeats a label, the sizes are unknown.
    """
    equation = op.attributes.get("equation")
    if isinstance(equation, str) and "->" in equation and equation.split("->", 1)[0].count(",") != 1:
        return []
    labels = labels_of(op)
    if labels is None:
        return [UNKNOWN_GEMM]
    sizes, roles = _sizes(labels, (op.shape(0), op.shape(1), op.output_shape)), roles_of(labels)
    if "k" not in roles.values():
        return []
    m, n, k, b = (product(sizes.get(label) for label, role in roles.items() if role == r) for r in "mnkb")
    found = [
        Contiguous(roles.get(text[-1], "b"), product(sizes.get(c) for c in innermost(text, roles)))
        for text in labels
        if text
    ]
    return [Gemm(m, n, k, b, tuple(c for c in found if c.role in "mnk"))]


def labels_of(op: OpRecord) -> tuple[str, str, str] | None:
    """Return the labels of both operands and of the result, with ``...`` spelled out; None if they are not known."""
    equation = op.attributes.get("equation")
    if not isinstance(equation, str) or "->" not in equation:
        return None
    inputs, result = equation.replace(" ", "").split("->", 1)
    operands = inputs.split(",")
    if len(operands) != 2:
        return None
    a, b = (_expand(text, op.shape(index)) for index, text in enumerate(operands))
    if a is None or b is None or any(len(set(text)) < len(text) for text in (a, b)):
        return None
    covered = max((a, b), key=lambda text: sum(c in ELLIPSIS_LABELS for c in text))
    return a, b, result.replace("...", "".join(c for c in covered if c in ELLIPSIS_LABELS))


def _expand(labels: str, shape: Shape | None) -> str | None:
    """Give every dimension a label; None if the rank is unknown or does not match."""
    if "..." not in labels:
        return labels if shape is None or len(shape) == len(labels) else None
    if shape is None:
        return None
    count = len(shape) - len(labels) + 3
    if not 0 <= count <= len(ELLIPSIS_LABELS):
        return None
    return labels.replace("...", ELLIPSIS_LABELS[len(ELLIPSIS_LABELS) - count :])


def _sizes(labels: Sequence[str], shapes: Sequence[Shape | None]) -> dict[str, Size]:
    sizes: dict[str, Size] = {}
    for text, shape in zip(labels, shapes, strict=True):
        for label, size in zip(text, shape or (), strict=False):
            known = sizes.get(label)
            sizes[label] = size if known is None or (known == 1 and size is not None) else known
    return sizes


def roles_of(labels: tuple[str, str, str]) -> dict[str, str]:
    """Return the role of each label in the operands: m, n, k, b(atch), or s(ummed out of one operand)."""
    a, b, c = labels
    roles = {label: ("m" if label in a else "n") if label in c else "s" for label in dict.fromkeys(a + b)}
    return roles | {label: "b" if label in c else "k" for label in roles if label in a and label in b}


def innermost(text: str, roles: Mapping[str, str]) -> str:
    """Return the trailing labels that share one role, and so are contiguous in memory together."""
    role = roles.get(text[-1], "b")
    count = next((i for i, label in enumerate(reversed(text)) if roles.get(label, "b") != role), len(text))
    return text[len(text) - count :]


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
