"""Functions that look elements up, and those that resize images."""

from __future__ import annotations

from tcprobe.audit.source.arrays.call import ArrayCall, axis_of, made_of, of_shape
from tcprobe.audit.source.kinds import SourceValue, Tensor
from tcprobe.schema.op import Shape, product


@of_shape
def gather(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return the slices of a tensor that ``indices`` name along ``axis``."""
    indices = call.values.get("indices")
    axis = axis_of(call.number("axis", 0 if call.library in ("tf", "K") else None), len(shape))
    if axis is None or call.has("batch_dims"):
        return None
    if isinstance(indices, Tensor):
        inner = indices.shape
    else:
        found = call.numbers("indices")
        inner = None if found is None or None in found else () if call.number("indices") is not None else (len(found),)
    if inner is None:
        return made_of([x], None)
    first = indices.samples if axis == 0 and isinstance(indices, Tensor) and inner else x.samples if axis else None
    return made_of([x], (*shape[:axis], *inner, *shape[axis + 1 :]), first, axis < len(shape) - 1)


@of_shape
def masked(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a row of truth values for each length, up to ``depth``."""
    return made_of([x], (*shape, call.number("depth")), x.samples)


@of_shape
def resized(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return images of another height and width."""
    if len(shape) not in (3, 4) or call.has("data_format"):
        return None
    sizes = call.numbers("size") if call.flag("preserve_aspect_ratio") is False else None
    sides = sizes if sizes is not None and len(sizes) == 2 else [None, None]
    return made_of([x], (*shape[:-3], *sides, shape[-1]), x.samples if len(shape) == 4 else None, True)


@of_shape
def scaled(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return images some times as high and wide, as the backend's ``resize_images`` has it."""
    if len(shape) != 4 or call.word("data_format", "channels_last") is None:
        return None
    factors = (call.number("height_factor"), call.number("width_factor"))
    last = call.word("data_format", "channels_last") == "channels_last"
    at = 1 if last else 2
    sides = tuple(product(pair) for pair in zip(shape[at : at + 2], factors, strict=True))
    return made_of([x], (*shape[:at], *sides, *shape[at + 2 :]), x.samples, last)
