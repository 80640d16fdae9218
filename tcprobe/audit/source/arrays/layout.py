"""Functions that lay the same elements out otherwise, look elements up, resize images, or slide a window over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.arrays.call import ArrayCall, axis_of, made_of, of_shape, whole_number
from tcprobe.audit.source.kinds import BATCH, SourceValue, Tensor, Unknown
from tcprobe.audit.source.values import items_of
from tcprobe.keras.images import window_axis
from tcprobe.schema.op import Shape, Size, product
from tcprobe.source.values import Known

UNKNOWN_DATA: Final = Tensor(fresh=True)
"""An array that is not known, of which only NumPy's methods say that it is one."""


def reshape(call: ArrayCall) -> SourceValue | None:
    """Return a tensor in the ``shape`` that is passed, which NumPy gives to data that are not known as well."""
    unknown = call.library == "np" and isinstance(call.values.get("x"), Unknown)
    x = UNKNOWN_DATA if unknown else call.x
    return reshaped(x, call.values["shape"]) if x is not None and "shape" in call.values else None


def reshaped(tensor: Tensor, target: SourceValue) -> Tensor:
    """Return a tensor in another shape; what the elements leave open is worked out where one size alone is open."""
    one = type(target) is Known and type(target.value) is int
    wanted = [target] if one else items_of(target)
    if not wanted:
        return replace(tensor, shape=None, features=None, rows=1, batch=0)
    sizes: list[Size] = [n if (n := whole_number(size)) is None or n > 0 else None for size in wanted]
    if tensor.shape is not None and None not in tensor.shape:
        return replace(tensor, shape=_filled(sizes, product(tensor.shape)), features=None, batch=0)
    inner = sizes[1:]
    in_sample = product((*tensor.shape[1:], tensor.samples)) if tensor.shape else None
    batched = wanted[0] is BATCH or sizes[0] is not None
    if batched and inner.count(None) == 1:
        inner = list(_filled(inner, in_sample))
        samples: Size = 1
    elif wanted[0] is BATCH or tensor.shape is None:
        samples = 1
    else:
        rest = product(inner)
        samples = in_sample // rest if in_sample is not None and rest and in_sample % rest == 0 else None
    return replace(tensor, shape=(None, *inner), features=None, rows=samples, batch=0)


