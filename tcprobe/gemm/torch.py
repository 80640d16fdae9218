"""Multiplications of PyTorch's ops, from the shapes of their arguments.

Forward ops (``linear``, ``conv2d``) as DLProf and PyProf name them; their backward passes are left out, as the order of
operands is not recorded. And what PyTorch itself calls (``aten::mm``), as `emit_nvtx` records it: arguments in the
order of aten/src/ATen/native/native_functions.yaml, and only their shapes, not how an operand lies in memory, no stride
or padding of a convolution, no result, no mask. What follows from those stays unknown.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product

TorchKind = Literal["linear", "conv"]
_KINDS: Final[dict[TorchKind, re.Pattern[str]]] = {"linear": re.compile("linear"), "conv": re.compile("conv[123]d")}
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


def torch_kind(op_type: str | None) -> TorchKind | None:
    """Return the kind of a PyTorch op type; None if it is not read here."""
    return next((kind for kind, named in _KINDS.items() if named.fullmatch(op_type or "")), None)


def torch_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a forward op; empty for other types and for depthwise convolutions.

    Its sizes are unknown if the shapes contradict each other.
    """
    kind = torch_kind(op.op_type)
    x, weight, out = op.shape(0), op.shape(1), op.output_shape
    if kind is None:
        return _aten(op)
    if op.pass_ != "forward" or x is None or weight is None or (kind == "conv" and out is None):
        return [UNKNOWN_GEMM]
    return [_linear(x, weight, out)] if kind == "linear" else _convolution(x, weight, out, may_transpose=False)


def _aten(op: OpRecord) -> list[Gemm]:
    """Return the multiplications of one call of an op of ATen; empty for one that multiplies no matrices.

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
        return _convolution(op.shape(at), op.shape(at + 1), None, name in _MAY_TRANSPOSE)
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


def _linear(x: Shape | None, weight: Shape | None, out: Shape | None = None) -> Gemm:
    """Return x[..., in] weight[out, in]^T; both lie so in a layer's call."""
    if not x or weight is None or len(weight) != 2 or x[-1] != weight[1] or (out and out[-1] != weight[0]):
        return UNKNOWN_GEMM
    units, inputs = weight
    contiguous = (Contiguous("k", inputs), Contiguous("k", inputs), Contiguous("n", units))
    return Gemm(product(x[:-1]), units, inputs, 1, contiguous)


def _convolution(x: Shape | None, weight: Shape | None, out: Shape | None, may_transpose: bool) -> list[Gemm]:
    """Return a convolution of x[N, C, ...] with weight[K, C / groups, ...]; empty where it is depthwise.

    Without its result, only the features are known. A transposed one has weight[C, K / groups, ...]: where it may be
    either, nothing is known.
    """
    if x is None or weight is None or len(x) != len(weight) or len(x) < 3 or not x[1] or not weight[0] or not weight[1]:
        return [UNKNOWN_GEMM]
    if out is not None and (len(out) != len(x) or (out[0], out[1]) != (x[0], weight[0])):
        return [UNKNOWN_GEMM]
    groups, rest = divmod(x[1], weight[1])
    if rest or weight[0] % groups or (may_transpose and x[1] == weight[0]):
        return [UNKNOWN_GEMM]
    if groups > 1 and weight[1] == 1:
        return []
    filters = weight[0] // groups
    contiguous = (Contiguous("channels", weight[1]), Contiguous("filters", filters))
    if out is None:
        return [Gemm(None, filters, None, groups, contiguous)]
    return [Gemm(product((x[0], *out[2:])), filters, product(weight[1:]), groups, contiguous)]


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
