"""Functions that put tensors together, take them apart, or repeat and pad them."""

from __future__ import annotations

from itertools import pairwise

from tcprobe.audit.source.arrays.call import ArrayCall, axis_of, made_of, of_shape, whole_number
from tcprobe.audit.source.arrays.indexing import IndexKind, indexed
from tcprobe.audit.source.kinds import Items, SourceValue, Tensor
from tcprobe.audit.source.values import items_of, sequence
from tcprobe.schema.op import Shape, Size

_MOST_PARTS = 64


def concatenate(call: ArrayCall) -> SourceValue | None:
    """Return tensors joined along ``axis``; lists of sizes joined as lists."""
    given = items_of(call.values["x"]) if "x" in call.values else None
    if not given:
        return None
    tensors = [value for value in given if type(value) is Tensor]
    if not tensors:
        return _joined_lists(given)
    if len(tensors) < len(given) or any(t.shape is None for t in tensors):
        return made_of(call.tensors, None)
    default = 0 if call.library in ("np", "ops") else -1 if call.library == "K" else None
    shapes = [t.shape for t in tensors if t.shape is not None]
    rank = len(shapes[0])
    axis = axis_of(call.number("axis", default), rank)
    if any(len(shape) != rank for shape in shapes):
        return made_of(tensors, None)
    if axis is None:
        return made_of(tensors, (None,) * rank)
    sizes = [_agreed({shape[i] for shape in shapes}) for i in range(rank)]
    parts = [shape[axis] for shape in shapes]
    sizes[axis] = None if None in parts else sum(part for part in parts if part is not None)
    samples = {t.samples for t in tensors if t.shape and t.shape[0] is None}
    if axis == 0 and sizes[0] is None:
        rows = [t.samples for t in tensors]
        # Rows of data below one another are still data; a batch twice over is two rows of each sample.
        known = [r for r in rows if r is not None]
        many = sum(known) if len(known) == len(rows) and not any(shape[0] for shape in shapes) else None
        return made_of(tensors, tuple(sizes), many if any(t.symbolic for t in tensors) else 1)
    return made_of(tensors, tuple(sizes), samples.pop() if len(samples) == 1 else None)


def _joined_lists(given: list[SourceValue]) -> SourceValue | None:
    rows = [items_of(value) for value in given]
    known = [row for row in rows if row is not None]
    flat = [item for row in known for item in row]
    return sequence(flat) if len(known) == len(rows) else None


def _agreed(sizes: set[Size]) -> Size:
    """Return the one size that all have, those that are not known left out; None where they differ."""
    known = sizes - {None}
    return known.pop() if len(known) == 1 else None


def stack(call: ArrayCall) -> SourceValue | None:
    """Return tensors side by side along a new ``axis``; a list of sizes as it is."""
    given = items_of(call.values["x"]) if "x" in call.values else None
    tensors = [value for value in given or () if type(value) is Tensor]
    if not given or (not tensors and call.has("axis")):
        return None
    if not tensors:
        return sequence(given)
    shapes = {t.shape for t in tensors if t.shape is not None}
    if len(tensors) < len(given) or len({len(s) for s in shapes}) != 1:
        return made_of(call.tensors, None)
    sizes = [_agreed(set(column)) for column in zip(*shapes, strict=True)]
    axis = axis_of(call.number("axis", 0), len(sizes) + 1)
    if axis is None:
        return made_of(tensors, (None,) * (len(sizes) + 1))
    samples = {t.samples for t in tensors}
    whole = samples.pop() if len(samples) == 1 and axis else None
    return made_of(tensors, (*sizes[:axis], len(given), *sizes[axis:]), whole)


