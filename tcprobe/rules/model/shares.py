"""What each suggestion saves, where several change the same products."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.rules.model.links import Linked, LinkedChange
from tcprobe.rules.model.step import Gain, Step, added
from tcprobe.schema.finding import Range
from tcprobe.schema.model import Product


@dataclass(frozen=True, slots=True)
class Saved:
    """What one suggestion saves.

    Attributes:
        ns: of a step.
        recorded_ns: the likely part of the time recorded on all GPUs, where every product was measured; else None, and
            `ns` is predicted.
    """

    ns: Range
    recorded_ns: float | None = None


def shared_out(step: Step, links: list[Linked]) -> dict[Linked, Saved]:
    """Share out what all changes together save among the suggestions that ask for them.

    Two bad sizes of one product hide one another: mending one alone saves little. Each gets the mean of what it saves
    alone and of what it saves as the last one, which for two is their Shapley value and sums up to the whole.
    """
    changes = step.links.settled(tuple(change for linked in links for change in linked.changes))
    owners: dict[tuple[str, str, int], list[Linked]] = {}
    for linked in dict.fromkeys(links):
        for change in linked.changes:
            owners.setdefault((change.layer, change.dimension, change.old), []).append(linked)
    touching: dict[int, list[LinkedChange]] = {}
    for change in changes:
        for index in step.touched(change):
            touching.setdefault(index, []).append(change)
    shares: dict[Linked, list[_Share]] = {}
    for change in changes:
        holders = owners[change.layer, change.dimension, change.old]
        for index in step.touched(change):
            beside = tuple(other for other in touching[index] if other != change)
            for holder in holders:
                shares.setdefault(holder, []).append(_Share(index, change, beside, 1 / len(holders)))
    return {linked: saved for linked, parts in shares.items() if (saved := _saved(step, parts)) is not None}


@dataclass(frozen=True, slots=True)
class _Share:
    """A change at one product, with the other changes there; `part` of it, as several suggestions may ask for it."""

    index: int
    change: LinkedChange
    beside: tuple[LinkedChange, ...]
    part: float

    def of(self, gain: Gain) -> Range | None:
        """Return the mean of a gain by the change alone and by it as the last one; None where it is unknown."""
        alone = gain(self.index, (self.change,), ())
        last = gain(self.index, (self.change,), self.beside) if self.beside else alone
        return None if alone is None or last is None else added((alone, last)).scaled(self.part / 2)


def _saved(step: Step, shares: list[_Share]) -> Saved | None:
    """Return what a suggestion saves: as predicted, or in shares of measured times where it has all of these."""
    told = [(share, gain) for share in shares if (gain := share.of(step.gain)) is not None]
    if not told:
        return None
    if not all(share.index in step.measured for share, _ in told):
        return Saved(added(_unsure(gain, step.model.products[share.index]) for share, gain in told))
    times = [(step.measured[share.index], part) for share, _ in told if (part := share.of(step.share)) is not None]
    recorded = sum(part.mid * time.recorded_ns for time, part in times)
    return Saved(added(part.scaled(time.ns) for time, part in times), recorded)


def _unsure(saved: Range, product: Product) -> Range:
    """Let a product that may not execute save nothing."""
    return saved if product.sure else Range(min(0.0, saved.low), saved.mid, max(0.0, saved.high))
