"""Tell how long a step takes, from the best source that a profile has, and how long the GPU waits in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.analysis.iterations import Iterations, marked_step
from tcprobe.analysis.phases import SlowSteps, all_traced, slow_steps, steps_by_phase, window_phase
from tcprobe.analysis.summary.reported import AVERAGE, ITERATIONS, WALL, Reported
from tcprobe.grouping import distinct_rows, ratio_pct, union_by
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import StepLength, Waiting

if TYPE_CHECKING:
    from tcprobe.schema.comparison import StepsCompared

UNDER_PROFILER: Final = "steps under the profiler, which slows them"
RATE_KINDS: Final = {
    "measured": "steps that no profiler slowed",
    "after": "steps after the profiled window, none before it was left to measure",
    "profiled": UNDER_PROFILER,
    "warm-up": "steps before the profiled window, which the profiler may slow",
}


UNEVEN: Final = 1.5  # times the shortest step, extremes apart: then the median is of one kind of step, or of none
FEWEST_UNEVEN: Final = 5  # steps; of fewer, one that stalled looks like a kind of step


class EpochEnds(Struct, frozen=True):
    """Steps that hold an epoch's end, which are no part of a step's typical length."""

    lengths_ns: FloatArray  # of each, all steps of its call together; at least one
    mean_ns: float  # length of a step where these count too, so what a step of a whole epoch takes
    steps: int  # how many steps that is the mean of


class TwoKinds(Struct, frozen=True):
    """Steps of two kinds: both are typical, each with a length of its own."""

    short_ns: FloatArray  # of each step of the shorter kind
    long_ns: FloatArray  # of each of the longer one
    traced: str = ""  # the functions that all of the longer one traced again

    @property
    def mean_ns(self) -> float:
        """Mean length of both kinds together."""
        return float(np.append(self.short_ns, self.long_ns).mean())


class StepTime(Struct, frozen=True):
    """Length of a step."""

    ns: float  # the length; of several steps the median, or the mean where steps of unlike length are the usual thing
    length: StepLength  # what it rests on
    why: str  # which steps, in words
    spread: tuple[float, float] | None = None  # percentiles 10 and 90; None for a single step or figure
    profiled: bool = True  # whether the profiler ran, which slows steps
    # epoch ends among the same steps, else among all of the phase; None if there are none
    ends: EpochEnds | None = None
    kind: str | None = None  # of these steps, as in `steps`; None where the length rests on another table
    count: int = 1  # how many they are
    retraced_ns: FloatArray | None = None  # of each step left out as a function was traced again in it; None: of none
    kinds: TwoKinds | None = None  # what these steps are, where they are of two kinds
    mean_ns: float | None = None  # mean length of the same steps; None for a single step or figure

    @property
    def basis(self) -> str:
        """Return the basis of the figure, as in `summary`."""
        return "reported" if self.length == "reported" else "measured"


def step_time(profile: Profile, iterations: Iterations) -> StepTime | None:
    """Return the length of a step: of steps that no profiler slowed, else of those there are; None if none is known.

    All are of one phase of the run, that of the window.
    """
    mine = window_phase(profile)
    if (timed := phase_step_time(profile, steps_by_phase(profile)[mine or 0], slow_steps(profile))) is not None:
        return timed
    under = profiled_lengths(profile)
    if len(known := under[~np.isnan(under)]):
        return _between(known, UNDER_PROFILER, None, None)
    if average := Reported(profile).get(AVERAGE):
        return StepTime(average, "reported", f"mean of {UNDER_PROFILER}")
    only = marked_step(profile, iterations)
    if only is None:
        return None
    return StepTime(float(only[1] - only[0]), "marked step", "the length of the one marked step, under the profiler")


def phase_step_time(profile: Profile, mine: NDArray[np.bool_], slow: SlowSteps) -> StepTime | None:
    """Return the length of a step of one phase, by what the workload's own clock says; None if that is unknown.

    Args:
        profile: with its steps.
        mine: which rows of `steps` are of the phase.
        slow: which are slow.
    """
    steps = profile.require("steps")
    lengths, known = steps.numbers("duration_ns"), mine & ~np.isnan(steps.numbers("duration_ns"))
    for kind, typical in typical_steps(profile, mine, slow.left_out):
        alike = known & steps.names("kind").among(kind)
        pool = (alike if (alike & slow.ends).any() else known) & ~slow.retraced
        found = _between(lengths[typical], RATE_KINDS[kind], _epoch_ends(steps, pool, slow.ends), kind)
        if (known & slow.retraced).any():
            again = lengths[known & slow.retraced]
            why = f"{found.why}; {len(again)} that traced a function again left out"
            found = replace(found, retraced_ns=again, why=why)
        if (longer := typical & slow.common).any():
            kinds = TwoKinds(lengths[typical & ~longer], lengths[longer], all_traced(profile, longer))
            what = "traced a function again" if kinds.traced else "are of a longer kind"
            found = replace(found, kinds=kinds, why=f"{found.why}; {len(kinds.long_ns)} of them {what}")
        return found
    return None


def typical_steps(
    profile: Profile, mine: NDArray[np.bool_], left_out: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each kind of steps, those that tell most of a step's length first, and its rows of known, typical length.

    Args:
        profile: with its steps.
        mine: which rows of `steps` are of the phase.
        left_out: which of them are not typical.
    """
    steps = profile.require("steps")
    kinds, known = steps.names("kind"), mine & ~np.isnan(steps.numbers("duration_ns"))
    for kind in RATE_KINDS:
        if (typical := known & kinds.among(kind) & ~left_out).any():
            yield kind, typical


