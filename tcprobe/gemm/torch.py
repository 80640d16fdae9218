"""Multiplications of PyTorch's ops, from the shapes of their arguments: forward ops as DLProf and PyProf name them, and
what PyTorch itself calls (``aten::mm``, in `aten`). Backward passes of the former are left out: the order of their
operands is not recorded.

torch.nn.functional: linear takes x[..., in], weight[out, in]; conv*d takes x[N, C, ...], weight[K, C / groups, ...].
"""

from __future__ import annotations

import re
from typing import Final, Literal

from tcprobe.gemm.aten import aten_gemms
from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product

TorchKind = Literal["linear", "conv"]
_KINDS: Final[dict[TorchKind, re.Pattern[str]]] = {"linear": re.compile("linear"), "conv": re.compile("conv[123]d")}


def torch_kind(op_type: str | None) -> TorchKind | None:
    """Return the kind of a PyTorch op type; None if it is not read here."""
    return next((kind for kind, named in _KINDS.items() if named.fullmatch(op_type or "")), None)


def torch_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a forward op; empty for other types and for depthwise convolutions.

    Its sizes are unknown if the shapes contradict each other.
    """
    kind = torch_kind(op.op_type)
    x, weight = op.shape(0), op.shape(1)
    if kind is None:
        return aten_gemms(op)
    if op.pass_ != "forward" or x is None or weight is None:
        return [UNKNOWN_GEMM]
    return _linear(x, weight, op.output_shape) if kind == "linear" else _conv(x, weight, op.output_shape)


def _linear(x: Shape, weight: Shape, out: Shape | None) -> list[Gemm]:
    if not x or len(weight) != 2 or x[-1] != weight[1] or (out and out[-1] != weight[0]):
        return [UNKNOWN_GEMM]
    units, inputs = weight
    contiguous = (Contiguous("k", inputs), Contiguous("k", inputs), Contiguous("n", units))
    return [Gemm(product(x[:-1]), units, inputs, 1, contiguous)]


def _conv(x: Shape, weight: Shape, out: Shape | None) -> list[Gemm]:
    if out is None or not len(x) == len(weight) == len(out) or len(x) < 3 or (out[0], out[1]) != (x[0], weight[0]):
        return [UNKNOWN_GEMM]
    groups, filters = _ratio(x[1], weight[1]), weight[0]
    group_filters = _ratio(filters, groups)
    if groups is None or group_filters is None:
        return [UNKNOWN_GEMM]
    if groups > 1 and weight[1] == 1:
        return []
    contiguous = (Contiguous("channels", weight[1]), Contiguous("filters", group_filters))
    return [Gemm(product((x[0], *out[2:])), group_filters, product(weight[1:]), groups, contiguous)]


def _ratio(whole: Size, part: Size) -> Size:
    return whole // part if whole and part and whole % part == 0 else None
