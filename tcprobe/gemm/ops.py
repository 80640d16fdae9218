"""`gemms_of`: the matrix multiplications of an op of any type."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, Literal

from tcprobe.gemm.conv import conv_gemms
from tcprobe.gemm.matmul import einsum_gemms, hlo_convolution, hlo_dot, matmul_gemms
from tcprobe.gemm.torch import convolves, torch_gemms
from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Size, product

OpFamily = Literal["matmul", "einsum", "conv", "conv_dgrad", "conv_wgrad", "depthwise", "rnn", "hlo_dot", "hlo_conv"]

_HLO: Final[dict[str, OpFamily]] = {"dot": "hlo_dot", "dot_general": "hlo_dot", "convolution": "hlo_conv"}
_VERSION: Final = re.compile(r"V\d$")
_RNN_GATES: Final = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}  # cuDNN: matrices per cell


@cache
def _table() -> dict[str, Any]:
    """Return the table of TensorFlow's op types, a file that the probe reads too.

    TensorFlow names a fused or replaced op by a prefix to the type that it replaces: _FusedConv2D,
    _MklNativeFusedMatMul, _MklPadWithFusedConv2D, _MklNativeConv2DBackpropFilterWithBias.
    """
    table: dict[str, Any] = json.loads(pkgutil.get_data("tcprobe", "op_types.json") or b"")
    return table


@cache
def _families() -> dict[str, OpFamily]:
    """Return the family of each type without its version; later versions compute the same."""
    named = {_VERSION.sub("", name): family for family, names in _table()["counted"].items() for name in names}
    return {**_HLO, **named, **dict.fromkeys(_table()["weights"], "rnn")}


@cache
def canonical_type(op_type: str) -> str:
    """Return the type that a fused or replaced op stands for: ``_FusedConv2D`` -> ``Conv2D``."""
    return re.sub("^" + _table()["replaced"], "", op_type).removesuffix("WithBias") or op_type


def family_of(op_type: str | None) -> OpFamily | None:
    """Return the family of an op type; None if it multiplies no matrices."""
    name = canonical_type(op_type or "")
    return _families().get(name) or _families().get(_VERSION.sub("", name))


def is_convolution(op_type: str | None) -> bool:
    """Say whether an op type multiplies as a convolution does: TensorFlow's, XLA's or PyTorch's, any pass."""
    return family_of(op_type) in ("conv", "conv_dgrad", "conv_wgrad", "hlo_conv") or convolves(op_type)


def conv_like(op_type: str | None) -> bool:
    """Say whether an op type is a convolution, whose kernels may multiply less than its shapes imply."""
    return op_type is not None and re.search(r"conv(?!ert)", op_type, re.IGNORECASE) is not None


def gemms_of(op: OpRecord) -> list[Gemm]:
    """Return the matrix multiplications of one execution of `op`.

    Empty if it multiplies no matrices: another type, a depthwise convolution (memory-bound), an Einsum that
    contracts nothing. Sizes that the record does not give are None.

    Source: NVIDIA Deep Learning Performance guides for fully-connected, convolutional and recurrent layers.
    """
    family = family_of(op.op_type)
    return torch_gemms(op) if family is None else _READERS[family](op)


def contiguous_sizes(gemms: list[Gemm]) -> tuple[Size, ...]:
    """Return the sizes of all contiguous dimensions; unknown ones are None."""
    return tuple(c.size for gemm in gemms for c in gemm.contiguous)


def _rnn(op: OpRecord) -> list[Gemm]:
    """Return the products of one recurrent layer and direction: the inputs of all time steps, then each step's state.

    The gradient op multiplies both by the weights again, and all time steps once for the weights (NVIDIA, "Recurrent
    Layers User's Guide"; cudnnRNNBackwardData and cudnnRNNBackwardWeights).
    """
    sequence, state, mode = op.shape(0), op.shape(1), op.attributes.get("rnn_mode")
    if sequence is None or state is None or len(sequence) != 3 or len(state) != 3 or state[0] != 1:
        return [UNKNOWN_GEMM]
    gates = _RNN_GATES.get(str(mode))
    steps, batch, inputs = sequence
    units = state[-1]
    wide = product((gates, units)) if gates else None
    rows = product((steps, batch))
    if "Backprop" in op.op_type:
        return [
            Gemm(rows, inputs, wide, 1, (Contiguous("k", wide), Contiguous("n", inputs))),
            Gemm(batch, units, wide, steps, (Contiguous("k", wide), Contiguous("n", units))),
            Gemm(inputs, wide, rows, 1, (Contiguous("m", inputs), Contiguous("n", wide))),
            Gemm(units, wide, rows, 1, (Contiguous("m", units), Contiguous("n", wide))),
        ]
    return [
        Gemm(rows, wide, inputs, 1, (Contiguous("k", inputs), Contiguous("n", wide))),
        Gemm(batch, wide, units, steps, (Contiguous("k", units), Contiguous("n", wide))),
    ]


_READERS: Final[dict[OpFamily, Callable[[OpRecord], list[Gemm]]]] = {
    "matmul": matmul_gemms,
    "einsum": einsum_gemms,
    "conv": partial(conv_gemms, kind="forward"),
    "conv_dgrad": partial(conv_gemms, kind="dgrad"),
    "conv_wgrad": partial(conv_gemms, kind="wgrad"),
    "depthwise": lambda _: [],
    "rnn": _rnn,
    "hlo_dot": hlo_dot,
    "hlo_conv": hlo_convolution,
}