def step_lengths(profile: Profile) -> dict[StepsCompared, FloatArray]:
    """Return the lengths of single steps of the window's phase, outside the profiler and under it, as they ran.

    Epoch ends, steps that trace a function again and warm-up are left out, and so is what only a sum is known of. Those
    outside are the ones that the headline rests on, where it rests on such.
    """
    mine = steps_by_phase(profile)[window_phase(profile) or 0]
    steps = profile.require("steps")
    lengths = steps.numbers("duration_ns")[order := np.argsort(steps.numbers("step"), kind="stable")]
    kinds = {kind: lengths[rows[order]] for kind, rows in typical_steps(profile, mine, slow_steps(profile).left_out)}
    under = profiled_lengths(profile)
    return {
        "outside the profiler": kinds.get("measured", kinds.get("after", np.zeros(0))),
        "under the profiler": kinds.get("profiled", under[~np.isnan(under)]),
    }


def _epoch_ends(steps: Table, among: NDArray[np.bool_], ends: NDArray[np.bool_]) -> EpochEnds | None:
    """Return the epoch ends among some steps; where one call makes several, the call is as long as all of them."""
    if not (among & ends).any():
        return None
    held = np.nan_to_num(np.diff(steps.numbers("step"), append=np.nan), nan=1.0)
    whole = steps.numbers("duration_ns") * held
    count = int(held[among].sum())
    return EpochEnds(whole[among & ends], float(whole[among].sum()) / count, count)


def _between(known: FloatArray, which: str, ends: EpochEnds | None, kind: str | None) -> StepTime:
    """Return the typical length of some steps, all at least one."""
    count, uneven = len(known), kind is None and is_uneven(known)  # those of the probe's clock have kinds of their own
    why = f"{'mean' if uneven else 'median'} of {count} {which}" if count > 1 else f"1 of the {which}"
    why += "; they are of unlike length" if uneven else ""
    why += f" ({len(ends.lengths_ns)} more, at an epoch's end, left out)" if ends else ""
    slowed = kind not in ("measured", "after")
    typical = _typical(known, uneven)
    spread, mean = spread_of(known), float(known.mean())
    return StepTime(typical, "between steps", why, spread, slowed, ends, kind, count, mean_ns=mean)


