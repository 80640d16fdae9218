"""Functions that slide a window over images and sequences: pooling and convolutions."""

from __future__ import annotations

from tcprobe.audit.source.arrays.call import ArrayCall, made_of
from tcprobe.audit.source.values.kinds import SourceValue, Tensor
from tcprobe.keras.shapes.spatial import window_axis
from tcprobe.schema.op import Shape, Size


def pooled(call: ArrayCall) -> SourceValue | None:
    """Return an image or sequence pooled by windows; Keras' step by a whole window where no stride is passed."""
    x = _image(call)
    if x is None or x.shape is None:
        return None
    axes = len(x.shape) - 2
    taps = _along(call, "ksize", axes)
    steps = taps if call.library == "ops" and not call.has("strides") else _along(call, "strides", axes)
    sides = _slid(call, x.shape[1:-1], taps, steps, (1,) * axes)
    return made_of([x], (x.shape[0], *sides, x.shape[-1]), x.samples, whole=True)


def convolved(call: ArrayCall) -> SourceValue | None:
    """Return an image or sequence convolved with filters, which are a tensor of taps, channels and filters."""
    x, filters = _image(call), call.values.get("filters")
    if x is None or x.shape is None or not isinstance(filters, Tensor):
        return None
    kernel = filters.shape
    if kernel is None or len(kernel) != len(x.shape):
        return None
    axes = len(x.shape) - 2
    steps, spread = _along(call, "strides", axes), _along(call, "dilations", axes)
    sides = _slid(call, x.shape[1:-1], kernel[:-2], steps, spread)
    return made_of([x, filters], (x.shape[0], *sides, kernel[-1]), x.samples)


def _image(call: ArrayCall) -> Tensor | None:
    """Return what the window slides over, of a known rank and with its channels last; else None."""
    x = call.x
    if x is None or x.shape is None or len(x.shape) not in (3, 4, 5):
        return None
    layout = call.word("data_format", "channels_last") if call.has("data_format") else "channels_last"
    return x if layout is not None and (layout == "channels_last" or layout.endswith("C")) else None


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
