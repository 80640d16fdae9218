"""Multiplications of PyTorch's ops, from the shapes of their arguments.

Forward ops (``linear``, ``conv2d``) as DLProf and PyProf name them; their backward passes are left out, as the order of
operands is not recorded. And what PyTorch itself calls (``aten::mm``): arguments in the order of
aten/src/ATen/native/native_functions.yaml. `emit_nvtx` records only their shapes; `torch.profiler` since 2.1 also how
an operand lies in memory (``input_strides``) and stride and padding of a convolution (``arguments``). No result and no
mask is recorded. What follows from what is missing stays unknown.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from tcprobe.gemm.conv import Convolution, ConvPass
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
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution"), 0),
    **dict.fromkeys(("cudnn_convolution", "mkldnn_convolution"), 0),
    "convolution_backward": 1,
}
"""Which argument is the image of a convolution; the weights follow it."""
_MAY_TRANSPOSE: Final = ("convolution", "_convolution", "convolution_backward")
_ATTENTION: Final = re.compile(r"_?(?:scaled_dot_product_\w*|flash_|efficient_|cudnn_)attention\w*")
# They multiply, and shapes do not say what: an equation, lists of weights, the gradients asked for are not recorded.
_UNREAD: Final = re.compile(
    r"einsum|_trilinear|bilinear|tensordot|chain_matmul|(?:linear|matmul)_backward|lstm|gru|_cudnn_rnn(?:_backward)?"
    r"|(?:_scaled)?_grouped_mm|conv_transpose[123]d|cudnn_convolution_(?:transpose|(?:transpose_)?backward_(?:input|weight))"
)
_GEOMETRY: Final = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), (3, 4, 5, None)),
    **dict.fromkeys(("convolution", "_convolution"), (3, 4, 5, 6)),
    "convolution_backward": (4, 5, 6, 7),
    "cudnn_convolution": (3, 2, 4, None),
    "mkldnn_convolution": (4, 3, 5, None),
}
"""Which arguments are stride, padding and dilation of a convolution, and whether it is transposed; None: it is not."""
SWAPPED_WGRAD: Final = "wgrad, swapped"
"""The gradient of the weights as PyTorch lays them: (units, rows) x (rows, inputs)."""
_GRADIENTS: Final[tuple[ConvPass, ConvPass]] = ("dgrad", "wgrad")
_NAMED_PASS: Final = {
    f"{PREFIX}cudnn_convolution_backward_{operand}": kind
    for operand, kind in zip(("input", "weight"), _GRADIENTS, strict=True)
}
_MASK: Final = 10  # argument of convolution_backward: the gradients that it computes, of image, weights and bias


def torch_kind(op_type: str | None) -> TorchKind | None:
    """Return the kind of a PyTorch op type; None if it is not read here."""
    return next((kind for kind, named in _KINDS.items() if named.fullmatch(op_type or "")), None)


def convolves(op_type: str | None) -> bool:
    """Say whether an op type of PyTorch's is a convolution, or computes the gradients of one."""
    return torch_kind(op_type) == "conv" or (op_type or "").removeprefix(PREFIX) in _IMAGE


def multiplies(op_type: str) -> bool:
    """Say whether PyTorch's own op of this type multiplies matrices, or calls one that does."""
    name = op_type.removeprefix(PREFIX)
    known = name == "linear" or name in _FIRST_OPERAND or name in _IMAGE
    return name != op_type and (known or bool(_ATTENTION.fullmatch(name) or _UNREAD.fullmatch(name)))


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
        return [_matmul(op, at)]
    if name == "linear":
        return [_linear(op.shape(0), op.shape(1))]
    if (at := _IMAGE.get(name)) is not None:
        return _image_product(op, name, op.shape(at), op.shape(at + 1))
    if _ATTENTION.fullmatch(name) is not None:
        return _attention(op, "backward" in name)
    return [UNKNOWN_GEMM] if _UNREAD.fullmatch(name) is not None else []


def _matmul(op: OpRecord, at: int) -> Gemm:
    """Return a product of matrices; leading dimensions broadcast, and without any on the right all rows are one."""
    a, b = op.shape(at), op.shape(at + 1)
    if a is None or b is None or len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return UNKNOWN_GEMM
    m, k, n = a[-2], a[-1], b[-1]
    lies = (_innermost(op, at, ("m", m), ("k", k)), _innermost(op, at + 1, ("k", k), ("n", n)))
    contiguous = (*lies, Contiguous("n", n))
    if len(b) == 2:
        return Gemm(product(a[:-1]), n, k, 1, contiguous)
    batch = _broadcast(a[:-2], b[:-2])
    return Gemm(m, n, k, batch, contiguous) if batch is not None else UNKNOWN_GEMM


