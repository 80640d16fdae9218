"""Functions that leave out dimensions: sums and means, the largest, moments."""

from __future__ import annotations

from msgspec.structs import replace

from tcprobe.audit.source.arrays.call import ArrayCall, axis_of, made_of, of_shape
from tcprobe.audit.source.kinds import Items, SourceValue, Tensor
from tcprobe.schema.op import Shape
from tcprobe.source.values import Known


def reduced(call: ArrayCall) -> SourceValue | None:
    """Return a tensor without the dimensions of ``axis``; a number where none is named."""
    x, keep = call.x, call.flag("keepdims")
    if x is None:
        return None
    if not call.has("axis"):
        return made_of([x], () if keep is False else (1,) * len(x.shape) if keep and x.shape is not None else None)
    if x.shape is None or keep is None:
        return None
    axes = [axis_of(axis, len(x.shape)) for axis in call.numbers("axis") or [None]]
    return _without(x, axes, keep)


def picked(call: ArrayCall) -> SourceValue | None:
    """Return where the largest stands along ``axis``; of TensorFlow and the backend along their own default."""
    if not call.has("axis") and call.library in ("tf", "K"):
        axis = Known(0 if call.library == "tf" else -1)
        call = replace(call, values={**call.values, "axis": axis})
    return reduced(call)


def moments(call: ArrayCall) -> SourceValue | None:
    """Return mean and variance along ``axis``."""
    found = reduced(call)
    return Items([found, found]) if found is not None else None


@of_shape
def largest(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return the ``k`` largest of the last dimension, and where they stand."""
    if not shape:
        return None
    found = made_of([x], (*shape[:-1], call.number("k", 1)), x.samples)
    return Items([found, found])


def _without(x: Tensor, axes: list[int | None], keep: bool) -> Tensor | None:
    assert x.shape is not None
    if None in axes:
        return made_of([x], (None,) * len(x.shape) if keep else None)
    if keep:
        shape = tuple(1 if index in axes else size for index, size in enumerate(x.shape))
    else:
        shape = tuple(size for index, size in enumerate(x.shape) if index not in axes)
    return made_of([x], shape, None if 0 in axes else x.samples, len(x.shape) - 1 not in axes)
