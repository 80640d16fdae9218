"""Output shapes of Keras' layers from their settings: `compute_output_shape` without Keras.

Source: `compute_output_shape` of each layer in keras/src/layers, Keras 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any, Final

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.images import (
    Image,
    convolved,
    cropped,
    image_of,
    padded,
    pooled,
    pooled_globally,
    pooled_to_size,
    transposed,
    upsampled,
)
from tcprobe.keras.row import ShapeRule
from tcprobe.keras.settings import (
    LayerSettings,
    channels_last,
    flag_of,
    is_many,
    is_size,
    shape_of,
    size_of,
    total_size,
    wrapped_layer,
)
from tcprobe.schema.op import Shape, Size, product


def output_shape(kind: str, config: LayerSettings, input_shape: Any) -> Shape | None:
    """Return the shape of a layer's first output.

    Args:
        kind: Keras' class (``Conv2D``, ``MaxPool2D``, ``TimeDistributed``).
        config: its settings by argument name; an absent one has Keras' default, one of a wrong type (``...``) is
            not known. A wrapper's ``layer`` and an RNN's ``cell`` are nested as Keras' get_config nests them.
        input_shape: one shape with the batch first, or a sequence of shapes for a layer that takes several; None
            for an unknown dimension or rank.

    Returns:
        None where the rank is not known: a class that is none of Keras', an input of unknown rank, settings that
        do not fit it. A dimension that is not known is None.
    """
    kind, named = class_of(kind).name, class_of(kind).shape
    if is_many(input_shape):
        return _of_many(kind, named, config, [shape_of(s) for s in input_shape])
    shape = shape_of(input_shape)
    if not shape:
        return None
    if named in _IMAGES:
        image = image_of(kind, config, shape)
        out = None if image is None else _IMAGES[named](kind, config, image)
        return None if out is None else out.shape
    rule = _RULES.get(named)
    return None if rule is None else rule(kind, config, shape)


def _of_many(kind: str, named: ShapeRule, config: LayerSettings, shapes: list[Shape | None]) -> Shape | None:
    if named in _OF_FIRST and shapes[0]:
        return output_shape(kind, config, shapes[0])
    known = [s for s in shapes if s]
    if len(known) < len(shapes):
        return None
    if named in _MERGES:
        return _MERGES[named](config, known)
    return output_shape(kind, config, known[0]) if named in _WITH_STATE or len(known) == 1 else None


def einsum_sizes(config: LayerSettings, shape: Shape) -> tuple[tuple[str, str, str], Mapping[str, Size]] | None:
    """Return the labels of an EinsumDense's input, kernel and output, dots spelled out, and the size of each.

    None where the equation does not fit the input. Keras takes ``...`` at the start or the end of input and output,
    never in the kernel.
    """
    equation = config.get("equation")
    parts = equation.replace(" ", "").replace("->", ",").split(",") if isinstance(equation, str) else []
    if not isinstance(equation, str) or len(parts) != 3:
        return None
    spare = "".join(c for c in ascii_uppercase if c not in equation)
    covered = spare[: max(0, len(shape) - len(parts[0].replace("...", "")))] if "..." in parts[0] else ""
    a, b, c = (part.replace("...", covered) for part in parts)
    if len(a) != len(shape) or "." in a + b + c:
        return None
    sizes: dict[str, Size] = dict.fromkeys(a + b + c)
    # output_shape leaves the batch out, and what trailing dots cover; Keras aligns it with the other end.
    given = features_of(config) or ()
    at_the_end = equation.rstrip().endswith("...")
    sizes.update(zip(c[1:], given, strict=False) if at_the_end else zip(c[::-1], given[::-1], strict=False))
    sizes.update({label: size for label, size in zip(a, shape, strict=True) if size is not None or label not in c})
    return (a, b, c), sizes


def features_of(config: LayerSettings) -> Shape | None:
    """Return the ``output_shape`` of a layer, one size or several; None where it is not given or no such thing."""
    given = config.get("output_shape")
    return shape_of([given] if is_size(given) else given)


def _einsum_dense(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    known = einsum_sizes(config, shape)
    return None if known is None else tuple(known[1][label] for label in known[0][2])


def _attention_heads(_: str, config: LayerSettings, shape: Shape) -> Shape:
    if config.get("output_shape") is None:
        return shape
    features = features_of(config)
    return (*shape[:-1], *((None,) if features is None else features))


def _embedding(_: str, config: LayerSettings, shape: Shape) -> Shape:
    return (*shape, size_of(config, "output_dim"))


def reads_backwards(config: LayerSettings, shape: Shape | None) -> bool:
    """Say whether a ReversibleEmbedding's call turns features into the vocabulary.

    Shapes tell only where three dimensions end in its own ``output_dim``; token ids have two.
    """
    width = size_of(config, "output_dim")
    return config.get("reverse") is True or (shape is not None and len(shape) == 3 and shape[-1] == width is not None)


def _reversible(kind: str, config: LayerSettings, shape: Shape) -> Shape:
    if reads_backwards(config, shape):
        return (*shape[:-1], size_of(config, "input_dim"))
    return _embedding(kind, config, shape)


def cell_units(config: LayerSettings) -> int | None:
    """Return the units of an RNN's output, those of its cell (the last of a stack); None where not known."""
    if "cell" not in config:
        return size_of(config, "units")
    cell = config["cell"]
    cell = cell[-1] if isinstance(cell, list | tuple) and cell else cell
    inner = wrapped_layer({"cell": cell}, "cell")
    if inner is None:
        return None
    stack = inner[1].get("cells")
    return cell_units({"cell": stack} if inner[0] == "StackedRNNCells" else inner[1])


