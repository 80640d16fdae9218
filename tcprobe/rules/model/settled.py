"""Suggested sizes that no rule would change again once they are made: sizes a little smaller may run faster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.rules.model.bad import Bad, bad_sizes, with_parts
from tcprobe.rules.model.links import Linked, fixed
from tcprobe.rules.model.sizes import INPUTS, Dimension, LinkedChange, units_of
from tcprobe.rules.model.step import Step, added, idle
from tcprobe.schema.finding import Range

MOST_ROUNDS: Final = 3
MOST_FEWER: Final = 0.03  # of a size: a larger change makes it another model
LEAST_GAIN_PCT: Final = 1.0  # of the step, beyond what the smaller size saves by doing less work
NOTICED_PCT: Final = 0.5  # of the step: a smaller product is not worth a finding
SMALLEST_TILED: Final = 128  # a smaller size is less than one tile
SIZE_STEPS: Final = (256, 128, 64, 32)
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
    open_ = [bad for bad in found if bad.code == "TC101" and bad.suggested and _may_shrink(step, bad)]
    if not any(smaller_sizes(bad.suggested or 0) for bad in open_):
        return tuple(found)
    chosen = [bad.linked for bad in found if bad.linked and bad.dimension.name not in INPUTS]  # not what the data sets
    changes = step.links.settled(tuple(c for linked in chosen for c in linked.changes))
    made: Made = {change.key: change for change in changes}
    after = with_changes(step, changes)
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


def with_changes(step: Step, changes: tuple[LinkedChange, ...]) -> Step:
    """Return the step with all changes made."""
    products = list(step.model.products)
    for index, record in step.records_after(changes).items():
        products[index] = replace(products[index], record=record)
    return Step(replace(step.model, products=tuple(products)), step.gpu, step.dtype)


def _smaller(step: Step, after: Step, made: Made, bad: Bad) -> Linked | None:
    """Return the change to a smaller size that would be advised behind the suggested one; None where none would."""
    dimension, suggested = bad.dimension, bad.suggested or 0
    if not matters(after, dimension.products):
        return None
    links = fitting(step, dimension, suggested)
    smaller = (Smaller(size, net_gain(after, _behind(linked.changes, made))) for size, linked in links.items())
    best = worth(after, smaller)
    return None if best is None else links[best.size]


def _behind(changes: Iterable[LinkedChange], made: Made) -> list[LinkedChange]:
    """Return changes as they are where others are made already."""
    pairs = [(change, made.get(change.key)) for change in changes]
    return [replace(change, old=known.new) for change, known in pairs if known is not None and known.new != change.new]


class Smaller(Struct, frozen=True):
    """A smaller size, and what it saves per step beyond its share of the work."""

    size: int
    net: Range


def is_choice(step: Step, dimension: Dimension) -> bool:
    """Return whether a size is what a layer puts out and no output of the model."""
    layer = step.sizes.layers.get(dimension.layer)
    if layer is None or layer.is_last or dimension.name not in ("units", "filters"):
        return False
    own = step.sizes.output(dimension.layer) == dimension
    return own and idle(step.gpu, step.dtype_of(dimension.products[0])) is None


def matters(step: Step, products: Iterable[int]) -> bool:
    """Return whether products take enough of the step for one of their sizes to count."""
    return sum(share_pct_of(step, index) for index in products) >= LEAST_GAIN_PCT


def share_pct_of(step: Step, index: int) -> float:
    """Return the share of the step, in percent, of one product."""
    cost = step.costs[index]
    spent = cost.timed_ns * step.model.products[index].calls if cost is not None else 0.0
    return 100.0 * spent / step.ns.mid if step.ns and step.ns.mid > 0 else 0.0


def smaller_sizes(size: int) -> list[int]:
    """Return the whole multiples of tiles just below a size."""
    if size <= SMALLEST_TILED:
        return []
    found = {size // step * step for step in SIZE_STEPS}
    return sorted(new for new in found if 0 < size - new <= MOST_FEWER * size)


def fitting(step: Step, dimension: Dimension, below: int) -> dict[int, Linked]:
    """Return the change to each size just below one that is possible and leaves all it changes multiples of 8."""
    links = {size: step.link(dimension.resized(size)) for size in smaller_sizes(below)}
    return {
        size: linked
        for size, linked in links.items()
        if linked.reason is None
        and linked.changes[0].new == size
        and all(c.new % 8 == 0 for c in linked.changes)
        and fixed(step.sizes, dimension, linked) is None
    }


def net_gain(step: Step, changes: Iterable[LinkedChange]) -> Range:
    """Return what changes save beyond what they save by doing less work, in ns a step."""
    parts = []
    for change in changes:
        for index in step.touched(change):
            if share_pct_of(step, index) < NOTICED_PCT:
                continue
            gained = step.gain(index, (change,))
            if gained is not None:
                parts.append(beyond(step, index, gained, _fewer(step, index, change)))
    return added(parts)


def _fewer(step: Step, index: int, change: LinkedChange) -> float:
    """Return the part of a product's work that a change removes: of a state's product with itself twice its own."""
    records = step.model.products[index].record, step.records_after((change,))[index]
    before, after = (flops_of(gemms_of(record)) for record in records)
    return 1 - (after / before if before and after is not None else change.new / change.old)


def beyond(step: Step, index: int, gained: Range, fewer: float) -> Range:
    """Return a gain minus the product's time in proportion to the work that the change removes."""
    cost = step.costs[index]
    share = cost.ns * step.model.products[index].calls * fewer if cost is not None else 0.0
    return Range(gained.low - share, gained.mid - share, gained.high - share)


def worth(step: Step, found: Iterable[Smaller]) -> Smaller | None:
    """Return the one that saves most, if even the low end of its saving is a gain and its likely saving is enough."""
    best = max(found, key=lambda smaller: smaller.net.mid, default=None)
    if best is None or best.net.low <= 0:
        return None
    share = step.share_pct(best.net)
    return best if share is not None and share.mid >= LEAST_GAIN_PCT else None
