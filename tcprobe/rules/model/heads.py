"""The heads of attention layers: their sizes, and which products of the layer and its parts have them."""

from __future__ import annotations

from typing import Final

from tcprobe.gemm.dimensions import named_sizes
from tcprobe.gemm.resize import resized
from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.rules.model.links import LinkedChange
from tcprobe.rules.model.sizes import Dimension, LayerSizes, head_counts, head_sizes
from tcprobe.schema.model import Layer, Product
from tcprobe.schema.op import OpRecord

NAMES: Final = tuple(dict.fromkeys(name for row in LAYER_CLASSES for name in row.inner))
_MOST_LEVELS: Final = 200  # of a name that are climbed


def attention_of(sizes: LayerSizes, name: str) -> Layer | None:
    """Return the attention layer that a layer is, or is a part of; None where it is neither."""
    for _ in range(min(_MOST_LEVELS, name.count("/") + 1)):
        layer = sizes.layers.get(name)
        if layer is not None and class_of(layer.kind).inner:
            return layer
        name = name.rpartition("/")[0]
    return None


def is_head_size(layer: Layer, size: int) -> bool:
    """Return whether a size of an attention layer's products is that of one head or of all its heads."""
    return any(size in (one, *wide) for one, wide in _widths(layer))


def head_dimensions(sizes: LayerSizes) -> list[Dimension]:
    """Return the sizes of heads of every attention layer, with the products that have them."""
    found = []
    for layer in sizes.model.layers:
        if class_of(layer.kind).inner:
            for name, size in head_sizes(layer).items():
                touched = tuple(i for i in products_within(sizes, layer.name) if _touches(sizes, layer, size, i))
                found.append(Dimension(layer.name, name, size, touched))
    return found


def products_within(sizes: LayerSizes, name: str) -> list[int]:
    """Return the indexes of the products of a layer and of its parts."""
    return [i for part, held in sizes.by_layer.items() if part == name or part.startswith(f"{name}/") for i in held]


def with_heads(record: OpRecord, change: LinkedChange, layer: Layer) -> OpRecord:
    """Return the record after a change of a head's size.

    A projection whose units are all heads gets wider there, else where it takes them; where both are of that size,
    as with equal model and head widths, changing either costs the same.
    """
    names = named_sizes(record)
    for count in head_counts(layer):
        wide = count * change.old
        for name in ("units", "inputs", "features"):
            if (name, wide) in names:
                return resized(record, name, wide, count * change.new)
    alone = ("features", change.old) in names
    return resized(record, "features", change.old, change.new) if alone else record


def _touches(sizes: LayerSizes, layer: Layer, size: int, index: int) -> bool:
    product: Product = sizes.model.products[index]
    wanted = {size, *(count * size for count in head_counts(layer))}
    return any(found in wanted for _, found in named_sizes(product.record))


def _widths(layer: Layer) -> list[tuple[int, list[int]]]:
    return [(size, [count * size for count in head_counts(layer)]) for size in head_sizes(layer).values()]
