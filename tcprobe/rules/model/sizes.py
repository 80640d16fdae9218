"""The sizes of a model's layers in the user's words, and which products each touches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final, TypeVar

from msgspec import Struct

from tcprobe.gemm.conv import CONV_PASSES, convolution_of
from tcprobe.gemm.ops import family_of
from tcprobe.gemm.resize import named_sizes, resized
from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.keras.settings import wrapped_layer
from tcprobe.schema.model import Layer, Model, Product
from tcprobe.schema.op import OpRecord

OUTPUTS: Final = frozenset(row.output for row in LAYER_CLASSES if row.output)
INPUTS: Final = ("inputs", "channels")
FEATURES: Final = "features"
HEADS: Final = tuple(dict.fromkeys(name for row in LAYER_CLASSES for name in row.inner))
"""Names of the sizes of one head."""
MOST_GATES: Final = max(row.gates for row in LAYER_CLASSES)
_MOST_LEVELS: Final = 200  # of a name that are climbed
_TRANSPOSED: Final = (("conv_dgrad", "forward"), ("conv", "dgrad"))


K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    """Return the values of each key, both in the order in which they come first."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


class LinkedChange(Struct, frozen=True):
    """A dimension of a layer made another size."""

    layer: str
    dimension: str
    old: int
    new: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What is changed."""
        return self.layer, self.dimension, self.old


class Dimension(Struct, frozen=True):
    """One contiguous dimension of a layer."""

    layer: str  # name of the layer; the op's name where it belongs to none
    # in the words of `tcprobe.gemm.resize` (units, inputs, filters, channels, features), or ``output_dim`` of a
    # layer that multiplies nothing itself (Embedding)
    name: str
    size: int  # in elements
    products: tuple[int, ...]  # indexes of the products that it touches

    def resized(self, size: int) -> LinkedChange:
        """Return it made another size."""
        return LinkedChange(self.layer, self.name, self.size, size)


def head_widths(layer: Layer) -> dict[str, tuple[int, ...]]:
    """Return the size of one head, and how wide all of them are together, by its argument; nothing where unknown.

    Together they are of queries and of keys; of arguments of one size the first stands for all.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name in class_of(layer.kind).inner:
        size = layer.config.get(name)
        if isinstance(size, int) and size > 0 and all(size != wide[0] for wide in found.values()):
            found[name] = (size, *(count * size for count in head_counts(layer)))
    return found


def head_counts(layer: Layer) -> list[int]:
    """Return how many heads an attention layer has, of queries and of keys; nothing where they are unknown."""
    found = [layer.config.get(name) for name in class_of(layer.kind).counts]
    return [count for count in found if isinstance(count, int) and count > 0]


