"""Make the products of a step those of another batch: of a run on a CPU that logs which one it would take on a GPU."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tcprobe.gemm.ops import family_of, is_convolution
from tcprobe.schema.model import Product
from tcprobe.schema.op import OpRecord, Shape
from tcprobe.schema.profile import Profile

FAMILIES: Final = ("matmul", "conv", "conv_dgrad", "conv_wgrad")
LOGGED: Final = ("cpu_batch", "gpu_batch")
"""Figures that a workload logs: the batch that it takes here, without a GPU, and the one that it would take on one."""


def gpu_batch(profile: Profile) -> tuple[int, int] | None:
    """Return the batch of a run without a GPU, and the one that it would take on one; None where it logs no such."""
    metrics = profile.require("metrics")
    names = metrics.names("name")
    found = [metrics.numbers("value")[names.among(name)] for name in LOGGED]
    if profile.metadata.gpu_used is not False or not all(len(values) for values in found):
        return None
    here, there = (float(values[-1]) for values in found)
    whole = here.is_integer() and there.is_integer() and here >= 1 and there >= 1
    return (int(here), int(there)) if whole else None


def with_batch(product: Product, old: int, new: int) -> Product:
    """Return a product with another batch: the leading dimension of all but the weights.

    Raises:
        ValueError: which of its dimensions is the batch is not known.
    """
    record = product.record
    if family_of(record.op_type) not in FAMILIES or record.pass_ not in ("forward", "dgrad", "wgrad"):
        raise ValueError(f"{record.op_type}: not known which dimension is the batch")
    inputs = tuple(
        shape if _is_weight(record, index) else _scaled(shape, old, new)
        for index, shape in enumerate(record.input_shapes)
    )
    output = record.output_shape if record.pass_ == "wgrad" else _scaled(record.output_shape, old, new)
    return replace(product, record=replace(record, input_shapes=inputs, output_shape=output))


def _is_weight(record: OpRecord, index: int) -> bool:
    """Return whether an input is weights, or the sizes of a gradient, which are a list."""
    shape = record.shape(index)
    if shape is None or len(shape) < 2:
        return True
    return index == 1 and record.pass_ != "wgrad" and (is_convolution(record.op_type) or len(shape) == 2)


def _scaled(shape: Shape | None, old: int, new: int) -> Shape | None:
    if shape is None or not shape:
        return shape
    if shape[0] is None or shape[0] % old:
        raise ValueError(f"{shape}: the first dimension is no multiple of the batch {old}")
    return (shape[0] // old * new, *shape[1:])
