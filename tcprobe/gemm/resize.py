"""Change one size of an op.

Name an op's dimensions as users know them: units, inputs, filters, channels, features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tcprobe.gemm.conv import CONV_PASSES, OUTPUT, PLACES, ConvPass, conv_operands, convolution_of, is_channels_last
from tcprobe.gemm.matmul import innermost, labels_of, roles_of, transposes_of
from tcprobe.gemm.ops import family_of, gemms_of, is_convolution
from tcprobe.gemm.torch import PREFIX, SWAPPED_WGRAD, convolves, torch_kind
from tcprobe.schema.op import OpRecord, Shape, product

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


def resized(record: OpRecord, dimension: str, old: int, new: int, transposed: bool = False) -> OpRecord:
    """Return the op with one dimension changed wherever it appears in its inputs and output.

    Args:
        record: a MatMul, BatchMatMul, Einsum, convolution or cuDNN recurrent op of TensorFlow, any pass.
        dimension: as `named_sizes` names it. Two dimensions with the same name and size change together. Sizes of a
            convolution are per group; the number of groups stays.
        old: its size, as `named_sizes` gives it.
        new: its new size, 1 or more. If several dimensions are contiguous together (heads x key_dim of an Einsum),
            the innermost one changes.
        transposed: whether the layer is a transposed convolution.

    Raises:
        ValueError: the op is none of these, has no such dimension of that size, or `new` does not fit.
    """
    if (dimension, old) not in named_sizes(record, transposed) or new < 1:
        raise ValueError(f"{record.op_type}: no {dimension}={old} to change to {new}")
    family = family_of(record.op_type)
    if family == "matmul":
        return _matmul(record, dimension, old, new)
    if family == "einsum":
        return _einsum(record, old, new)
    if family == "rnn":
        return _rnn(record, dimension, old, new)
    if family in CONV_PASSES:
        return _conv(record, CONV_PASSES[family], names_of_roles(record, transposed), (dimension, new))
    raise ValueError(f"{record.op_type}: its sizes cannot be changed")


def _matmul(record: OpRecord, dimension: str, old: int, new: int) -> OpRecord:
    a, b = record.shape(0) or (), record.shape(1) or ()
    transposes = transposes_of(record, a, b) or (False, False)
    names = names_of_roles(record, False)
    found = [c for gemm in gemms_of(record) for c in gemm.contiguous if names.get(c.role) == dimension]
    values = {c.role: new * gates_of(record, c.role) for c in found if c.size == old * gates_of(record, c.role)}
    left = ("k", "m") if transposes[0] else ("m", "k")
    right = ("n", "k") if transposes[1] else ("k", "n")
    inputs: list[Shape | None] = [_ends(a, left, values), _ends(b, right, values)]
    # A fused op also has the bias as an input.
    wide = old * gates_of(record, "n")
    fits: dict[Shape, Shape] = {(wide,): (values["n"],)} if "n" in values else {}
    inputs += [s if s is None else fits.get(s, s) for s in record.input_shapes[2:]]
    return _with(record, inputs, _ends(record.output_shape, ("m", "n"), values))


def _ends(shape: Shape | None, roles: tuple[str, str], values: Mapping[str, int]) -> Shape | None:
    if shape is None or len(shape) < 2:
        return shape
    return (*shape[:-2], *(values.get(role, size) for role, size in zip(roles, shape[-2:], strict=True)))


def _einsum(record: OpRecord, old: int, new: int) -> OpRecord:
    labels = labels_of(record)
    if labels is None:
        raise ValueError(f"{record.op_type}: its equation is not known")
    shapes = (record.shape(0), record.shape(1), record.output_shape)
    roles, values = roles_of(labels), {}
    for text, shape in zip(labels, shapes, strict=True):
        run = innermost(text, roles) if text else ""
        sizes = shape[len(text) - len(run) :] if shape is not None else ()
        if not run or roles.get(run[-1]) not in ("m", "n", "k") or product(sizes) != old or not sizes:
            continue
        outer = product(sizes[:-1]) or 1
        if new % outer:
            raise ValueError(f"{record.op_type}: {new} is no multiple of the {outer} around it")
        values[run[-1]] = (sizes[-1], new // outer)
    changed = [_relabelled(shape, text, values) for shape, text in zip(shapes, labels, strict=True)]
    return _with(record, changed[:2], changed[2])


def _relabelled(shape: Shape | None, labels: str, values: Mapping[str, tuple[int | None, int]]) -> Shape | None:
    """Replace sizes by label; a broadcast dimension stays as it is."""
    if shape is None:
        return None
    pairs = [values.get(label, (None, 0)) for label in labels]
    return tuple(
        new if old is not None and size == old else size for size, (old, new) in zip(shape, pairs, strict=True)
    )


def _conv(record: OpRecord, kind: ConvPass, names: Mapping[str, str], change: tuple[str, int]) -> OpRecord:
    known, (image, kernel, result) = convolution_of(record, kind), conv_operands(record, kind)
    if known is None or kernel is None or known.groups is None:
        raise ValueError(f"{record.op_type}: its layout is not known")
    role = next(role for role, name in names.items() if name == change[0])
    last, whole = is_channels_last(record, image, kernel, result), change[1] * known.groups
    where = -1 if last else 1
    places = PLACES[kind]
    if role == "channels":
        new = {places[0]: _put(image, where, whole), places[1]: _put(kernel, -2, change[1])}
    else:
        new = {places[2]: _put(result, where, whole), places[1]: _put(kernel, -1, whole)}
    bias = range(2, len(record.input_shapes)) if kind == "forward" and role == "filters" else ()
    new |= {index: (whole,) for index in bias if record.shape(index) == (known.filters,)}
    inputs = [new.get(index, shape) for index, shape in enumerate(record.input_shapes)]
    return _with(record, inputs, new.get(OUTPUT, record.output_shape))


def _put(shape: Shape | None, index: int, size: int) -> Shape | None:
    if shape is None:
        return None
    sizes = list(shape)
    sizes[index] = size
    return tuple(sizes)


def _rnn(record: OpRecord, dimension: str, old: int, new: int) -> OpRecord:
    """Replace the inputs in input 0 and the gradient op's output, the units in everything else of three dimensions.

    cuDNN keeps all weights in one vector, TensorFlow's input 3, whose length is unknown afterwards.
    """
    of_inputs = dimension == "inputs"
    inputs = [
        _wide(shape, old, new) if (index == 0) == of_inputs else shape
        for index, shape in enumerate(record.input_shapes)
    ]
    inputs[3:4] = [None] * len(inputs[3:4])
    of_output = ("Backprop" in record.op_type) == of_inputs
    return _with(record, inputs, _wide(record.output_shape, old, new) if of_output else record.output_shape)


def _wide(shape: Shape | None, old: int, new: int) -> Shape | None:
    return (*shape[:-1], new) if shape is not None and len(shape) == 3 and shape[-1] == old else shape


def _with(record: OpRecord, inputs: Sequence[Shape | None], output: Shape | None) -> OpRecord:
    return replace(record, input_shapes=tuple(inputs), output_shape=output)
