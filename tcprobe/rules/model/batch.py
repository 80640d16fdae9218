"""An op with another batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tcprobe.gemm.ops import family_of
from tcprobe.schema.op import OpRecord, Shape

# which inputs of an op have the batch first; -1 stands for the output (TensorFlow's order of operands)
_OUTPUT: Final = -1
_CONVOLUTIONS: Final = {"conv": (0, _OUTPUT), "conv_dgrad": (2, _OUTPUT), "conv_wgrad": (0, 2)}


def with_batch(record: OpRecord, old: int, new: int) -> OpRecord | None:
    """Return the op for `new` samples in place of `old`; None where its shapes do not tell which sizes are samples.

    Rows may be samples times steps of a sequence, as where a Dense layer flattens: they are scaled alike.
    """
    family = family_of(record.op_type)
    if family == "matmul":
        where = _rows_of_matmul(record)
    elif family in _CONVOLUTIONS:
        where = _CONVOLUTIONS[family]
    else:
        return None
    inputs = list(record.input_shapes)
    output = record.output_shape
    for index in where:
        shape = output if index == _OUTPUT else record.shape(index)
        scaled = _scaled(shape, old, new)
        if scaled is None:
            return None
        if index == _OUTPUT:
            output = scaled
        else:
            inputs[index] = scaled
    return replace(record, input_shapes=tuple(inputs), output_shape=output)


def _rows_of_matmul(record: OpRecord) -> tuple[int, ...]:
    """Rank 2 on the right is weights in the forward pass and its gradient; rank 2 as a weight gradient is weights."""
    if record.pass_ == "wgrad":
        return (0, 1) if record.output_shape is not None and len(record.output_shape) == 2 else (0, 1, _OUTPUT)
    right = record.shape(1)
    return (0, _OUTPUT) if right is not None and len(right) == 2 else (0, 1, _OUTPUT)


def _scaled(shape: Shape | None, old: int, new: int) -> Shape | None:
    if not shape or shape[0] is None or shape[0] % old:
        return None
    return (shape[0] // old * new, *shape[1:])
