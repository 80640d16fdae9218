"""Output shapes of layers that only rearrange, merge or contract what they take.

Source: `compute_output_shape` of each layer in keras/src/layers/{reshaping,merging,attention}, Keras 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcprobe.keras.settings import LayerSettings, channels_last, is_size, size_of, total_size
from tcprobe.keras.shapes.spatial import join, split
from tcprobe.schema.op import Shape, product


def flattened(_: str, __: LayerSettings, shape: Shape) -> Shape:
    """Return (batch, the product of the rest)."""
    return (shape[0], product(shape[1:]))


def reshaped(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return ``target_shape``; its one -1 is what the others leave, and None where something is not known."""
    target = config.get("target_shape")
    if is_size(target) or target == -1:
        target = (target,)
    if not isinstance(target, list | tuple):
        return None
    known: list[int | None] = [v if is_size(v) else None for v in target]
    holes = [index for index, v in enumerate(target) if v == -1]
    whole, rest = product(shape[1:]), product(v for index, v in enumerate(known) if index not in holes)
    if len(holes) == 1 and whole is not None and rest:
        known[holes[0]] = whole // rest if whole % rest == 0 else None
    return (shape[0], *known)


def permuted(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return the dimensions in the order of ``dims``, which counts from 1."""
    dims = config.get("dims")
    if not isinstance(dims, list | tuple) or sorted(map(str, dims)) != sorted(str(i) for i in range(1, len(shape))):
        return None
    return (shape[0], *(shape[d] for d in dims))


def repeated(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return (batch, n, features)."""
    return (shape[0], size_of(config, "n"), shape[1]) if len(shape) == 2 else None


def resized_image(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return the image with the ``height`` and ``width`` of the settings."""
    last = channels_last(config)
    if last is None or len(shape) not in (3, 4):
        return None
    sizes = (size_of(config, "height"), size_of(config, "width"))
    if len(shape) == 3:
        return (*sizes, shape[-1]) if last else (shape[0], *sizes)
    return join(shape[0], sizes, split(shape, last)[1], last)


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """Return the shape of an elementwise merge: dimensions meet at the right, the batch apart.

    What is not known in one of two stays unknown.
    """
    result: Shape = shapes[0][1:]
    for other in (s[1:] for s in shapes[1:]):
        rank = max(len(result), len(other))
        pairs = zip(*((1,) * (rank - len(s)) + s for s in (result, other)), strict=True)
        result = tuple(b if a == 1 else a if b == 1 or a == b else None for a, b in pairs)
    batches = {s[0] for s in shapes if s[0] is not None}
    return (batches.pop() if len(batches) == 1 and all(s[0] is not None for s in shapes) else None, *result)


def concatenated(config: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
    """Return the first shape with the sizes along ``axis`` summed up."""
    axis, rank = config.get("axis", -1), len(shapes[0])
    if not isinstance(axis, int) or not -rank <= axis < rank or any(len(s) != rank for s in shapes):
        return None
    out = list(shapes[0])
    out[axis] = total_size(s[axis] for s in shapes)
    return tuple(out)


def dotted(config: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
    """Return what a Dot layer leaves of both inputs."""
    axes = dot_axes(config, shapes)
    if axes is None:
        return None
    left, right = shapes
    out = (*left[: axes[0]], *left[axes[0] + 1 :], *right[1 : axes[1]], *right[axes[1] + 1 :])
    return (*out, 1) if len(out) == 1 else out


def dot_axes(config: LayerSettings, shapes: Sequence[Shape]) -> tuple[int, int] | None:
    """Return the dimensions that a Dot layer contracts, counted from the start; None where they are not known."""
    axes = config.get("axes")
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes) if isinstance(axes, list | tuple) else ()
    if len(shapes) != 2 or len(pair) != 2 or not all(isinstance(a, int) for a in pair):
        return None
    found = tuple(a % len(s) if -len(s) <= a < len(s) else 0 for a, s in zip(pair, shapes, strict=True))
    return None if 0 in found else (found[0], found[1])


def attended(_: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
    """Return the query with the features of the value."""
    return (*shapes[0][:-1], shapes[1][-1]) if len(shapes) > 1 else None
