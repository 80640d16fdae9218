"""Multiplications of PyTorch's own ops (``aten::mm``), from the shapes of their arguments as `emit_nvtx` records them.

The order of arguments is that of aten/src/ATen/native/native_functions.yaml. Shapes are all that is recorded: not how
an operand lies in memory, no stride or padding of a convolution, no result, no mask. What follows from those stays
unknown.
"""

from __future__ import annotations

import re
from typing import Final

from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product

PREFIX: Final = "aten::"
_ANY_DTYPE: Final = 16  # elements that fill 16 bytes in every dtype of a byte or more
_FIRST_OPERAND: Final = {
    **dict.fromkeys(("mm", "bmm", "matmul", "_int_mm", "_scaled_mm"), 0),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "_addmm_activation"), 1),
}
"""Which argument is the left-hand side of a product; the right-hand side follows it."""
_IMAGE: Final = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "cudnn_convolution", "convolution", "_convolution"), 0),
    "convolution_backward": 1,
}
"""Which argument is the image of a convolution; the weights follow it."""
_MAY_TRANSPOSE: Final = ("convolution", "_convolution", "convolution_backward")
_ATTENTION: Final = re.compile(r"_?(?:scaled_dot_product_\w*|flash_|efficient_|cudnn_)attention\w*")
# They multiply, and shapes do not say what: an equation, lists of weights, the gradients asked for are not recorded.
_UNREAD: Final = re.compile(
    r"einsum|_trilinear|bilinear|tensordot|chain_matmul|(?:linear|matmul)_backward|lstm|gru|_cudnn_rnn(?:_backward)?"
    r"|(?:_scaled)?_grouped_mm|conv_transpose[123]d"
)


def aten_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplications of one call of an op; empty for one that multiplies no matrices.

    An op that only calls another (``aten::linear``) has no kernels of its own, so that the profile has no row of it.
    """
    name = op.op_type.removeprefix(PREFIX)
    if name == op.op_type:
        return []
    if (at := _FIRST_OPERAND.get(name)) is not None:
        return [_matmul(op.shape(at), op.shape(at + 1))]
    if name == "linear":
        return [_linear(op.shape(0), op.shape(1))]
    if (at := _IMAGE.get(name)) is not None:
        return _convolution(op.shape(at), op.shape(at + 1), name in _MAY_TRANSPOSE)
    if _ATTENTION.fullmatch(name) is not None:
        return _attention(op, "backward" in name)
    return [UNKNOWN_GEMM] if _UNREAD.fullmatch(name) is not None else []


def _matmul(a: Shape | None, b: Shape | None) -> Gemm:
    """Return a product of matrices; leading dimensions broadcast, and without any on the right all rows are one."""
    if a is None or b is None or len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return UNKNOWN_GEMM
    m, k, n = a[-2], a[-1], b[-1]
    contiguous = (_either(m, "k", k), _either(k, "n", n), Contiguous("n", n))
    if len(b) == 2:
        return Gemm(product(a[:-1]), n, k, 1, contiguous)
    batch = _broadcast(a[:-2], b[:-2])
    return Gemm(m, n, k, batch, contiguous) if batch is not None else UNKNOWN_GEMM


def _either(one: Size, role: str, other: Size) -> Contiguous:
    """Return the innermost dimension of an operand that may be transposed: known only where both suit every dtype."""
    both = one and other and one % _ANY_DTYPE == 0 and other % _ANY_DTYPE == 0
    return Contiguous(role, other if both else None)


def _broadcast(a: Shape, b: Shape) -> Size:
    width = max(len(a), len(b))
    pairs = zip((1,) * (width - len(a)) + a, (1,) * (width - len(b)) + b, strict=True)
    sizes = [y if x == 1 else x if y in (1, x) else None for x, y in pairs]
    return product(sizes)


def _linear(x: Shape | None, weight: Shape | None) -> Gemm:
    """Return x[..., in] weight[out, in]^T; both lie so in a layer's call."""
    if not x or weight is None or len(weight) != 2 or x[-1] != weight[1]:
        return UNKNOWN_GEMM
    units, inputs = weight
    contiguous = (Contiguous("k", inputs), Contiguous("k", inputs), Contiguous("n", units))
    return Gemm(product(x[:-1]), units, inputs, 1, contiguous)


def _convolution(x: Shape | None, weight: Shape | None, may_transpose: bool) -> list[Gemm]:
    """Return the features of a convolution, x[N, C, ...] and weight[K, C / groups, ...]; how large its result is, no
    shape says. Empty where it is depthwise.

    A transposed one has weight[C, K / groups, ...]: where it may be either, nothing is known.
    """
    if x is None or weight is None or len(x) != len(weight) or len(x) < 3 or not x[1] or not weight[0] or not weight[1]:
        return [UNKNOWN_GEMM]
    groups, rest = divmod(x[1], weight[1])
    if rest or weight[0] % groups or (may_transpose and x[1] == weight[0]):
        return [UNKNOWN_GEMM]
    if groups > 1 and weight[1] == 1:
        return []
    filters = weight[0] // groups
    contiguous = (Contiguous("channels", weight[1]), Contiguous("filters", filters))
    return [Gemm(None, filters, None, groups, contiguous)]


def _attention(op: OpRecord, backward: bool) -> list[Gemm]:
    """Return query x key and weights x value: how much of them a causal mask leaves out is not recorded.

    The shapes lead with batch and heads, or with batch and sequence: only the size of a head is the same in both.
    """
    query, value = (op.shape(1 + i) if backward else op.shape(i) for i in (0, 2))
    if not query or not value:
        return [UNKNOWN_GEMM]
    head, out = query[-1], value[-1]
    return [
        Gemm(None, None, head, None, (Contiguous("k", head), Contiguous("k", head))),
        Gemm(None, out, None, None, (Contiguous("n", out), Contiguous("n", out))),
    ]
