"""Which arguments of which layers must change with a size, so that the model still fits together.

`Step.link` tells the layers that multiply; here the layers between them are followed too (a Reshape names its sizes,
both sides of an Add have one), and whatever is not understood ends the search: no fix rather than a wrong one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tcprobe.audit.fix.graph import Graph
from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.keras.settings import size_of
from tcprobe.rules.model.sizes import OUTPUTS
from tcprobe.schema.finding import Finding
from tcprobe.schema.finding_kinds import LinkReason, RefusalKind
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step

INNER: Final = frozenset(name for row in LAYER_CLASSES for name in row.inner if name in row.editable)
"""Sizes inside an attention layer: nothing outside depends on them."""
_INPUT_SHAPES: Final = ("input_shape", "input_dim", "batch_input_shape")
FixRefusal: TypeAlias = Statement[RefusalKind | LinkReason]


def output_of(layer: Layer) -> str | None:
    """Return the argument that sets how many features a layer puts out, where a fix may change it.

    Its input adapts by itself when it is built.
    """
    row = class_of(layer.kind)
    return row.output if row.output in row.editable else None


def _keeps(layer: Layer) -> bool:
    """Say whether a layer puts out as many features as it takes, whatever their number.

    An attention layer puts out as many as its query has, unless it is told otherwise. One with groups, or with
    statistics of its data, may not fit another number.
    """
    row = class_of(layer.kind)
    whatever = not row.counts and row.kind != "statistics"
    return bool(row.inner) or (whatever and row.features in ("elementwise", "kept"))


def _adds(layer: Layer) -> bool:
    """Say whether all that a layer takes, and what it puts out, has one number of features."""
    return class_of(layer.kind).features == "merged"


def _multiplies(layer: Layer) -> bool:
    """Say whether a layer makes some features of each that it takes, as a depthwise convolution does."""
    return class_of(layer.kind).features == "scaled"


def _joins(layer: Layer) -> bool:
    """Say whether a layer puts side by side what it takes: it has no size of its own."""
    row = class_of(layer.kind)
    return row.features == "joined" or (row.features == "reshaped" and not row.editable)


def _understood(layer: Layer) -> bool:
    known = class_of(layer.kind).kind == "einsum" or output_of(layer) is not None
    return known or _keeps(layer) or _adds(layer) or _multiplies(layer) or _joins(layer)


@dataclass(frozen=True, slots=True, order=True)
class WantedSize:
    """An argument of a layer, or one element of it, that must become another number.

    Attributes:
        layer: name of the layer.
        argument: Keras' name of it.
        index: which element of a tuple; None where the argument is a number.
        old, new: the number as it is, and as it must be.
    """

    layer: str
    argument: str
    index: int | None
    old: int
    new: int


class NotCertain(Exception):
    """What must change cannot be told for certain; `why` says why."""

    def __init__(self, why: FixRefusal) -> None:
        super().__init__(why)
        self.why = why


def wanted_by(finding: Finding, model: Model, step: Step) -> frozenset[WantedSize]:
    """Return every argument that a finding's suggestion changes.

    Raises:
        NotCertain: a layer, or what it is connected to, is unknown, or the sizes do not work out.
    """
    if finding.layer is None or finding.dimension is None or finding.size is None or finding.suggested is None:
        raise NotCertain(say("no_size_named"))
    layer = model.layer(finding.layer)
    if layer is None:
        raise NotCertain(say("layer_unknown"))
    if finding.dimension in INNER:
        return frozenset([WantedSize(layer.name, finding.dimension, None, finding.size, finding.suggested)])
    linked = step.link(finding.layer, finding.dimension, finding.size, finding.suggested)
    if linked.reason is not None:
        raise NotCertain(linked.reason)
    outputs = [c for c in linked.changes if model.layer(c.layer) and c.dimension in OUTPUTS]
    if not outputs:
        raise NotCertain(say("set_by_no_layer"))
    return follow_changes(((c.layer, c.old, c.new) for c in outputs), step)


def follow_changes(changes: Iterable[tuple[str, int, int]], step: Step) -> frozenset[WantedSize]:
    """Return every argument that must change where layers put out other features: (name, old, new) each.

    Raises:
        NotCertain: as `wanted_by`.
    """
    return _Search(step).run(changes)


@lru_cache(maxsize=16)
def _graph_of(step: Step) -> Graph:
    return Graph(step.model, _understood)


class _Search:
    """One change of features, followed through the graph of layers in both directions."""

    def __init__(self, step: Step) -> None:
        graph = _graph_of(step)
        self._graph, self._layers, self._takers = graph, graph.layers, graph.takers
        self._feeds = step.sizes.feeds
        self._changed: dict[str, tuple[int, int]] = {}
        self._seen: set[str] = set()
        self._wanted: set[WantedSize] = set()
        self._queue: deque[tuple[Layer, int, int]] = deque()
        self._adapted: dict[str, tuple[int, int]] = {}

    def run(self, changes: Iterable[tuple[str, int, int]]) -> frozenset[WantedSize]:
        for name, old, new in changes:
            self._change(name, old, new)
        while self._queue:
            layer, old, new = self._queue.popleft()
            self._make(layer, old, new)
            self._tell(layer, old, new)
        self._check_joins()
        self._check_shared()
        self._check_products()
        return frozenset(self._wanted)

    def _change(self, name: str, old: int, new: int) -> None:
        """Note that a layer puts out another number of features."""
        if (old, new) != self._changed.setdefault(name, (old, new)):
            raise NotCertain(say("two_sizes", layer=name))
        layer = self._layers.get(name)
        if layer is None:
            raise NotCertain(say("named_layer_unknown", layer=name))
        if name not in self._seen:
            self._seen.add(name)
            self._queue.append((layer, old, new))

    def _want(self, layer: Layer, argument: str, index: int | None, old: int, new: int) -> None:
        """Ask for an argument; every layer that the same place in the source makes changes with it."""
        self._wanted.add(WantedSize(layer.name, argument, index, old, new))
        place = layer.arguments.get(argument)
        for other in self._graph.made_at.get((argument, place), ()) if place is not None else ():
            if other is not layer and _has(other, argument, index, old):
                self._change(other.name, old, new)

    def _make(self, layer: Layer, old: int, new: int) -> None:
        """Ask for what makes a layer put out `new` features."""
        own = output_of(layer)
        if _takes_state(layer):
            raise NotCertain(say("takes_state", layer=layer.name))
        if own is not None:
            self._argument(layer, own, old, new)
        elif layer.kind == "Reshape":
            self._reshape(layer, old, new)
        elif _keeps(layer) or _adds(layer):
            if layer.config.get("output_shape") is not None:
                raise NotCertain(say("output_told", layer=layer.name))
            if _adds(layer) and len(layer.input_shapes) > len(layer.inputs_from):  # an input of the model is added too
                raise NotCertain(say("source_unknown", layer=layer.name))
            for source in self._sources(layer):
                self._change(source, old, new)
        elif _multiplies(layer):
            times = layer.config.get("depth_multiplier", 1)
            self._change(self._only_source(layer), _part(old, times), _part(new, times))
        elif not _joins(layer):  # these follow their inputs; `_check_joins` looks at them in the end
            raise NotCertain(say("class_unknown", class_name=layer.class_name))

    def _argument(self, layer: Layer, name: str, old: int, new: int) -> None:
        if layer.config.get(name, old) != old:
            raise NotCertain(say("other_number", argument=name, layer=layer.name, size=old))
        groups = layer.config.get("groups", 1)
        if not isinstance(groups, int) or groups < 1 or new % groups:
            raise NotCertain(say("own_groups", size=new, argument=name))
        self._want(layer, name, None, old, new)

    def _reshape(self, layer: Layer, old: int, new: int) -> None:
        """Change the last element of a target, and what comes in."""
        target = _sizes(layer.config.get("target_shape"))
        if not target or target[-1] not in (old, -1):
            raise NotCertain(say("target_unknown", layer=layer.name))
        source = self._only_source(layer)
        taken = self._features(source)
        if math.prod(target[:-1]) * old != taken and -1 not in target:
            raise NotCertain(say("more_than_features", layer=layer.name))
        if target[-1] != -1:
            self._want(layer, "target_shape", len(target) - 1, old, new)
        if -1 not in target or taken % old == 0:
            self._change(source, taken, _part(taken * new, old))

    def _tell(self, layer: Layer, old: int, new: int) -> None:
        """Follow the changed features of a layer to what takes them."""
        takers = self._takers.get(layer.name, [])
        if layer.is_last is not False or not takers:
            raise NotCertain(say("taker_unknown", layer=layer.name))
        for taker in takers:
            if not self._is_whole(taker) and not self._is_part(taker):
                self._take(taker, layer, old, new)

    def _is_whole(self, taker: Layer) -> bool:
        """Say whether a layer of the user's only hands what it takes to its parts, which are asked themselves."""
        if _keeps(taker) or output_of(taker) is not None or _adds(taker):
            return False
        parts = any(
            layer.name.startswith(f"{taker.name}/") for name in taker.inputs_from[:1] for layer in self._takers[name]
        )
        return taker.name not in self._graph.fed and parts and not taker.is_last

    def _is_part(self, taker: Layer) -> bool:
        """Say whether a layer belongs to an attention layer, which answers for it."""
        whole = self._layers.get(taker.name.rpartition("/")[0])
        return whole is not None and bool(class_of(whole.kind).inner)

    def _take(self, taker: Layer, layer: Layer, old: int, new: int) -> None:
        if _keeps(taker) or _adds(taker):
            self._change(taker.name, old, new)
        elif output_of(taker) is not None:
            self._fed(taker, layer)
            self._adapt(taker, old, new)
        elif taker.kind == "Reshape":
            self._reshaped(taker, old, new)
        elif taker.kind == "Flatten":
            whole = self._features(taker.name)
            self._change(taker.name, whole, _part(whole * new, old))
        elif _multiplies(taker) and (times := size_of(taker.config, "depth_multiplier", 1)):
            self._change(taker.name, old * times, new * times)
        elif taker.kind == "Concatenate" and _last_axis(taker):
            whole = self._features(taker.name)
            self._change(taker.name, whole, whole + new - old)
        else:
            raise NotCertain(say("class_unknown", class_name=taker.class_name))

    def _fed(self, taker: Layer, layer: Layer) -> None:
        """See that features arrive as features: a query of the user's own attention does not, and has a partner."""
        if not self._origins(layer.name) <= set(self._feeds.get(taker.name, ())):
            raise NotCertain(say("way_unknown", layer=layer.name, taker=taker.name))

    def _origins(self, name: str) -> set[str]:
        """Return the layers that set the features that a layer puts out."""
        found, seen, todo = set(), {name}, [name]
        while todo:
            here = todo.pop()
            layer = self._layers.get(here)
            if layer is None or output_of(layer) is not None or not layer.inputs_from:
                found.add(here)
                continue
            todo.extend(source for source in layer.inputs_from if source not in seen)
            seen.update(layer.inputs_from)
        return found

    def _check_products(self) -> None:
        """See that no product of the user's own works on what changes: its other operand would have to fit."""
        own = self._graph.own_products
        touched = min(
            (own[name] for name in self._changed.keys() & own.keys()), default=None, key=lambda found: found[0]
        )
        if touched is not None:
            raise NotCertain(say("product_of_changed", op=touched[1]))

    def _adapt(self, taker: Layer, old: int, new: int) -> None:
        """Ask of a layer that builds itself from its input only what it was told of it by hand."""
        if _takes_state(taker):
            raise NotCertain(say("takes_state", layer=taker.name))
        self._adapted[taker.name] = (old, new)
        groups = taker.config.get("groups", 1)
        if not isinstance(groups, int) or groups < 1 or new % groups:
            raise NotCertain(say("taker_groups", channels=new, layer=taker.name))
        for name in _INPUT_SHAPES:
            if name in taker.arguments:
                self._wanted.add(WantedSize(taker.name, name, None if name == "input_dim" else -1, old, new))

    def _reshaped(self, taker: Layer, old: int, new: int) -> None:
        target = _sizes(taker.config.get("target_shape"))
        if not target:
            raise NotCertain(say("target_unknown", layer=taker.name))
        if -1 in target:
            raise NotCertain(say("layer_makes_unknown", layer=taker.name))
        inner = _part(target[-1] * new, old)
        if math.prod(target) != old or inner <= 0:
            raise NotCertain(say("more_than_features", layer=taker.name))
        self._change(taker.name, target[-1], inner)

    def _check_joins(self) -> None:
        """See that what follows its inputs changes as they do."""
        for name, (old, new) in self._changed.items():
            layer = self._layers[name]
            if _joins(layer):
                before = [self._features(source) for source in layer.inputs_from]
                after = [
                    self._changed.get(source, (0, size))[1]
                    for source, size in zip(layer.inputs_from, before, strict=True)
                ]
                if not sum(before) or old * sum(after) != new * sum(before):
                    raise NotCertain(say("would_not_fit", layer=name))

    def _check_shared(self) -> None:
        """See that all that a layer takes, in whatever call, changes as one: it has one kernel for all of it."""
        for name, change in self._adapted.items():
            layer = self._layers[name]
            products = self._graph.forward.get(name, ())
            kept = layer.calls > 1 and any(self._changed.keys().isdisjoint(p.inputs_from) for p in products)
            if kept or any(self._changed.get(source) != change for source in layer.also_from):
                raise NotCertain(say("several_inputs", layer=name))

    def _sources(self, layer: Layer) -> tuple[str, ...]:
        if not layer.inputs_from or layer.is_first is not False:
            raise NotCertain(say("source_unknown", layer=layer.name))
        return layer.inputs_from

    def _only_source(self, layer: Layer) -> str:
        sources = set(self._sources(layer))
        if len(sources) != 1:
            raise NotCertain(say("several_inputs", layer=layer.name))
        return sources.pop()

    def _features(self, name: str) -> int:
        """Return how many features a layer puts out."""
        layer = self._layers.get(name)
        shape = layer.output_shape if layer else None
        size = shape[-1] if shape else None
        if layer is not None and size is None:
            size = layer.config.get(output_of(layer) or "")
        if not isinstance(size, int):
            raise NotCertain(say("output_unknown", layer=name))
        return size