def _typical(values: FloatArray, uneven: bool) -> float:
    """Return the median of a figure of steps, one or more; of uneven ones the mean, for no single step is typical."""
    return float(values.mean() if uneven else np.median(values))


def is_uneven(known: FloatArray) -> bool:
    """Return whether steps of unlike length are the usual thing, as where every second one waits for its input.

    A few steps that stalled do not count: a tenth of the steps at each end, at least one, are left out.
    """
    if (count := len(known)) < FEWEST_UNEVEN:
        return False
    ends = max(1, count // 10)
    middle = np.sort(known)[ends : count - ends]
    return float(middle[-1]) > UNEVEN * float(middle[0])


def profiled_lengths(profile: Profile) -> FloatArray:
    """Return the length of each profiled step of the window, start to start; NaN where the next one is not marked."""
    table = profile.require("iterations")
    if not len(table) or profile.is_unprofiled:
        return np.zeros(0)
    each: FloatArray = (table.numbers("duration_ns") / table.numbers("steps"))[table.numbers("in_window")]
    return each


def spread_of(values: FloatArray) -> tuple[float, float]:
    """Return percentiles 10 and 90, interpolated: a step that stalled moves them less than it moves the extremes."""
    low, high = np.percentile(values, [10, 90])
    return float(low), float(high)


def with_waiting(profile: Profile, iterations: Iterations, length: StepTime | None) -> Profile:
    """Add how long the GPU waits; where the profiler reports longer steps than the window, GPUs are busy in those."""
    waiting, window = waiting_of(profile, iterations, length), profile.metadata.window
    profile = replace(profile, waiting=waiting)
    devices, steps = profile.table("devices"), window_steps(profile)
    if waiting is None or waiting.length != "reported" or devices is None or not steps:
        return profile
    span = np.full(len(devices), waiting.step_ns * steps)
    if window.basis != "whole capture" or not (span > devices.numbers("window_ns")).any():
        return profile
    share = ratio_pct(devices.numbers("union_ns"), span)
    return profile.with_tables(devices.with_columns(window_ns=span.round(), gpu_busy_pct=share))


def waiting_of(profile: Profile, iterations: Iterations, length: StepTime | None) -> Waiting | None:
    """Return how long a step takes and the GPU waits in it, the mean over the GPUs that ran kernels.

    Where no step is known, the window stands in: the span of the capture. So it does where kernels of no step count,
    warm-up among them: their share of the capture is none of a step. None where no clock tells, or no kernel ran.

    Args:
        profile: with devices and iterations built.
        iterations: of the profile.
        length: of a step, if one is known.
    """
    counts_all = profile.metadata.window.first is None and len(profile.require("launches")) > 0
    if length is None or (length.length == "between steps" and counts_all):
        return _capture(profile)
    return _waiting(length.ns, length.length, _busy_in_step(profile, iterations, length))


def _waiting(step_ns: float, length: StepLength, busy_ns: float | None) -> Waiting | None:
    """Return the parts of a step; kernels that the profiler slowed may seem to run longer than the step."""
    if busy_ns is None or not step_ns > 0:
        return None
    busy = min(max(busy_ns, 0.0), step_ns)
    return Waiting(step_ns, length, busy, step_ns - busy)


def _capture(profile: Profile) -> Waiting | None:
    """Return the whole window as if it were a step; by the profiler's own figures where no launch has a time."""
    shares, span = of_active(profile, "gpu_busy_pct"), profile.metadata.window.length_ns
    if len(shares) and span is not None:
        return _waiting(float(span), "capture", float(shares.mean()) / 100.0 * span)
    reported = Reported(profile)
    wall, busy = reported.get(WALL), reported.gpu_busy_pct
    return None if not wall or busy is None else _waiting(wall, "capture", wall * busy / 100.0)


def _busy_in_step(profile: Profile, iterations: Iterations, length: StepTime) -> float | None:
    """Return the time of a step during which a kernel ran; None if unknown."""
    if length.length == "marked step" and (only := marked_step(profile, iterations)) is not None:
        return _union(profile, only)
    steps, ran = window_steps(profile), of_active(profile, "union_ns")
    if len(ran) and length.length == "between steps":
        each = _typical_union(profile, iterations, length)
        if each is not None:
            return each / len(ran)
    if len(ran) and steps:
        return float(ran.mean()) / steps
    reported = Reported(profile)
    share, times = reported.gpu_busy_pct, reported.kernel_times
    busy = None if share is None else length.ns * share / 100.0
    if times is None or not times.total > 0 or not steps:
        return busy
    spent = times.total / steps / (len(profile.require("devices")) or 1)
    return min(busy, spent) if busy is not None and share else spent  # a share below 0.05 % is reported as 0.0


def _typical_union(profile: Profile, iterations: Iterations, length: StepTime) -> float | None:
    """Return the time of a typical step during which its kernels ran, summed over the GPUs; None if unknown.

    Kernels are of the step that launched them: where they run late, a step's own time holds those of the one before.
    """
    table = profile.require("iterations")
    union = _with_strays(profile, iterations) / table.numbers("steps")
    lengths = table.numbers("duration_ns") / table.numbers("steps")
    mine = table.numbers("in_window") & ~np.isnan(union)
    if length.kind is None:  # of these very steps
        mine &= ~np.isnan(lengths)
        return _typical(union[mine], is_uneven(lengths[mine])) if mine.any() else None
    slow = profile.require("steps").numbers("step")[slow_steps(profile).left_out]
    usual = mine & ~np.isin(table.numbers("iteration"), slow)
    return _typical(union[usual if usual.any() else mine], False) if mine.any() else None


def _with_strays(profile: Profile, found: Iterations) -> FloatArray:
    """Return `union_ns` of each iteration, with kernels of no step where these were launched in its time."""
    launches, own = profile.require("launches"), profile.require("iterations").numbers("union_ns")
    if not len(own):
        return own
    begun, called = launches.numbers("start_ns"), launches.numbers("launch_ns")
    called = np.where(np.isnan(called), begun, called)
    ascend, stray = bool((np.diff(found.start_ns) >= 0).all()), found.of_launch < 0
    held = np.searchsorted(found.start_ns, called, side="right") - 1
    ends = np.where(np.isnan(found.duration_ns), found.end_ns, found.start_ns + found.duration_ns)
    stray &= (held >= 0) & (called < ends[held])
    if not (ascend and stray.any()):
        return np.where(stray.any(), np.nan, own)
    (devices,), place = distinct_rows(launches.numbers("device"))
    row = np.where(stray, held, found.of_launch)
    part = np.where(row < 0, -1, row * len(devices) + place)
    spans = union_by(part, begun, launches.numbers("duration_ns"), len(own) * len(devices))
    each: FloatArray = spans.reshape(len(own), len(devices)).sum(axis=1).astype(np.float64)
    return each


def _union(profile: Profile, bounds: tuple[int, int]) -> float | None:
    """Return the time between `bounds` during which a kernel ran, the mean over the GPUs that ran some; None: none."""
    launches = profile.require("launches")
    (devices,), place = distinct_rows(launches.numbers("device"))
    spans = launches.numbers("start_ns"), launches.numbers("duration_ns")
    return float(union_by(place, *spans, len(devices), bounds).mean()) if len(devices) else None


def of_active(profile: Profile, column: str) -> FloatArray:
    """Return the values of a column of `devices` that are known, of the GPUs that ran kernels."""
    devices = profile.require("devices")
    values: FloatArray = devices.numbers(column)
    return values[devices.names("state").among("active") & ~np.isnan(values)]


def window_steps(profile: Profile) -> float | None:
    """Return how many steps the window holds, by the marks or as the profiler reports it; None if unknown."""
    return profile.marked_steps or Reported(profile).get(ITERATIONS)
