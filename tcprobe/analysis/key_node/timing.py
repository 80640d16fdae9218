"""What the times of an op or range tell: one in each step or not, where in the step it ends, how evenly it comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tcprobe.analysis.key_node.series import Series, gap_cv, warm
from tcprobe.analysis.key_node.steps import Steps
from tcprobe.schema.columns import FloatArray

MISSED: Final = 0.1  # of the steps, at most: an end may fall just outside its own


class Timing(NamedTuple):
    """What times tell of one op or range; see `Candidate` for `position` and `gap_cv`."""

    once_each: bool
    position: float | None
    gap_cv: float | None


class _Place(NamedTuple):
    """Where in its step something ends, in lengths of a step from any point that is the same for all."""

    once_each: bool
    at: float


def timings(series: Sequence[Series], steps: Steps) -> list[Timing | None]:
    """Return what the times tell of each; None where its own are not known."""
    places = _by_marks(series, steps.starts) if steps.starts is not None else _side_by_side(series, steps.count)
    known = [place.at for place in places if place is not None and place.once_each]
    begin = 0.0 if steps.starts is not None else min(known, default=0.0)
    length = max(known, default=0.0) - begin
    told: list[Timing | None] = []
    for one, place in zip(series, places, strict=True):
        if one.ends is None or place is None:
            told.append(None)
            continue
        at = (place.at - begin) / length if len(known) > 1 and length > 0 and place.once_each else None
        told.append(Timing(place.once_each, at, one.gap_cv))
    return told


def _by_marks(series: Sequence[Series], bounds: FloatArray) -> list[_Place | None]:
    return [None if one.ends is None else _within(one.ends, bounds) for one in series]


def _within(ends: FloatArray, bounds: FloatArray) -> _Place:
    """Return whether one end lies between each two bounds, and the median of how far into them."""
    at = np.searchsorted(bounds, ends, side="left") - 1
    inside = (at >= 0) & (at < len(bounds) - 1)
    at, ends = at[inside], ends[inside]
    held = np.bincount(at, minlength=len(bounds) - 1)
    far = (ends - bounds[at]) / (bounds[at + 1] - bounds[at])
    return _Place(float((held != 1).mean()) <= MISSED, float(np.median(far)) if len(far) else 0.0)


def _side_by_side(series: Sequence[Series], count: int) -> list[_Place | None]:
    """Pair the calls of all that came as often, the first with the first, with those that come most evenly.

    One that lies further from its counterpart than half a step more or less than usual is not of the same step.
    """
    exact = [one.ends for one in series if one.ends is not None and len(one.ends) == count]
    if not exact:
        return [None] * len(series)
    even = min(exact, key=lambda ends: (_unevenness(ends), float(ends[0]), float(ends[-1])))
    period = float(np.median(np.diff(even))) or 1.0
    same = (one.ends if one.ends is not None and len(one.ends) == count else None for one in series)
    return [None if ends is None else _beside(warm((ends - even) / period)) for ends in same]


def _beside(apart: FloatArray) -> _Place:
    at = float(np.median(apart))
    return _Place(abs(at) < 1 and float((np.abs(apart - at) > 0.5).mean()) <= MISSED, at)


def _unevenness(ends: FloatArray) -> float:
    cv = gap_cv(ends)
    return float("inf") if cv is None else cv
