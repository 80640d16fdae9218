"""Find the steps that hold an epoch's end (validation, a checkpoint): they are longer than a step, and not typical."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.phases import steps_by_phase
from tcprobe.schema.columns import FloatArray, IntArray
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import STEP_KINDS

FEWEST: Final = 5  # known lengths, below which none is typical
LONG: Final = 3.0  # times the median; at equal distances: a stall of the input is as long, and comes when it likes
PAUSE: Final = 10.0  # times the median: no step of training varies so much, wherever it stands
RARE: Final = 0.1  # share of the steps; what is commoner is the run's own way to train, unless at equal distances


def epoch_ends(numbers: IntArray, lengths: FloatArray) -> NDArray[np.bool_]:
    """Return which steps hold an epoch's end, by their lengths alone; never one of steps that take about as long.

    Steps of 10 times the median or more are, where they are rare; and steps of 3 times the median or more, where they
    lie at equal distances: no step at these places is shorter, and few elsewhere are as long. A step right after a
    far longer one is slow for its sake (caches, an input that starts anew): it is no pause of its own.

    Args:
        numbers: of the steps, ascending.
        lengths: of each; NaN where unknown.
    """
    none = np.zeros(len(numbers), np.bool_)
    count, usual = np.count_nonzero(~np.isnan(lengths)), _median(lengths)
    if count < FEWEST or np.isnan(usual):
        return none
    with np.errstate(invalid="ignore"):
        long, pause = lengths > LONG * usual, lengths > PAUSE * usual
        after = np.append(False, long[:-1] & (LONG * lengths[1:] < lengths[:-1]))
    long, slow, pause = long & ~after, after & pause, pause & ~after
    rare = pause if pause.sum() <= max(1.0, RARE * count) else none
    found: NDArray[np.bool_] = rare | _regular(numbers, lengths, long, pause)
    found[1:] |= slow[1:] & found[:-1]
    return found


def _regular(
    numbers: IntArray, lengths: FloatArray, long: NDArray[np.bool_], pause: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the long steps at the commonest distance from one another, if all steps at these places are long."""
    none = np.zeros(len(numbers), np.bool_)
    distances = [b - a for a, b in pairwise(numbers[long].tolist())]
    if not distances:
        return none
    period = _commonest(distances)
    place = np.mod(numbers, period)
    there = (place == _commonest((numbers[long] % period).tolist())) & ~np.isnan(lengths)
    enough = (there & long).sum() >= 3 or (there & pause).sum() >= 2
    alike = bool(long[there].all()) and 2 * int(there.sum()) > int(long.sum())
    return there if enough and alike else none


def _commonest(values: list[int]) -> int:
    """Return the value that occurs most often, the largest of several."""
    return max(Counter(values).items(), key=lambda found: (found[1], found[0]))[0]


def steps_with_ends(profile: Profile) -> NDArray[np.bool_]:
    """Return which rows of `steps` hold an epoch's end, each compared with its phase and kind.

    The kinds differ, for a profiler slows the steps that it records. Warm-up holds none that anybody could tell.
    """
    steps = profile.require("steps")
    numbers, kinds = steps.numbers("step"), steps.names("kind")
    ends = np.zeros(len(steps), np.bool_)
    for mine in steps_by_phase(profile):
        lengths = np.where(mine, steps.numbers("duration_ns"), np.nan)
        usual = _median(lengths)
        for kind in STEP_KINDS:
            alike = mine & kinds.among(kind)
            enough = np.count_nonzero(~np.isnan(lengths[alike])) >= FEWEST
            lengths[alike] /= _median(lengths[alike]) if enough else usual
        ends |= epoch_ends(numbers, lengths)
    return ends


def _median(lengths: FloatArray) -> float:
    """Return the median of the known lengths; NaN where there is none above 0."""
    known = lengths[~np.isnan(lengths)]
    return float(np.median(known)) if len(known) and np.median(known) > 0 else np.nan
