"""Output shapes of Keras' layers from their settings: `compute_output_shape` without Keras.

Source: `compute_output_shape` of each layer in keras/src/layers, Keras 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.row import ShapeRule
from tcprobe.keras.settings import LayerSettings, flag_of, is_many, is_size, shape_of, size_of, wrapped_layer
from tcprobe.keras.shapes.plain import (
    attended,
    broadcast,
    concatenated,
    dotted,
    flattened,
    permuted,
    repeated,
    reshaped,
    resized_image,
)
from tcprobe.keras.shapes.spatial import (
    convolved,
    cropped,
    padded,
    pooled,
    pooled_globally,
    pooled_to_size,
    transposed,
    upsampled,
)
from tcprobe.schema.op import Shape, product

ShapeFunction: TypeAlias = Callable[[str, LayerSettings, Shape], Shape | None]
Merge: TypeAlias = Callable[[LayerSettings, Sequence[Shape]], Shape | None]


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
    rule = _RULES.get(named)
    return rule(kind, config, shape) if shape and rule is not None else None


def _of_many(kind: str, named: ShapeRule, config: LayerSettings, shapes: list[Shape | None]) -> Shape | None:
    known = [s for s in shapes if s]
    if named in _OF_FIRST and shapes[0]:
        return output_shape(kind, config, shapes[0])
    if len(known) < len(shapes):
        return None
    if named in _MERGES:
        return _MERGES[named](config, known)
    return output_shape(kind, config, known[0]) if named in _WITH_STATE or len(known) == 1 else None


def _dense(_: str, config: LayerSettings, shape: Shape) -> Shape:
    return (*shape[:-1], size_of(config, "units"))


def einsum_labels(config: LayerSettings, shape: Shape) -> tuple[str, str, str] | None:
    """Return the labels of an EinsumDense's input, kernel and output, dots spelled out; None where they do not fit.

    Keras takes ``...`` at the start or the end of input and output, never in the kernel.
    """
    equation = config.get("equation")
    if not isinstance(equation, str):
        return None
    parts = equation.replace(" ", "").replace("->", ",").split(",")
    if len(parts) != 3:
        return None
    spare = "".join(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation)
    covered = spare[: max(0, len(shape) - len(parts[0].replace("...", "")))] if "..." in parts[0] else ""
    a, b, c = (part.replace("...", covered) for part in parts)
    return (a, b, c) if len(a) == len(shape) and "." not in a + b + c else None


def einsum_sizes(config: LayerSettings, shape: Shape) -> tuple[tuple[str, str, str], Mapping[str, int | None]] | None:
    """Return labels of an EinsumDense and the size of each; None where the equation does not fit the input."""
    labels = einsum_labels(config, shape)
    given = config.get("output_shape")
    sizes_given = shape_of([given] if is_size(given) else given)
    if labels is None:
        return None
    a, b, c = labels
    sizes: dict[str, int | None] = dict.fromkeys(a + b + c)
    # output_shape leaves the batch out, and what trailing dots cover; Keras aligns it with the other end.
    given_sizes = sizes_given or ()
    at_the_end = str(config.get("equation")).rstrip().endswith("...")
    sizes.update(zip(c[1:], given_sizes, strict=False) if at_the_end else zip(c[::-1], given_sizes[::-1], strict=False))
    sizes.update({label: size for label, size in zip(a, shape, strict=True) if size is not None or label not in c})
    return labels, sizes


def _einsum_dense(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    known = einsum_sizes(config, shape)
    return None if known is None else tuple(known[1][label] for label in known[0][2])


def _attention_heads(_: str, config: LayerSettings, shape: Shape) -> Shape:
    given = config.get("output_shape")
    if given is None:
        return shape
    if isinstance(given, list | tuple):
        return (*shape[:-1], *(v if is_size(v) else None for v in given))
    return (*shape[:-1], given if is_size(given) else None)


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
    out = convolved(kind, config, (shape[0], *shape[2:])) if len(shape) > 2 else None
    if out is None or sequences is None:
        return None
    return (out[0], shape[1], *out[1:]) if sequences else out


def _time_distributed(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    inner = wrapped_layer(config)
    if inner is None or len(shape) < 3:
        return None
    out = output_shape(*inner, (shape[0], *shape[2:]))
    return None if out is None else (shape[0], shape[1], *out[1:])


def _bidirectional(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    inner = wrapped_layer(config)
    out = None if inner is None else output_shape(*inner, shape)
    merge = config.get("merge_mode", "concat")
    if out is None or not (merge is None or isinstance(merge, str)):
        return None
    return (*out[:-1], product((2, out[-1]))) if merge == "concat" else out


def _wrapper(_: str, config: LayerSettings, shape: Shape) -> Shape | None:
    inner = wrapped_layer(config)
    return None if inner is None else output_shape(*inner, shape)


_RULES: Final[Mapping[ShapeRule, ShapeFunction]] = {
    "same": lambda _, __, shape: shape,
    "dense": _dense,
    "einsum": _einsum_dense,
    "heads": _attention_heads,
    "query": lambda _, __, shape: shape,
    "embedding": _embedding,
    "reversible": _reversible,
    "recurrent": _recurrent,
    "recurrent convolution": _conv_recurrent,
    "convolved": convolved,
    "transposed": transposed,
    "pooled": pooled,
    "pooled globally": pooled_globally,
    "pooled to size": pooled_to_size,
    "upsampled": upsampled,
    "padded": padded,
    "cropped": cropped,
    "flattened": flattened,
    "reshaped": reshaped,
    "permuted": permuted,
    "repeated": repeated,
    "resized image": resized_image,
    "time distributed": _time_distributed,
    "bidirectional": _bidirectional,
    "wrapped": _wrapper,
}
_MERGES: Final[Mapping[ShapeRule, Merge]] = {
    "broadcast": lambda _, shapes: broadcast(shapes),
    "concatenated": concatenated,
    "dotted": dotted,
    "attended": attended,
}
_OF_FIRST: Final[frozenset[ShapeRule]] = frozenset({"heads", "query", "reversible"})
"""Rules that need no more than the first of several inputs."""
_WITH_STATE: Final[frozenset[ShapeRule]] = frozenset({"recurrent", "bidirectional"})
"""Rules of layers that take states beside their input."""