class LayerSizes:
    """The dimensions of every layer of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._known: dict[tuple[int, bool], list[tuple[str, int]]] = {}

    @cached_property
    def by_layer(self) -> dict[str, tuple[int, ...]]:
        """Indexes of the products of each layer, by its name; an op outside any layer stands under its own name."""
        return grouped((product.layer or product.op, index) for index, product in enumerate(self.model.products))

    @cached_property
    def layers(self) -> dict[str, Layer]:
        """Every layer by its name."""
        return {layer.name: layer for layer in self.model.layers}

    @cached_property
    def transposed(self) -> frozenset[str]:
        """Names of the layers whose forward pass is a convolution's input gradient."""
        return frozenset(
            product.layer or product.op
            for product in self.model.products
            if (family_of(product.record.op_type), product.record.pass_) in _TRANSPOSED
        )

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """All dimensions, each name and size of a layer once, in the order of the products."""
        products = enumerate(self.model.products)
        sizes = (((p.layer or p.op, *size), index) for index, p in products for size in self.named(p))
        return tuple(Dimension(*key, indexes) for key, indexes in grouped(sizes).items())

    def named(self, product: Product) -> list[tuple[str, int]]:
        """Return the contiguous dimensions of one product as (name, size).

        A gradient that knows no more than that they are features has the names of the forward pass; not in an
        attention layer, whose scores have heads, and may be as wide as what it takes.
        """
        name = product.layer or product.op
        found = self._sizes(product.record, name)
        layer = self.layers.get(name)
        if layer is not None and (units := units_of(layer)) is not None:
            return _recurrent(layer, units, found)
        names = self._forward_names.get(product.layer or "", {})
        if FEATURES not in (dimension for dimension, _ in found) or not names or self._heads_together(name):
            return found
        known = [(n, size) for dimension, size in found for n in (names.get(size) or (dimension,))]
        return list(dict.fromkeys(known))

    def _sizes(self, record: OpRecord, name: str) -> list[tuple[str, int]]:
        """Return the sizes of a record of the model, which may stand in many of its products."""
        key = id(record), name in self.transposed
        if key not in self._known:
            self._known[key] = named_sizes(record, key[1])
        return self._known[key]

    @cached_property
    def _forward_names(self) -> dict[str, dict[int, tuple[str, ...]]]:
        """Names of each size of the forward pass, of layers that tell what they take from what they put out."""
        found: dict[str, dict[int, tuple[str, ...]]] = {}
        for product in self.model.products:
            if product.layer is None or product.record.pass_ not in (None, "forward"):
                continue
            for dimension, size in self._sizes(product.record, product.layer):
                if dimension != FEATURES:
                    known = found.setdefault(product.layer, {})
                    known[size] = tuple(dict.fromkeys((*known.get(size, ()), dimension)))
        return found

    def spelled(self, record: OpRecord, layer: str, dimension: str, size: int) -> str | None:
        """Return a dimension's name as a record of a layer has it; None where the record has no such size."""
        own = named_sizes(record, layer in self.transposed)
        names = (dimension,) if self._heads_together(layer) else (dimension, FEATURES)
        return next((name for name in names if (name, size) in own), None)

    def of(self, layer: str, names: Iterable[str]) -> list[Dimension]:
        """Return the dimensions of a layer that have one of these names."""
        wanted = tuple(names)
        return [d for d in self._of_layer.get(layer, ()) if d.name in wanted]

    @cached_property
    def _of_layer(self) -> dict[str, tuple[Dimension, ...]]:
        return grouped((dimension.layer, dimension) for dimension in self.dimensions)

    def groups(self, layer: str) -> int:
        """Return the groups of a layer's convolution; 1 where it has none or they are unknown."""
        known = self.layers.get(layer)
        told = known.config.get("groups") if known else None
        if isinstance(told, int) and told > 0:
            return told
        for index in self.by_layer.get(layer, ()):
            record = self.model.products[index].record
            kind = CONV_PASSES.get(family_of(record.op_type) or "")
            shapes = convolution_of(record, kind) if kind else None
            if shapes is not None and shapes.groups:
                return shapes.groups
        return 1

    def output(self, layer: str) -> Dimension | None:
        """Return the dimension of the features that a layer puts out; None where it is not the layer's own or unknown.

        A layer that multiplies nothing but sets a size (Embedding: ``output_dim``) has one without products; so has
        one whose product is the way back to the vocabulary.
        """
        known = self.layers.get(layer)
        size = known.config.get("output_dim") if known else None
        if isinstance(size, int):
            return Dimension(layer, "output_dim", size, ())
        return self._only(layer, OUTPUTS)

    def input(self, layer: str) -> Dimension | None:
        """Return the dimension of the features that a layer takes; None where it has none or several."""
        return self._only(layer, INPUTS)

    def _only(self, layer: str, names: Iterable[str]) -> Dimension | None:
        """Return the one dimension of these names that meets other layers; None where there are none or several.

        Projections inside an attention layer meet in the size of all heads together.
        """
        found = self.of(layer, names)
        if len(found) > 1:
            found = [d for d in found if d.size not in self._heads_together(layer)]
        return found[0] if len(found) == 1 else None

    def _heads_together(self, name: str) -> frozenset[int]:
        """Return the sizes of all heads of an attention layer together; none of other layers and unknown heads."""
        layer = self.layers.get(name)
        if layer is None:
            return frozenset()
        return frozenset(size for wide in head_widths(layer).values() for size in wide[1:])

    @cached_property
    def vocabularies(self) -> frozenset[int]:
        """Sizes of the vocabularies that embeddings look words up in."""
        embeddings = (layer for layer in self.model.layers if class_of(layer.kind).kind == "embedding")
        found = {layer.config.get("input_dim") for layer in embeddings}
        return frozenset(size for size in found if isinstance(size, int))

    @cached_property
    def given(self) -> frozenset[int]:
        """Numbers of features that the model is given from outside."""
        first = (layer.input_shapes[0] for layer in self.model.layers if layer.is_first and layer.input_shapes)
        return frozenset(shape[-1] for shape in first if shape and shape[-1])

    @cached_property
    def feeds(self) -> dict[str, tuple[str, ...]]:
        """Names of the layers whose features each layer multiplies, by its name; only where there are any.

        Where no product says so, the layers themselves do, through those that hand their features on.
        """
        found: dict[str, dict[str, None]] = {}
        for product in self.model.products:
            if product.layer is not None and product.inputs_from and product.record.pass_ in (None, "forward"):
                found.setdefault(product.layer, {}).update(dict.fromkeys(product.inputs_from))
        for name in [name for name in self.by_layer if name not in found]:
            if (layer := self.layers.get(name)) is not None:
                found[name] = dict.fromkeys(self._behind(layer) or ())
        return {name: tuple(sources) for name, sources in found.items() if sources}

    def _behind(self, layer: Layer) -> list[str] | None:
        """Return the layers that set the features that a layer takes; None where one in between is not understood."""
        found: list[str] = []
        queue, seen = list(layer.inputs_from), set(layer.inputs_from)
        while queue:
            source = self.layers.get(queue.pop())
            if source is None:
                return None
            if source.name in self.by_layer or "output_dim" in source.config:
                found.append(source.name)
            elif class_of(source.kind).hands_on:
                queue += [name for name in source.inputs_from if name not in seen]
                seen.update(source.inputs_from)
            else:
                return None
        return found

    def tail(self, name: str) -> list[Layer]:
        """Return a layer and those behind it that change its output element by element, in order."""
        found = [layer for layer in (self.layers.get(name),) if layer is not None]
        seen = {name}
        for layer in found:
            takers = self.takers.get(layer.name, ())
            after = [t for t in takers if class_of(t.kind).features == "elementwise" and t.name not in seen]
            seen.update(taker.name for taker in after)
            found += after
        return found

    @cached_property
    def takers(self) -> dict[str, tuple[Layer, ...]]:
        """Layers that take the output of each layer, whatever they do with it, by its name."""
        return grouped((name, layer) for layer in self.model.layers for name in dict.fromkeys(layer.inputs_from))

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Names of the layers that multiply the features of each layer, by its name."""
        return grouped((source, name) for name, sources in self.feeds.items() for source in sources)


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
    return any(size in wide for wide in head_widths(layer).values())


def head_dimensions(sizes: LayerSizes) -> list[Dimension]:
    """Return the sizes of heads of every attention layer, with the products that have them."""
    found = []
    for layer in sizes.model.layers:
        for name, wide in head_widths(layer).items():
            held = [(i, named_sizes(sizes.model.products[i].record)) for i in products_within(sizes, layer.name)]
            touched = tuple(i for i, names in held if any(size in wide for _, size in names))
            found.append(Dimension(layer.name, name, wide[0], touched))
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


def units_of(layer: Layer | None) -> int | None:
    """Return the units of a recurrent layer, or of the one that a Bidirectional runs both ways; else None."""
    if layer is None:
        return None
    kind, config = layer.kind, layer.config
    if kind == "Bidirectional" and (inner := wrapped_layer(config)) is not None:
        kind, config = inner[0], inner[1]
    row, units = class_of(kind), config.get("units")
    gated = row.kind == "recurrent" and row.gates > 0  # Keras' own gates, not those of a cell of the user's
    return units if gated and isinstance(units, int) and units > 0 else None


def _recurrent(layer: Layer, units: int, names: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the sizes of a recurrent layer's product in its user's words: inputs and units.

    Args:
        layer: the layer.
        units: of the layer.
        names: as `named_sizes` gives them: a traced product has all gates as its units, and the units as its inputs.
    """
    found: list[tuple[str, int]] = []
    for name, size in names:
        if name == "inputs" and (size == _inputs(layer) or size != units):
            found.append((name, size))
        if (name == "inputs" and size == units) or _gates(name, size, units):
            found.append(("units", units))
    return list(dict.fromkeys(found))


def with_units(record: OpRecord, layer: Layer, old: int, new: int) -> OpRecord:
    """Return a product of a recurrent layer after a change of its units."""
    for name, size in named_sizes(record):
        if _gates(name, size, old):
            record = resized(record, name, size, size // old * new)
        elif name == "inputs" and size == old and size != _inputs(layer):
            record = resized(record, name, size, new)
    return record


def _gates(name: str, size: int, units: int) -> bool:
    return name == "units" and size % units == 0 and size // units <= MOST_GATES


def _inputs(layer: Layer) -> int | None:
    shape = layer.input_shapes[0] if layer.input_shapes else None
    return shape[-1] if shape else None
