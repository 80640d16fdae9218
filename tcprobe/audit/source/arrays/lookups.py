"""Functions that look elements up, and those that resize images."""

from __future__ import annotations

from tcprobe.audit.source.arrays.call import ArrayCall, axis_of, made_of
from tcprobe.audit.source.values.kinds import SourceValue, Tensor
from tcprobe.schema.op import product


def gather(call: ArrayCall) -> SourceValue | None:
    """Return the slices of a tensor that ``indices`` name along ``axis``."""
    x, indices = call.x, call.values.get("indices")
    default = 0 if call.library in ("tf", "K") else None
    axis = axis_of(call.number("axis", default), len(x.shape)) if x is not None and x.shape is not None else None
    if x is None or x.shape is None or axis is None or call.has("batch_dims"):
        return None
    if isinstance(indices, Tensor):
        inner = indices.shape
    else:
        found = call.numbers("indices")
        inner = None if found is None or None in found else () if call.number("indices") is not None else (len(found),)
    if inner is None:
        return made_of([x], None)
    first = indices.samples if axis == 0 and isinstance(indices, Tensor) and inner else x.samples if axis else None
    return made_of([x], (*x.shape[:axis], *inner, *x.shape[axis + 1 :]), first, axis < len(x.shape) - 1)


def masked(call: ArrayCall) -> SourceValue | None:
    """Return a row of truth values for each length, up to ``depth``."""
    x = call.x
    if x is None or x.shape is None:
        return None
    return made_of([x], (*x.shape, call.number("depth")), x.samples)


def resized(call: ArrayCall) -> SourceValue | None:
    """Return images of another height and width."""
    x, sizes = call.x, call.numbers("size")
    if x is None or x.shape is None or len(x.shape) not in (3, 4) or call.has("data_format"):
        return None
    found = sizes if sizes is not None and len(sizes) == 2 else [None, None]
    if call.flag("preserve_aspect_ratio") is not False:
        found = [None, None]
    return made_of([x], (*x.shape[:-3], *found, x.shape[-1]), x.samples if len(x.shape) == 4 else None, True)


def scaled(call: ArrayCall) -> SourceValue | None:
    """Return images some times as high and wide, as the backend's ``resize_images`` has it."""
    x = call.x
    if x is None or x.shape is None or len(x.shape) != 4 or call.word("data_format", "channels_last") is None:
        return None
    factors = (call.number("height_factor"), call.number("width_factor"))
    last = call.word("data_format", "channels_last") == "channels_last"
    at = 1 if last else 2
    sides = tuple(product(pair) for pair in zip(x.shape[at : at + 2], factors, strict=True))
    return made_of([x], (*x.shape[:at], *sides, *x.shape[at + 2 :]), x.samples, last)
