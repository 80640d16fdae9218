"""Which sizes of a model are one number: a layer's output and the input of what follows.

Sizes that nobody may change here: what follows a layer, or what it multiplies, sets them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.gemm.record import RULE_OF_EIGHT, next_size
from tcprobe.keras.catalogue import class_of
from tcprobe.rules.model.sizes import FEATURES, INPUTS, OUTPUTS, Dimension, LayerSizes, LinkedChange
from tcprobe.schema.finding import LinkReason, WhyKind
from tcprobe.schema.model import FixedBy, Layer
from tcprobe.schema.statement import Statement, say

IMAGE_CHANNELS: Final = 4
"""An image has at most so many channels: they are what it is, not a size to choose."""


class Linked(Struct, frozen=True):
    """Changes that belong together, the asked one first."""

    changes: tuple[LinkedChange, ...]  # at least one
    # why the asked change stands alone though something follows that must fit; None where all is told
    reason: Statement[LinkReason] | None = None


def is_image(dimension: str, size: int) -> bool:
    """Return whether a convolution's filters are an image, of which more may be computed and the first kept."""
    return dimension == "filters" and size <= IMAGE_CHANNELS


class _Untold(Exception):
    """What must change with it cannot be told; ends the search and is never seen outside."""

    def __init__(self, why: Statement[LinkReason]) -> None:
        super().__init__(why)
        self.why = why


