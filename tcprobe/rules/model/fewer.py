"""Sizes a little smaller, and which of them run faster by more than their share of the work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tcprobe.rules.model.known_gpu import idle
from tcprobe.rules.model.links import Linked, LinkedChange
from tcprobe.rules.model.sizes import Dimension
from tcprobe.rules.model.step import Step, total_range
from tcprobe.schema.finding import Range

MOST_FEWER: Final = 0.03  # of a size: a larger change makes it another model
LEAST_GAIN_PCT: Final = 1.0  # of the step, beyond what the smaller size saves by doing less work
NOTICED_PCT: Final = 0.5  # of the step: a smaller product is not worth a finding
SMALLEST_TILED: Final = 128  # a smaller size is less than one tile
SIZE_STEPS: Final = (256, 128, 64, 32)


@dataclass(frozen=True, slots=True)
class Smaller:
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


def fits(linked: Linked, size: int) -> bool:
    """Return whether a change to a size is possible, and leaves every size that changes with it a multiple of 8."""
    return linked.reason is None and linked.changes[0].new == size and all(c.new % 8 == 0 for c in linked.changes)


def net_gain(step: Step, changes: Iterable[LinkedChange]) -> Range:
    """Return what changes save beyond what they save by doing less work, in ns a step."""
    parts = []
    for change in changes:
        for index in step.touched(change):
            if share_pct_of(step, index) < NOTICED_PCT:
                continue
            gained = step.gain(index, (change,))
            if gained is not None:
                parts.append(beyond(step, index, gained, 1 - change.new / change.old))
    return total_range(parts) or Range(0.0, 0.0, 0.0)


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