def _recurrent(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    sequences = flag_of(config, "return_sequences", False)
    if sequences is None or len(shape) != 3:
        return None
    units = cell_units(config)
    return (shape[0], shape[1], units) if sequences else (shape[0], units)


def _conv_recurrent(kind: str, config: LayerSettings, shape: Shape) -> Shape | None:
    sequences = flag_of(config, "return_sequences", False)
    step = image_of(kind, config, (shape[0], *shape[2:]))
    if step is None or sequences is None:
        return None
    batch, *rest = convolved(kind, config, step).shape
    return (batch, shape[1], *rest) if sequences else (batch, *rest)


def _time_distributed(kind: str, config: LayerSettings, shape: Shape) -> Shape | None:
    out = _wrapper(kind, config, (shape[0], *shape[2:])) if len(shape) > 2 else None
    return None if out is None else (shape[0], shape[1], *out[1:])


def _bidirectional(kind: str, config: LayerSettings, shape: Shape) -> Shape | None:
    out = _wrapper(kind, config, shape)
    merge = config.get("merge_mode", "concat")
    if out is None or not (merge is None or isinstance(merge, str)):
        return None
    return (*out[:-1], product((2, out[-1]))) if merge == "concat" else out


def _wrapper(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    inner = wrapped_layer(config)
    return None if inner is None else output_shape(*inner, shape)


def _reshaped(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
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


def _permuted(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return the dimensions in the order of ``dims``, which counts from 1."""
    dims = config.get("dims")
    if not isinstance(dims, list | tuple) or sorted(map(str, dims)) != sorted(str(i) for i in range(1, len(shape))):
        return None
    return (shape[0], *(shape[d] for d in dims))


def _repeated(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return (batch, n, features)."""
    return (shape[0], size_of(config, "n"), shape[1]) if len(shape) == 2 else None


def _resized_image(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    """Return the image with the ``height`` and ``width`` of the settings."""
    last = channels_last(config)
    if last is None or len(shape) not in (3, 4):
        return None
    *batch, first, _width, channels = shape
    sizes = (size_of(config, "height"), size_of(config, "width"))
    return (*batch, *sizes, channels) if last else (*batch, first, *sizes)


def _broadcast(_: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
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


def _concatenated(config: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
    """Return the first shape with the sizes along ``axis`` summed up."""
    axis, rank = config.get("axis", -1), len(shapes[0])
    if not isinstance(axis, int) or not -rank <= axis < rank or any(len(s) != rank for s in shapes):
        return None
    out = list(shapes[0])
    out[axis] = total_size(s[axis] for s in shapes)
    return tuple(out)


def _dotted(config: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
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


def _attended(_: LayerSettings, shapes: Sequence[Shape]) -> Shape | None:
    """Return the query with the features of the value."""
    return (*shapes[0][:-1], shapes[1][-1]) if len(shapes) > 1 else None


_RULES: Final[Mapping[ShapeRule, Callable[[str, LayerSettings, Shape], Shape | None]]] = {
    "same": lambda _, __, shape: shape,
    "dense": lambda _, config, shape: (*shape[:-1], size_of(config, "units")),
    "einsum": _einsum_dense,
    "heads": _attention_heads,
    "query": lambda _, __, shape: shape,
    "embedding": _embedding,
    "reversible": _reversible,
    "recurrent": _recurrent,
    "recurrent convolution": _conv_recurrent,
    "flattened": lambda _, __, shape: (shape[0], product(shape[1:])),
    "reshaped": _reshaped,
    "permuted": _permuted,
    "repeated": _repeated,
    "resized image": _resized_image,
    "time distributed": _time_distributed,
    "bidirectional": _bidirectional,
    "wrapped": _wrapper,
}
_IMAGES: Final[Mapping[ShapeRule, Callable[[str, LayerSettings, Image], Image | None]]] = {
    "convolved": convolved,
    "transposed": transposed,
    "pooled": pooled,
    "pooled globally": pooled_globally,
    "pooled to size": pooled_to_size,
    "upsampled": upsampled,
    "padded": padded,
    "cropped": cropped,
}
_MERGES: Final[Mapping[ShapeRule, Callable[[LayerSettings, Sequence[Shape]], Shape | None]]] = {
    "broadcast": _broadcast,
    "concatenated": _concatenated,
    "dotted": _dotted,
    "attended": _attended,
}
_OF_FIRST: Final[frozenset[ShapeRule]] = frozenset({"heads", "query", "reversible"})
"""Rules that need no more than the first of several inputs."""
_WITH_STATE: Final[frozenset[ShapeRule]] = frozenset({"recurrent", "bidirectional"})
"""Rules of layers that take states beside their input."""
