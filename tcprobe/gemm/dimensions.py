"""The sizes of a layer in its user's words: units, inputs, filters, channels, features."""

from __future__ import annotations

from typing import Final

from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.gemm.record import OpRecord
from tcprobe.gemm.torch import torch_kind

# C[M,N] = A[M,K] B[K,N] of a Dense layer, pass by pass (NVIDIA, "Linear/Fully-Connected Layers"; TensorFlow
# multiplies rows of the batch from the left). The batch is the role that is missing.
_DENSE: Final = {
    "forward": {"k": "inputs", "n": "units"},
    "dgrad": {"n": "inputs", "k": "units"},
    "wgrad": {"m": "inputs", "n": "units"},
}
_SWAPPED: Final = {"channels": "filters", "filters": "channels"}


def named_sizes(op: OpRecord, transposed: bool = False) -> list[tuple[str, int]]:
    """Return the contiguous dimensions of an op as (name, size), each once; those of unknown size are left out.

    Args:
        op: one op; its pass says which side of a Dense layer each dimension is.
        transposed: the layer is a transposed convolution, whose filters are the op's input channels.
    """
    names = _names(op, transposed)
    found = [c for gemm in gemms_of(op) for c in gemm.contiguous]
    return list(dict.fromkeys((names[c.role], c.size) for c in found if c.size and c.role in names))


def _names(op: OpRecord, transposed: bool) -> dict[str, str]:
    family, torch = family_of(op.op_type), torch_kind(op.op_type)
    if torch == "linear":
        return _DENSE["forward"]
    if torch == "conv" or family in ("conv", "conv_dgrad", "conv_wgrad", "hlo_conv"):
        return _SWAPPED if transposed else {name: name for name in _SWAPPED}
    if family == "rnn":
        return {"k": "inputs", "n": "gates x units"}
    if is_dense(op):
        return _DENSE.get(op.pass_ or "", {})
    return {"m": "features", "n": "features", "k": "features"}


def tells_features(op: OpRecord) -> bool:
    """Return whether type and shapes alone prove which dimensions are features.

    A convolution has its filter, and a fused MatMul its bias: the other operand is weights. Any other MatMul may
    multiply two activations, whose dimensions may be the batch.
    """
    if torch_kind(op.op_type) is not None:
        return op.pass_ == "forward"
    fused = family_of(op.op_type) == "matmul" and "FusedMatMul" in op.op_type and is_dense(op)
    return (family_of(op.op_type) == "conv" or fused) and op.pass_ in (None, "forward")


def is_dense(op: OpRecord) -> bool:
    """Return whether the op multiplies by a matrix of weights, as a Dense layer does."""
    weights = op.shape(1)
    return family_of(op.op_type) == "matmul" and weights is not None and len(weights) == 2