@of_shape
def split(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return the parts of a tensor along ``axis``: so many equal ones, or one of each size."""
    axis = axis_of(call.number("axis", 0), len(shape))
    if axis is None:
        return None
    sizes = _parts(call, shape[axis])
    if sizes is None or len(sizes) > _MOST_PARTS:
        return None
    samples = x.samples if axis else None
    return Items([made_of([x], (*shape[:axis], size, *shape[axis + 1 :]), samples) for size in sizes])


def _parts(call: ArrayCall, whole: Size) -> list[Size] | None:
    """Return the sizes of the parts along the dimension that is cut; None where their count is not known."""
    given = call.values.get("parts")
    count = whole_number(given) if given is not None else None
    if count is not None:
        return [whole // count if whole is not None and whole % count == 0 else None] * count if count > 0 else None
    cuts = call.numbers("parts")
    if cuts is None:
        return None
    if call.library != "tf":  # where it is cut, not how long the parts are
        if whole is None or None in cuts:
            return [None] * (len(cuts) + 1)
        ends = [0, *(min(c, whole) for c in cuts if c is not None), whole]
        return [(b - a) or None if b >= a else None for a, b in pairwise(ends)]
    known = [c for c in cuts if c is not None and c >= 0]
    left = whole - sum(known) if whole is not None and len(known) == len(cuts) - 1 else None
    return [c if c is not None and c >= 0 else left for c in cuts]


@of_shape
def unstack(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return the parts of a tensor along ``axis``, without that dimension."""
    axis = axis_of(call.number("axis", 0), len(shape))
    if axis is None:
        return None
    count = call.number("num") if call.has("num") else shape[axis]
    if count is None or count > _MOST_PARTS:
        return None
    before: list[IndexKind] = ["all"] * axis
    return Items([indexed(x, [*before, "one"])] * count)


@of_shape
def tile(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor repeated so many times along each dimension."""
    times = call.numbers("times")
    if not times:
        return None
    rank = max(len(times), len(shape))
    many: list[Size] = [*([1] * (rank - len(times))), *times]
    whole = (1,) * (rank - len(shape)) + shape
    sizes = [_times(size, n) for size, n in zip(whole, many, strict=True)]
    samples = _times(x.samples, many[0]) if rank == len(shape) and shape[0] is None else None
    if whole[0] == 1 and many[0] is None and call.batches("times"):
        samples = 1
    return made_of([x], tuple(sizes), samples, many[-1] == 1)


@of_shape
def repeat(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor with each element repeated along ``axis``."""
    times, axis = call.number("times"), axis_of(call.number("axis"), len(shape))
    if axis is None:
        return None
    sizes = list(shape)
    sizes[axis] = _times(sizes[axis], times)
    samples = x.samples if axis else _times(x.samples, times)
    return made_of([x], tuple(sizes), samples, axis < len(sizes) - 1)


@of_shape
def repeat_rows(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return rows repeated along a new second dimension, as the backend's ``repeat`` has it."""
    if len(shape) != 2:
        return None
    return made_of([x], (shape[0], call.number("times"), shape[1]), x.samples, True)


def _times(size: Size, times: Size) -> Size:
    return size * times if size is not None and times is not None else None


@of_shape
def pad(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor with so much more before and behind each dimension."""
    pads = call.values.get("pads")
    if not shape or pads is None:
        return None
    rows = items_of(pads) if whole_number(pads) is None else [pads] * len(shape)
    if rows is None or len(rows) != len(shape):
        return made_of([x], (None,) * len(shape))
    more = [_sides(row) for row in rows]
    sizes = [None if s is None or m is None else s + m for s, m in zip(shape, more, strict=True)]
    return made_of([x], tuple(sizes), x.samples if more[0] == 0 else None, more[-1] == 0)


def _sides(row: SourceValue) -> Size:
    """Return what both sides of a dimension add up to."""
    one = whole_number(row)
    if one is not None:
        return 2 * one
    parts = [whole_number(item) for item in items_of(row) or ()]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) == 2 else None


@of_shape
def spread(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor broadcast to a ``shape``; what the shape leaves open is the tensor's own."""
    sizes = call.numbers("shape")
    if not sizes or len(sizes) < len(shape):
        return None
    own = (None,) * (len(sizes) - len(shape)) + shape
    wide = tuple(b if b is not None and b > 0 else a if a != 1 else None for a, b in zip(own, sizes, strict=True))
    batched = call.batches("shape") or (len(sizes) == len(shape) and x.samples == 1 and shape[0] is None)
    return made_of([x], wide, 1 if wide[0] is None and batched else None, own[-1] == wide[-1])