class Links:
    """Follows a change of size through a model."""

    def __init__(self, sizes: LayerSizes) -> None:
        self._sizes = sizes

    def follow(self, change: LinkedChange) -> Linked:
        """Return a change with all that must come with it; alone, with the reason, where that cannot be told.

        Filters that are an image change alone: what follows takes the first of them.
        """
        if is_image(change.dimension, change.old):
            return Linked((change,))
        try:
            return Linked(self._follow(change))
        except _Untold as untold:
            return Linked((change,), untold.why)

    def settled(self, changes: tuple[LinkedChange, ...]) -> tuple[LinkedChange, ...]:
        """Return changes with one new size for each dimension.

        What a layer takes from several joined ones follows from all of their changes; any other dimension that is
        asked to be of two sizes becomes the larger.
        """
        found: dict[tuple[str, str, int], LinkedChange] = {}
        for change in changes:
            if change.new > found.setdefault(change.key, change).new:
                found[change.key] = change
        return tuple(self._joined(change, found) for change in found.values())

    def _joined(self, change: LinkedChange, found: dict[tuple[str, str, int], LinkedChange]) -> LinkedChange:
        if change.dimension not in INPUTS:
            return change
        sources = [s for name in self._sizes.feeds.get(change.layer, ()) if (s := self._sizes.output(name))]
        if len(sources) < 2 or sum(s.size for s in sources) != change.old:
            return change
        now = [found.get((s.layer, s.name, s.size)) for s in sources]
        more = sum(made.new - made.old for made in now if made is not None)
        return replace(change, new=change.old + more) if more else change

    def _follow(self, change: LinkedChange) -> tuple[LinkedChange, ...]:
        if change.dimension in INPUTS and len({s.size for s in self._outputs(change.layer)} - {change.old}) > 1:
            raise _Untold(say("feeder_open", layer=change.layer))
        found: dict[tuple[str, str], LinkedChange] = {}
        queue = deque([self._through_reshape(change)])
        while queue:
            step = queue.popleft()
            known = found.setdefault((step.layer, step.dimension), step)
            if known.new != step.new:
                raise _Untold(say("two_sizes", layer=step.layer))
            if known is step:
                queue.extend(self._next(step))
        return tuple(found.values())

    def _through_reshape(self, change: LinkedChange) -> LinkedChange:
        """Round units that become k x channels up to a whole multiple of k: 3087 = 49 x 63 becomes 49 x 64."""
        if change.dimension not in OUTPUTS:
            return change
        for taker in self._takers(change.layer):
            count, rest = divmod(change.old, taker.size)
            if rest == 0 and count > 1 and change.new % count and taker.size > IMAGE_CHANNELS:
                return replace(change, new=count * next_size(taker.size, RULE_OF_EIGHT))
        return change

    def _takers(self, layer: str) -> list[Dimension]:
        return [d for name in self._sizes.consumers.get(layer, ()) if (d := self._sizes.input(name)) is not None]

    def _next(self, change: LinkedChange) -> list[LinkedChange]:
        if change.dimension in OUTPUTS:
            self._refuse_reshape(change)
            return [c for name in self._sizes.consumers.get(change.layer, ()) for c in self._taker(change, name)]
        return self._producers(change) if change.dimension in INPUTS else []

    def _taker(self, change: LinkedChange, name: str) -> list[LinkedChange]:
        """Return what a change of a layer's output asks of one layer that takes it, and of what is added to it."""
        taken = self._sizes.input(name)
        if taken is None:
            raise _Untold(say("input_unknown", layer=name))
        self._refuse_groups(name)
        sources = self._outputs(name)
        if len(sources) == 1:
            more = change.new - change.old if _is_joined(taken.size, change.old) else None
            return [taken.resized(_scaled(taken.size, change) if more is None else taken.size + more)]
        sizes = {source.size for source in sources}
        whole = sum(source.size for source in sources)
        if sizes == {taken.size}:  # added up: all that is summed has one size
            sums = [s.resized(change.new) for s in sources if s.layer != change.layer]
            return [*sums, taken.resized(change.new)]
        if taken.size == whole:
            return [taken.resized(taken.size + change.new - change.old)]
        raise _Untold(say("join_unknown", layer=name))

    def _refuse_groups(self, name: str) -> None:
        if self._sizes.groups(name) > 1:
            raise _Untold(say("grouped", layer=name))

    def _refuse_reshape(self, change: LinkedChange) -> None:
        """Refuse a size that a reshape behind the layer cannot take: 784 become (28, 28, 1), and 768 do not."""
        takers = (taker for layer in self._sizes.tail(change.layer) for taker in self._sizes.takers.get(layer.name, ()))
        for layer in takers:
            target = layer.config.get("target_shape") if layer.kind == "Reshape" else None
            if not isinstance(target, tuple | list) or not target:
                continue
            if not all(isinstance(size, int) and size > 0 for size in target):
                continue
            rows = math.prod(target[:-1])
            if rows * target[-1] == change.old and (change.new % rows or target[-1] <= IMAGE_CHANNELS):
                raise _Untold(say("reshaped", layer=layer.name, shape=tuple(target)))

    def _outputs(self, name: str) -> list[Dimension]:
        found = [(source, self._sizes.output(source)) for source in self._sizes.feeds.get(name, ())]
        for source, size in found:
            self._refuse_groups(source)
            if size is None:
                raise _Untold(say("output_unknown", layer=source))
        return [size for _, size in found if size is not None]

    def _producers(self, change: LinkedChange) -> list[LinkedChange]:
        """Return what a change of what a layer takes asks of the layers that feed it."""
        sources = self._outputs(change.layer)
        if not sources:
            return []
        if len(sources) > 1 and {s.size for s in sources} != {change.old}:
            return []  # reached from the one among several that changed: the others stay
        if len(sources) == 1 and _is_joined(change.old, sources[0].size):
            return []  # likewise from the one layer that is joined with data
        return [s.resized(_scaled(s.size, change)) for s in sources]


def _is_joined(whole: int, part: int) -> bool:
    """Return whether what a layer takes holds more than the features of the one layer that feeds it, unscaled."""
    return whole > part and whole % part != 0


def _scaled(size: int, change: LinkedChange) -> int:
    """Return a size that was the changed one, k times it or a k-th of it, after the change."""
    if size % change.old == 0:
        return size // change.old * change.new
    count, rest = divmod(change.old, size)
    if rest or change.new % count:
        raise _Untold(say("does_not_follow", size=size, of=change.old))
    if size <= IMAGE_CHANNELS:
        raise _Untold(say("image_channels", channels=size))
    return change.new // count


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
