"""Which arguments must change together: those that `Step.link` names, in every model that the same calls make.

What lies between those layers must take any number of features by itself; whatever else ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS, LinkedChange, grouped
from tcprobe.schema.finding import Finding, LinkReason, RefusalKind
from tcprobe.schema.model import Layer, Model, Place
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
    from tcprobe.source.source import Source

Read: TypeAlias = "Callable[[Source], list[Model]]"
"""What returns the models that a file constructs."""
FixRefusal: TypeAlias = Statement[RefusalKind | LinkReason]
_INNER: Final = frozenset(name for row in LAYER_CLASSES for name in row.inner if name in row.editable)
"""Sizes inside an attention layer: nothing outside depends on them."""
_INPUT_SHAPES: Final = frozenset(("input_shape", "input_dim", "batch_input_shape"))
_PASSED: Final = frozenset(("elementwise", "kept", "merged", "joined", "scaled"))


class NotCertain(Exception):
    """What must change cannot be told for certain; `why` says why."""

    def __init__(self, why: FixRefusal) -> None:
        super().__init__(why)
        self.why = why


class Want(NamedTuple):
    """An argument that must become another number."""

    place: Place
    argument: str
    old: int
    new: int


class Wants(NamedTuple):
    """Arguments that must change together, and every size that does, also those of what layers take."""

    arguments: dict[Want, None]
    sizes: set[int]


def wants_of(finding: Finding, step: Step, steps: Sequence[Step]) -> Wants:
    """Return what a finding's suggestion changes.

    Args:
        finding: of a size.
        step: of its model.
        steps: of all models that are known, its own among them.

    Raises:
        NotCertain: what depends on the size is unknown.
    """
    dimension, wants = finding.dimension or "", Wants({}, set())
    todo = [(step, LinkedChange(finding.layer or "", dimension, finding.size or 0, finding.suggested or 0))]
    seen: set[tuple[Step, str]] = set()
    for at, change in todo:
        if (at, change.layer) in seen:
            continue
        changes = (change,) if dimension in _INNER else _linked(at, change)
        wants.sizes.update(c.old for c in changes)
        for own in changes:
            layer = at.sizes.layers.get(own.layer)
            if layer is None or own.dimension not in (_output_of(layer), *class_of(layer.kind).inner):
                continue  # it takes what changes, and is built from that
            seen.add((at, layer.name))
            want = _want(layer, own)
            wants.arguments[want] = None
            made = [(other, x) for other in steps for x in _made_at(other).get(want.place, ())]
            if not any(other.model.mode == "source" for other, _ in made):
                raise NotCertain(say("unproven"))  # other code may make layers there as well
            for other, x in made:
                _want(x, own)
                todo.append((other, replace(own, layer=x.name)))
    if not wants.arguments:
        raise NotCertain(say("set_elsewhere"))
    return wants


def _output_of(layer: Layer) -> str | None:
    """Return the argument that sets how many features a layer puts out, where a fix may change it."""
    row = class_of(layer.class_name)
    return row.output if row.output in row.editable else None


def _want(layer: Layer, change: LinkedChange) -> Want:
    """Return the argument of a layer that a change is about."""
    place = layer.arguments.get(change.dimension)
    if place is None or layer.config.get(change.dimension) != change.old:
        raise NotCertain(say("not_literal", argument=change.dimension))
    return Want(place, change.dimension, change.old, change.new)


def _linked(step: Step, change: LinkedChange) -> tuple[LinkedChange, ...]:
    """Return a change with all that must come with it, where everything behind it fits any size or is among these."""
    linked, layers = step.link(change), step.sizes.layers
    if linked.reason is not None:
        raise NotCertain(linked.reason)
    changed = dict.fromkeys(c.layer for c in linked.changes if c.dimension in OUTPUTS and c.layer in layers)
    fed = {c.layer for c in linked.changes if c.dimension in INPUTS}
    todo, reached = list(changed), dict[str, Layer]()
    for name in todo:
        takers = _takers(step).get(name, ())
        if not takers or layers[name].is_last is not False or _takes_state(layers[name]):
            raise NotCertain(say("linked_unknown", layer=name))
        reached.update((taker.name, taker) for taker in takers)
        passing = [taker.name for taker in takers if _output_of(taker) is None and taker.name not in changed]
        todo += passing
        changed.update(dict.fromkeys(passing))
    bad = [taker.name for taker in reached.values() if not _fits(taker, fed, changed)]
    bad += _own_products(step, changed, {c.old for c in linked.changes})
    if bad:
        raise NotCertain(say("linked_unknown", layer=bad[0]))
    return linked.changes


def _fits(taker: Layer, fed: set[str], changed: Iterable[str]) -> bool:
    """Say whether a layer takes what changes and nothing else, and is built from that or hands it on."""
    if taker.is_first is not False or _takes_state(taker) or not _INPUT_SHAPES.isdisjoint(taker.arguments):
        return False
    whole = {*taker.inputs_from, *taker.also_from}.issubset(changed)
    if _output_of(taker) is not None:
        return whole and taker.name in fed
    row = class_of(taker.class_name)
    passes = row.features in _PASSED and row.kind != "statistics" and "groups" not in row.counts
    layers_alone = len(taker.input_shapes) <= len(taker.inputs_from)  # an input of the model is no layer
    return layers_alone and (passes or row.name == "Flatten") and (whole or row.features == "joined")


def _takes_state(layer: Layer) -> bool:
    """Say whether a recurrent layer takes an initial state, whose size is that of its own units."""
    several = len(set(layer.inputs_from)) > 1 or len(layer.input_shapes) > 1 or bool(layer.also_from)
    return class_of(layer.kind).kind == "recurrent" and several


def _own_products(step: Step, changed: Iterable[str], sizes: set[int]) -> list[str]:
    """Return the products of the user's own that may work on what changes: the other operand would have to fit."""
    reached = set(changed)
    own = [op for op, taken, behind in _products(step) if not (sizes.isdisjoint(taken) and reached.isdisjoint(behind))]
    return [*own, *(unknown.name for unknown in step.model.not_judged if unknown.kind == "product")]


@lru_cache(maxsize=16)
def _products(step: Step) -> list[tuple[str, set[int | None], tuple[str, ...]]]:
    """Return op, sizes and layers before it of each product that is no layer's own arithmetic."""
    layers = step.sizes.layers
    return [
        (product.op, {size for shape in product.record.input_shapes for size in shape or ()}, product.inputs_from)
        for product in step.model.products
        if (layer := layers.get(product.layer or "")) is None or class_of(layer.class_name).products == "none"
    ]


@lru_cache(maxsize=16)
def _takers(step: Step) -> dict[str, tuple[Layer, ...]]:
    """Return the layers that take the output of each layer, in whatever call, by its name."""
    layers = step.model.layers
    return grouped((name, x) for x in layers for name in dict.fromkeys((*x.inputs_from, *x.also_from)))


@lru_cache(maxsize=16)
def _made_at(step: Step) -> dict[Place, tuple[Layer, ...]]:
    """Return the layers that each argument in the source is given to, by where it stands."""
    return grouped((place, x) for x in step.model.layers for place in x.arguments.values())
