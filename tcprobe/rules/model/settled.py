"""Suggested sizes that no rule would change again once they are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from tcprobe.rules.model.bad import Bad, bad_sizes, with_parts
from tcprobe.rules.model.fewer import Smaller, fits, is_choice, matters, net_gain, smaller_sizes, worth
from tcprobe.rules.model.links import Linked, LinkedChange
from tcprobe.rules.model.recurrent import units_of
from tcprobe.rules.model.sizes import INPUTS
from tcprobe.rules.model.step import Step

MOST_ROUNDS: Final = 3
Made: TypeAlias = Mapping[tuple[str, str, int], LinkedChange]


@lru_cache(maxsize=4)
def settled_sizes(step: Step) -> tuple[Bad, ...]:
    """Return the sizes that break the rule of 8, as `bad_sizes` does, suggesting what lasts.

    The next multiple of 8 may lie just past a tile, where a slightly smaller size runs notably faster (2049: 2056, and
    then 2048). Then that is suggested at once: the step is taken as it is with all suggestions made, and looked at
    again.
    """
    found = bad_sizes(step)
    for _ in range(MOST_ROUNDS):
        better = _once(step, found)
        if better == found:
            break
        found = better
    return found


def _once(step: Step, found: Sequence[Bad]) -> tuple[Bad, ...]:
    open_ = [bad for bad in found if bad.code == "TC101" and (bad.suggested or 0) > 0 and _may_shrink(step, bad)]
    if not any(smaller_sizes(bad.suggested or 0) for bad in open_):
        return tuple(found)
    chosen = [bad.linked for bad in found if bad.linked and bad.dimension.name not in INPUTS]  # not what the data sets
    changes = step.links.settled(tuple(c for linked in chosen for c in linked.changes))
    made: Made = {(c.layer, c.dimension, c.old): c for c in changes}
    after = _after(step, changes)
    links = {id(bad): _smaller(step, after, made, bad) for bad in open_}
    if not any(links.values()):
        return tuple(found)
    return tuple(with_parts(step, [replace(bad, linked=links.get(id(bad)) or bad.linked) for bad in found]))


def _may_shrink(step: Step, bad: Bad) -> bool:
    """Return whether a size may become smaller than suggested: what a layer puts out, unless an image or a state.

    Not where its products were measured: what is timed of the tile's size then is a prediction.
    """
    layer = step.sizes.layers.get(bad.dimension.layer)
    told = bad.linked is not None and bad.linked.reason is None and not bad.is_image and bad.recorded_ns is None
    return told and units_of(layer) is None and is_choice(step, bad.dimension)


def _after(step: Step, changes: tuple[LinkedChange, ...]) -> Step:
    """Return the step with all changes made."""
    products = [replace(p, record=step.changed(i, changes)) for i, p in enumerate(step.model.products)]
    return Step(replace(step.model, products=tuple(products)), step.gpu, step.dtype)


def _smaller(step: Step, after: Step, made: Made, bad: Bad) -> Linked | None:
    """Return the change to a smaller size that would be advised behind the suggested one; None where none would."""
    dimension, suggested = bad.dimension, bad.suggested or 0
    if not matters(after, dimension.products):
        return None
    links: dict[int, Linked] = {}
    found: list[Smaller] = []
    for size in smaller_sizes(suggested):
        linked = step.link(dimension.layer, dimension.name, dimension.size, size)
        if fits(linked, size):
            links[size] = linked
            found.append(Smaller(size, net_gain(after, _behind(linked.changes, made))))
    best = worth(after, found)
    return None if best is None else links[best.size]


def _behind(changes: Iterable[LinkedChange], made: Made) -> list[LinkedChange]:
    """Return changes as they are where others are made already."""
    pairs = [(change, made.get((change.layer, change.dimension, change.old))) for change in changes]
    return [replace(change, old=known.new) for change, known in pairs if known is not None and known.new != change.new]
