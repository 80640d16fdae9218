"""How many steps a profile holds, and when they began: by its own marks, the probe's count, or how often ops ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.key_node.series import UNEVEN, Series
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.key_nodes.kinds import LEAST_STEPS, StepsBasis
from tcprobe.schema.profile import Profile

MOST: Final = 0.6
"""Share of the repeated ops whose calls are a multiple of the number of steps. Those that a step calls are most of what
a training repeats; those of epochs and validation are few beside them."""
AGREE: Final = 0.25
"""Share of the busy ops that must have run exactly so often. With fewer some of them must come evenly: the layers of a
single step repeat as well, and few ops have their number."""
REPEATED: Final = 0.5
"""Share of the busy ops that must repeat, which set-up does not: else few steps were recorded, and what repeats is
called several times in one."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a profile.

    Attributes:
        count: how many there are.
        basis: what says so.
        starts: host times at which they began, in order, and the last one's end; None where no mark says so.
    """

    count: int
    basis: StepsBasis
    starts: FloatArray | None = None


def busy(series: Sequence[Series]) -> list[Series]:
    """Return what took GPU time and was counted; all that was counted where nothing did, or no time is known."""
    counted = [one for one in series if one.counted] or list(series)
    return [one for one in counted if one.fired.gpu_ns] or counted


def find_steps(profile: Profile, series: Sequence[Series]) -> Steps | None:
    """Return the steps; None where nothing tells of three or more.

    Marks and the probe's count hold only where something ran so often: a profile may mark calls that are no steps,
    and the probe counts steps that were not recorded.
    """
    weighed = busy(series)
    counts = Counter(one.fired.calls for one in weighed)
    marked, probed = _marked(profile), len(profile.require("steps"))
    if marked is not None and len(marked) > LEAST_STEPS and _near(counts, len(marked) - 1):
        return Steps(len(marked) - 1, "marks", marked)
    if probed >= LEAST_STEPS and counts[probed]:
        return Steps(probed, "probe")
    called = _by_calls(counts)
    return None if called is None or not _holds(called, weighed) else Steps(called, "calls")


def _holds(steps: int, weighed: Sequence[Series]) -> bool:
    exact = [one for one in weighed if one.fired.calls == steps]
    even = any(cv is not None and cv <= UNEVEN for cv in (one.gap_cv for one in exact))
    return even or len(exact) >= AGREE * len(weighed)


def _near(counts: Counter[int], steps: int) -> int:
    return sum(counts[steps + more] for more in (-1, 0, 1))


def _marked(profile: Profile) -> FloatArray | None:
    """Return when the marked steps began, and when the last one ended; None where none is marked."""
    marks = profile.require("step_marks")
    starts, ends = marks.numbers("start_ns"), marks.numbers("end_ns")
    if not len(marks):
        ranges = profile.require("ranges")
        ranges = ranges.take(ranges.names("kind").among("step"))
        starts = ranges.numbers("start_ns")
        ends = starts + ranges.numbers("duration_ns")
    if not len(starts):
        return None
    return np.append(np.unique(starts), max(int(ends.max()), int(starts.max()) + 1)).astype(np.float64)


def _by_calls(counts: Counter[int]) -> int | None:
    """Return the largest number of calls of which those of most ops are a multiple.

    That of an epoch is one as well, and smaller; that of ops called several times in a step is of too few.
    """
    repeated = {calls: ops for calls, ops in counts.items() if calls >= LEAST_STEPS}
    total = sum(repeated.values())
    if total < REPEATED * sum(counts.values()):
        return None
    for steps in sorted(repeated, reverse=True):
        if sum(ops for calls, ops in repeated.items() if not calls % steps) >= MOST * total:
            return steps
    return None
