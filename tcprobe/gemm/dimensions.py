"""Name an op's dimensions as users know them: units, inputs, filters, channels, features."""

from __future__ import annotations

from typing import Final

from tcprobe.gemm.ops import family_of, gemms_of, is_convolution
from tcprobe.gemm.torch import PREFIX, SWAPPED_WGRAD, convolves, torch_kind
from tcprobe.schema.op import OpRecord

# C[M,N] = A[M,K] B[K,N] of a Dense layer, pass by pass (NVIDIA, "Linear/Fully-Connected Layers"; TensorFlow
# multiplies rows of the batch from the left). The role that is missing is the batch.
_DENSE: Final = {
    "forward": {"k": "inputs", "n": "units"},
    "dgrad": {"n": "inputs", "k": "units"},
    "wgrad": {"m": "inputs", "n": "units"},
    SWAPPED_WGRAD: {"m": "units", "n": "inputs"},
}
_SWAPPED: Final = {"channels": "filters", "filters": "channels"}


def named_sizes(op: OpRecord, transposed: bool = False) -> list[tuple[str, int]]:
    """Return the contiguous dimensions of an op as (name, size), without duplicates and unknown sizes.

    Args:
        op: one op; its pass says which side of a Dense layer each dimension is.
        transposed: whether the layer is a transposed convolution, whose filters are the op's input channels.
    """
    if family_of(op.op_type) == "rnn":
        return rnn_sizes(op)
    names = names_of_roles(op, transposed)
    found = [c for gemm in gemms_of(op) for c in gemm.contiguous]
    return list(
        dict.fromkeys((names[c.role], c.size // gates_of(op, c.role)) for c in found if c.size and c.role in names)
    )


def rnn_sizes(op: OpRecord) -> list[tuple[str, int]]:
    """Return inputs and units of cuDNN's recurrent op, whose matrices are gates x units wide."""
    if not any(c.size for gemm in gemms_of(op) for c in gemm.contiguous):
        return []
    pairs = (("inputs", op.shape(0)), ("units", op.shape(1)))
    return [(name, shape[-1]) for name, shape in pairs if shape and shape[-1]]


def gates_of(op: OpRecord, role: str) -> int:
    """Return how many gates of a recurrent layer share a dimension of its product; 1 if they do not share it.

    Only ops that `tcprobe.keras.products` builds say so, by ``gates`` and, for the product of the state, ``recurrent``.
    """
    gates = op.attributes.get("gates")
    wide = next((r for r, name in _DENSE.get(op.pass_ or "", {}).items() if name == "units"), None)
    return gates if isinstance(gates, int) and gates > 0 and role == wide else 1


def names_of_roles(op: OpRecord, transposed: bool) -> dict[str, str]:
    """Return the name of each contiguous role of the op; a missing role is the batch."""
    if torch_kind(op.op_type) == "linear":
        return _DENSE["forward"]
    if is_convolution(op.op_type):
        return _SWAPPED if transposed else {name: name for name in _SWAPPED}
    if is_dense(op) or _is_weight_gradient(op) or _is_layer_of_torch(op):
        names = _DENSE.get(op.attributes.get("form") or op.pass_ or "", {})
        return dict.fromkeys(names, "units") if op.attributes.get("recurrent") else names
    return {"m": "features", "n": "features", "k": "features"}


def tells_features(op: OpRecord) -> bool:
    """Return whether type and shapes alone show which dimensions are features.

    A convolution has its filter and a fused MatMul its bias, so the other operand is weights. Any other MatMul may
    multiply two activations, and then a dimension may be the batch.
    """
    if torch_kind(op.op_type) is not None:
        return op.pass_ == "forward"
    if _is_layer_of_torch(op):
        return True
    fused = family_of(op.op_type) == "matmul" and "FusedMatMul" in op.op_type and is_dense(op)
    return (family_of(op.op_type) == "conv" or fused) and op.pass_ in (None, "forward")


def is_dense(op: OpRecord) -> bool:
    """Return whether the op multiplies by a weight matrix, as a Dense layer does."""
    weights = op.shape(1)
    return family_of(op.op_type) == "matmul" and weights is not None and len(weights) == 2


def _is_layer_of_torch(op: OpRecord) -> bool:
    """Return whether the op is a product of PyTorch's of which it is known that a layer's call or gradient makes it."""
    return op.op_type.startswith(PREFIX) and (op.attributes.get("form") in _DENSE or convolves(op.op_type))


def _is_weight_gradient(op: OpRecord) -> bool:
    """Recognise the weight gradient of tf.matmul on a sequence: x^T dy per sample, summed afterwards."""
    flags = (op.attributes.get("adj_x"), op.attributes.get("adj_y"))
    return family_of(op.op_type) == "matmul" and op.pass_ == "wgrad" and flags == (True, False)
