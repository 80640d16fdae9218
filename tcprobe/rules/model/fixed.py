"""Sizes that nobody may change here: what follows a layer, or what it multiplies, sets them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tcprobe.keras.catalogue import class_of
from tcprobe.rules.model.links import Linked
from tcprobe.rules.model.sizes import FEATURES, INPUTS, OUTPUTS, Dimension, LayerSizes
from tcprobe.schema.finding_kinds import LinkReason, WhyKind
from tcprobe.schema.model import FixedBy, Layer
from tcprobe.schema.statement import Statement, say

_SETS: Final[dict[FixedBy, WhyKind]] = {
    "input": "next_input_sets",
    "data": "joined_data_sets",
    "labels": "labels_set",
    "file": "saved_file_sets",
    "package": "package_sets",
}
_RESHAPES: Final[frozenset[LinkReason]] = frozenset({"reshaped", "does_not_follow", "image_channels"})
"""Why a change has no end: numbers behind the layer do not follow it."""


def fixed(sizes: LayerSizes, dimension: Dimension, linked: Linked) -> Statement[WhyKind] | None:
    """Return what sets a size that nothing here may change; None where a layer chooses it, or that is not known.

    Args:
        sizes: of the model.
        dimension: the size.
        linked: a change of it, with all that comes with it.
    """
    if dimension.name == FEATURES and dimension.size in lengths(sizes, dimension.layer):
        return say("length_sets")
    if dimension.name in INPUTS and (between := _between(sizes, dimension)) is not None:
        return say(between)
    if linked.reason is not None and linked.reason.kind in _RESHAPES:
        return say("reshape_sets")
    if dimension.name in INPUTS and not sizes.feeds.get(dimension.layer) and _fed_unseen(sizes, dimension.layer):
        return say("feed_sets")
    changed = dict.fromkeys(change.layer for change in linked.changes if change.dimension in OUTPUTS)
    return next((why for layer in changed if (why := _fixed_output(sizes, layer)) is not None), None)


def lengths(sizes: LayerSizes, layer: str) -> frozenset[int]:
    """Return how many rows the operands have that a layer or op multiplies without weights, as raw attention does.

    Rows are samples or positions: their number is the data's. Nothing for an op on weights, whose rows are features.
    """
    records = [sizes.model.products[index].record for index in sizes.by_layer.get(layer, ())]
    if any(record.pass_ == "wgrad" for record in records):
        return frozenset()
    forward = [record for record in records if record.pass_ in (None, "forward")]
    shapes = [shape for record in forward for shape in record.input_shapes[:2] if shape is not None and len(shape) > 2]
    return frozenset(size for shape in shapes for size in shape[:-1] if size is not None)


def _between(sizes: LayerSizes, dimension: Dimension) -> WhyKind | None:
    """Return what makes another size of what a layer takes than the layers put out that feed it; None for the same."""
    outputs = [sizes.output(name) for name in sizes.feeds.get(dimension.layer, ())]
    known = [output.size for output in outputs if output is not None]
    if (
        not known
        or len(known) < len(outputs)
        or any(dimension.size % size == 0 or size % dimension.size == 0 for size in known)
    ):
        return None
    return "joined_data_sets" if dimension.size > sum(known) else "reshape_sets"


def _fed_unseen(sizes: LayerSizes, name: str) -> bool:
    """Return whether a layer takes what other layers make that are not seen."""
    layer = sizes.layers.get(name)
    return layer is not None and layer.is_first is False


def _fixed_output(sizes: LayerSizes, name: str) -> Statement[WhyKind] | None:
    """Return what sets the features that a layer puts out."""
    for layer in _handing_on(sizes, name):
        if layer.fixed_by is not None:
            return say(_SETS[layer.fixed_by])
        if layer.is_last and not sizes.takers.get(layer.name):
            return say("labels_set")
    return None


def _handing_on(sizes: LayerSizes, name: str) -> Iterator[Layer]:
    """Yield a layer and those behind it that hand its features on, whole, in another shape or with others."""
    queue = [layer for layer in (sizes.layers.get(name),) if layer is not None]
    seen = {name}
    for layer in queue:
        yield layer
        after = [taker for taker in sizes.takers.get(layer.name, ()) if taker.name not in seen]
        seen.update(taker.name for taker in after)
        queue += _keeping(after)


def _keeping(layers: Iterable[Layer]) -> list[Layer]:
    return [layer for layer in layers if class_of(layer.kind).hands_on]
