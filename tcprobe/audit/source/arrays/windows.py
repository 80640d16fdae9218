"""Functions that slide a window over images and sequences: pooling and convolutions."""

from __future__ import annotations

from tcprobe.audit.source.arrays.call import ArrayCall, made_of, of_shape
from tcprobe.audit.source.kinds import SourceValue, Tensor
from tcprobe.keras.images import window_axis
from tcprobe.schema.op import Shape, Size


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
    kernel = filters.shape if isinstance(filters, Tensor) else None
    if not _is_image(call, shape) or not isinstance(filters, Tensor) or kernel is None or len(kernel) != len(shape):
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