def _filled(sizes: list[Size], whole: Size) -> tuple[Size, ...]:
    """Return sizes with the one that is open filled by what the others leave of the `whole`."""
    rest = product(size for size in sizes if size is not None)
    if sizes.count(None) != 1 or whole is None or not rest or whole % rest:
        return tuple(sizes)
    return tuple(whole // rest if size is None else size for size in sizes)


def transpose(call: ArrayCall) -> SourceValue | None:
    """Return the dimensions in the order of ``axes``; in reverse where none is given."""
    given = call.has("axes")
    return transposed(call.x, call.numbers("axes"), given) if call.x is not None else None


def transposed(tensor: Tensor, order: list[Size] | None = None, given: bool = False) -> Tensor:
    """Return the dimensions of a tensor in another `order`; reversed where none is `given`."""
    if not tensor.shape:
        return made_of([tensor], tensor.shape)
    rank = len(tensor.shape)
    axes = order if order is not None else [None] * rank if given else list(reversed(range(rank)))
    known = [axis_of(axis, rank) for axis in axes]
    if len(known) != rank:
        return made_of([tensor], None)
    if None in known or len(set(known)) != rank:
        return made_of([tensor], (None,) * rank)
    moved = [axis for axis in known if axis is not None]
    made = made_of([tensor], tuple(tensor.shape[axis] for axis in moved), tensor.rows, moved[-1] == rank - 1)
    return replace(made, batch=moved.index(tensor.batch)) if tensor.batch < rank else made


@of_shape
def swapped(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor with two of its dimensions exchanged."""

    def swap(order: list[Size], first: int, second: int) -> None:
        order[first], order[second] = order[second], order[first]

    return _reordered(call, x, shape, swap)


@of_shape
def moved(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor with one dimension moved to another place."""
    return _reordered(call, x, shape, lambda order, source, target: order.insert(target, order.pop(source)))


def _reordered(
    call: ArrayCall, x: Tensor, shape: Shape, change: Callable[[list[Size], int, int], None]
) -> SourceValue | None:
    """Return a tensor with its dimensions in the order that `change` makes, given two of them."""
    order: list[Size] = list(range(len(shape)))
    first, second = (axis_of(call.number(name), len(order)) for name in ("axis1", "axis2"))
    if first is None or second is None:
        return transposed(x, None, given=True)
    change(order, first, second)
    return transposed(x, order)


@of_shape
def expand(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor with one dimension of size 1 more, at ``axis`` of the result."""
    rank = len(shape) + 1
    axis = axis_of(call.number("axis", -1 if call.library == "K" else None), rank)
    if axis is None:
        return None
    return made_of([x], (*shape[:axis], 1, *shape[axis:]), x.samples if axis else None, axis < rank - 1)


@of_shape
def squeeze(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor without the dimensions of size 1 that ``axis`` names, or any of which the size is known."""
    rank = len(shape)
    if call.has("axis"):
        axes = [axis_of(axis, rank) for axis in call.numbers("axis") or [None]]
        gone = {axis for axis in axes if axis is not None}
        if None in axes:
            return None
    elif None in shape[1:]:
        return None  # a size that is not known may be 1
    else:
        gone = {index for index, size in enumerate(shape) if size == 1}
    kept = [index for index in range(rank) if index not in gone]
    left = tuple(shape[index] for index in kept)
    return made_of([x], left, x.samples if 0 in kept else None, bool(kept) and kept[-1] == rank - 1)


@of_shape
def flatten(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a tensor in one dimension; of the backend's ``batch_flatten`` in two."""
    if call.last == "batch_flatten":
        return made_of([x], (shape[0], product(shape[1:])), x.samples)
    return made_of([x], (product(shape),), product((*shape[1:], x.samples)))


@of_shape
def space_to_depth(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return an image with blocks of pixels as channels; the other way round where the name says so."""
    block = call.number("block")
    if len(shape) != 4 or not block or call.has("data_format"):
        return None
    batch, *sides, channels = shape
    if call.last == "space_to_depth":
        inner = (*(None if s is None else s // block for s in sides), product((channels, block, block)))
    else:
        inner = (*(product((s, block)) for s in sides), None if channels is None else channels // block**2)
    return made_of([x], (batch, *inner), x.samples)


@of_shape
def gather(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return the slices of a tensor that ``indices`` name along ``axis``."""
    indices = call.values.get("indices")
    axis = axis_of(call.number("axis", 0 if call.library in ("tf", "K") else None), len(shape))
    if axis is None or call.has("batch_dims"):
        return None
    if type(indices) is Tensor:
        inner = indices.shape
    else:
        found = call.numbers("indices")
        inner = None if found is None or None in found else () if call.number("indices") is not None else (len(found),)
    if inner is None:
        return made_of([x], None)
    first = indices.samples if axis == 0 and type(indices) is Tensor and inner else x.samples if axis else None
    return made_of([x], (*shape[:axis], *inner, *shape[axis + 1 :]), first, axis < len(shape) - 1)


@of_shape
def masked(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return a row of truth values for each length, up to ``depth``."""
    return made_of([x], (*shape, call.number("depth")), x.samples)


def padded(call: ArrayCall) -> SourceValue:
    """Return lists of words, whatever they are, made as long as ``depth`` says; their number is left open."""
    return Tensor((None, call.number("depth")), None, (), False, True)


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


@of_shape
def pooled(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return an image or sequence pooled by windows; Keras' step by a whole window where no stride is passed."""
    if not _is_image(call, shape):
        return None
    axes = len(shape) - 2
    taps = _along(call, "ksize", axes)
    steps = taps if call.library == "ops" and not call.has("strides") else _along(call, "strides", axes)
    sides = _slid(call, shape[1:-1], taps, steps, (1,) * axes)
    return made_of([x], (shape[0], *sides, shape[-1]), x.samples, whole=True)


@of_shape
def convolved(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return an image or sequence convolved with filters, which are a tensor of taps, channels and filters."""
    filters = call.values.get("filters")
    kernel = filters.shape if type(filters) is Tensor else None
    if not _is_image(call, shape) or type(filters) is not Tensor or kernel is None or len(kernel) != len(shape):
        return None
    axes = len(shape) - 2
    steps, spread = _along(call, "strides", axes), _along(call, "dilations", axes)
    sides = _slid(call, shape[1:-1], kernel[:-2], steps, spread)
    return made_of([x, filters], (shape[0], *sides, kernel[-1]), x.samples)


def _is_image(call: ArrayCall, shape: Shape) -> bool:
    """Return whether a window may slide over a tensor: one with its channels last."""
    layout = call.word("data_format", "") if call.has("data_format") else "channels_last"
    return len(shape) in (3, 4, 5) and layout is not None and (layout == "channels_last" or layout.endswith("C"))


def _along(call: ArrayCall, name: str, axes: int) -> Shape:
    """Return one number for each axis that the window slides along, 1 where none is passed; None where unknown."""
    if not call.has(name):
        return (1,) * axes
    found = call.numbers(name) or []
    if len(found) == axes + 2:
        found = found[1:-1]
    return tuple(found) if len(found) == axes else tuple(found) * axes if len(found) == 1 else (None,) * axes


def _slid(call: ArrayCall, sides: Shape, taps: Shape, steps: Shape, spread: Shape) -> tuple[Size, ...]:
    padding = call.word("padding", "valid")
    word = padding.lower() if padding is not None else None
    return tuple(window_axis(*axis, word) for axis in zip(sides, taps, steps, spread, strict=True))