def _takes_state(layer: Layer) -> bool:
    """Say whether a recurrent layer takes an initial state, whose size is that of its own units."""
    several = len(set(layer.inputs_from)) > 1 or len(layer.input_shapes) > 1 or bool(layer.also_from)
    return class_of(layer.kind).kind == "recurrent" and several


def _has(layer: Layer, argument: str, index: int | None, size: int) -> bool:
    """Say whether an argument of a layer is, or may be, a size: in a loop each layer has its own."""
    value = layer.config.get(argument, size)
    if index is not None:
        value = value[index] if isinstance(value, list | tuple) and -len(value) <= index < len(value) else size
    return bool(value == size)


def _sizes(value: Any) -> tuple[int, ...]:
    """Return a shape from a layer's settings; nothing where it is none."""
    items = tuple(value) if isinstance(value, list | tuple) else ()
    return items if all(isinstance(i, int) for i in items) else ()


def _part(whole: int, of: Any) -> int:
    if not isinstance(of, int) or of <= 0 or whole % of:
        raise NotCertain(say("no_multiple", size=whole, of=of))
    return whole // of


def _last_axis(layer: Layer) -> bool:
    rank = len(layer.output_shape or ())
    return layer.config.get("axis", -1) in (-1, rank - 1 if rank else -1)