def _innermost(op: OpRecord, at: int, rows: tuple[str, Size], columns: tuple[str, Size]) -> Contiguous:
    """Return which dimension of a matrix is innermost in memory, by its strides; of one item, a stride says nothing."""
    strides, shape = op.attributes.get("input_strides"), op.shape(at)
    lies = strides[at] if isinstance(strides, list) and at < len(strides) else None
    if isinstance(lies, list) and shape is not None and len(lies) == len(shape):
        for dimension, stride in ((columns, lies[-1]), (rows, lies[-2])):
            if stride == 1 and dimension[1] != 1:
                return Contiguous(*dimension)
    k, other = (columns, rows) if columns[0] == "k" else (rows, columns)
    return _either(other[1], "k", k[1]) if columns[0] == "k" else _either(k[1], "n", columns[1])


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


def _image_product(op: OpRecord, name: str, x: Shape | None, weight: Shape | None) -> list[Gemm]:
    """Return a convolution of PyTorch's, or the gradients of one; where stride and padding are known, all of it."""
    known = _geometry(op, name, x, weight)
    features = _convolution(x, weight, None, name in _MAY_TRANSPOSE and known is None)
    if known is None or not features or features == [UNKNOWN_GEMM]:
        return features
    if name != "convolution_backward":
        return known.gemms("forward")
    mask = _argument(op, _MASK).lower()
    wanted = [word.strip() == "true" for word in mask.strip("[]").split(",")] if mask else []
    if len(wanted) != 3:
        return features
    return [
        gemm for is_wanted, kind in zip(wanted, _GRADIENTS, strict=False) if is_wanted for gemm in known.gemms(kind)
    ]


def _geometry(op: OpRecord, name: str, x: Shape | None, weight: Shape | None) -> Convolution | None:
    """Return a convolution with stride, padding and dilation; None where they are not recorded, or it is transposed.

    The size of its output: floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1 (torch.nn.Conv2d).
    """
    *places, transposed = _GEOMETRY[name]
    if x is None or weight is None or len(x) != len(weight) or len(x) < 3:
        return None
    if transposed is not None and _argument(op, transposed) != "False":
        return None
    axes = len(x) - 2
    stride, pads, dilations = (_per_axis(_argument(op, place), axes) for place in places)
    if stride is None or pads is None or dilations is None or not all(stride) or not all(dilations):
        return None
    sizes = zip(x[2:], weight[2:], stride, pads, dilations, strict=True)
    out = tuple(
        None if size is None or kernel is None else (size + 2 * pad - dilation * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, dilation in sizes
    )
    if any(size is not None and size < 1 for size in out):
        return None
    return Convolution(x[0], x[2:], out, weight[2:], x[1], weight[0], weight[1], stride, dilations, pads)


def _argument(op: OpRecord, at: int) -> str:
    """Return an argument that is no tensor, as PyTorch prints it; empty where it is not recorded."""
    given = op.attributes.get("arguments")
    return str(given[at]) if isinstance(given, list) and at < len(given) else ""


def _per_axis(text: str, axes: int) -> tuple[int, ...] | None:
    """Return the numbers of a list with one for each axis; a single one is that of all."""
    numbers = [int(number) for number in re.findall(r"(?<![\w-])\d{1,9}(?!\w)", text)]
    if not re.fullmatch(r"\[[\d, ]*\]", text) or len(numbers) not in (1, axes):
        return None
    return tuple(numbers * axes if len(numbers) == 1 else numbers)


def form_of(op_type: str, product_of: tuple[Shape | None, ...], forward: tuple[Shape | None, ...]) -> str | None:
    """Return which gradient of a layer a product computes: dgrad, wgrad or `SWAPPED_WGRAD`; None where nothing tells.

    Args:
        op_type: of the product in the backward pass.
        product_of: shapes of its inputs.
        forward: shapes of the inputs of the product in the forward pass: ``mm`` of (rows, inputs) and (inputs, units),
            behind the bias of an ``addmm``.
    """
    if (told := _NAMED_PASS.get(op_type)) is not None:
        return told
    kept = [shape for shape in forward if shape is not None and len(shape) > 1][:2]
    operands = [shape for shape in product_of if shape is not None and len(shape) == 2][:2]
    if op_type not in ("aten::mm", "aten::addmm") or len(kept) != 2 or len(operands) != 2 or len(kept[1]) != 2:
        return None
    rows, (inputs, units) = product(kept[0][:-1]), kept[1]
    (m, k), n = operands[0], operands[1][1]
    is_input = k == units and (m, n) == (rows, inputs)
    is_weight = k == rows and {m, n} == {inputs, units}
    if is_input == is_weight:
        return None
    return "dgrad" if is_input else "wgrad" if m == inputs else SWAPPED_WGRAD


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
