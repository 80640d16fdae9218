"""Find what launches repeat, per GPU and process, and say of each unit whether it is a step.

A unit is as often a layer, a token, a micro-batch or an iteration of a solver: it is a step only where marks hold one
unit each, or where it holds one update by an optimizer.

Find what repeats in a sequence of numbers: launches of kernels, calls of a training.

The search is for lags at which most of a stretch equals what stands one lag before. How many numbers do at every lag at
once is a correlation, of random signs in place of the numbers; the lags where it is high are then looked at exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.analysis.host import LEAST_STEPS, processes_of
from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.analysis.ranges.steps import mark_steps
from tcprobe.grouping import Numbers, count_by, distinct_numbers, distinct_rows, positions_in, ranks, rows_by_group
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import UNITS

LEAST_REPEATS: Final = 5  # of fewer, layers of one step that are alike by chance are as many
ALIKE: Final = 0.75  # of a period that must equal the one before; shapes that the data decides differ in a few launches
BRIDGED: Final = 2  # periods that may break the rule between two stretches of one unit: one more call shifts one period
LEAST_SHARE: Final = 0.25  # of the sequence that a unit covers: blocks of one stage of a network are fewer
BETTER: Final = 0.01  # of the sequence: a period that covers so much more beats a shorter one
MOST_UNITS: Final = 4
SIGNS: Final = 8  # correlations that are averaged
PEAKS: Final = 128  # lags at which the correlation is highest, mostly multiples of few
LOOKED_AT: Final = 16


class Repeats(Struct, frozen=True):
    """A unit that repeats: the regular ones, in order."""

    period: int  # numbers in a unit
    starts: IntArray  # index of the first number of each

    @property
    def end(self) -> int:
        """Return the index after the last unit."""
        return int(self.starts[-1]) + self.period


def find_repeats(values: Numbers, least: int = LEAST_REPEATS) -> list[Repeats]:
    """Return the units that repeat in a sequence, the one that covers most first; none overlap.

    A unit holds at least two distinct values. Of several periods the one counts that covers most, of such that cover as
    much the shortest: a step before its layers. A unit that some values more or less make irregular is no repeat, and
    interrupts none.

    Args:
        values: the sequence.
        least: times that a unit must repeat.
    """
    codes = positions_in(values, distinct_numbers(values)).astype(np.int64)
    codes = _by_first(codes)
    left = np.ones(len(codes), np.bool_)
    found: list[Repeats] = []
    while len(found) < MOST_UNITS and np.count_nonzero(left) >= max(2 * least, LEAST_SHARE * len(codes)):
        best = _best(codes, left, least)
        if best is None:
            break
        found.append(best)
        left[int(best.starts[0]) : best.end] = False
    return sorted(found, key=lambda one: -len(one.starts) * one.period)


def _by_first(codes: IntArray) -> IntArray:
    """Return the numbers renamed in order of their first place, which does not depend on how they were numbered."""
    first = np.full(int(codes.max(initial=-1)) + 1, len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    renamed: IntArray = rank[codes]
    return renamed


def _best(codes: IntArray, left: NDArray[np.bool_], least: int) -> Repeats | None:
    """Return the unit that covers most of what is left."""
    weight = np.where(left, 1.0 - (count_by(codes, int(codes.max()) + 1) / len(codes))[codes], 0.0)
    best, covered = None, 0.0
    for period in _periods(codes, left, least):
        one = _unit(codes, weight, period, least)
        share = 0.0 if one is None else len(one.starts) * period / len(codes)
        if share >= LEAST_SHARE and share > covered + BETTER:
            best, covered = one, share
    return best


def _periods(codes: IntArray, left: NDArray[np.bool_], least: int) -> list[int]:
    """Return the lags at which most numbers equal those before, ascending, without multiples of one another."""
    longest = len(codes) // least
    if longest < 2:
        return []
    random, size = np.random.default_rng(len(codes)), 1 << (2 * len(codes) - 1).bit_length()
    power: FloatArray = np.zeros(size // 2 + 1)
    for _ in range(SIGNS):
        signs = random.permutation(np.arange(int(codes.max()) + 1) % 2 * 2.0 - 1.0)[codes]
        power += np.abs(np.fft.rfft(np.where(left, signs, 0.0), size)) ** 2
    alike = np.fft.irfft(power, size)[: longest + 1] / SIGNS
    alike /= len(codes) - np.arange(longest + 1)
    alike[:2] = -1.0
    peaks = np.argsort(-alike, kind="stable")[:PEAKS]
    chosen: list[int] = []
    for lag in sorted(peaks.tolist(), key=lambda lag: (-round(float(alike[lag]), 2), lag)):
        if lag > 1 and all(lag % other for other in chosen) and len(chosen) < LOOKED_AT:
            chosen.append(lag)
    return sorted(chosen)


def _unit(codes: IntArray, weight: FloatArray, period: int, least: int) -> Repeats | None:
    """Return what repeats with a period; None if nothing does often enough.

    Common values weigh little: two that are alike in most places need not repeat.
    """
    equal = np.append(np.zeros(period, np.bool_), codes[period:] == codes[:-period])
    summed = [np.append(0.0, np.cumsum(each)) for each in (equal * weight, weight)]
    same, total = (each[period:] - each[:-period] for each in summed)
    regular = np.concatenate([[False], (same >= ALIKE * total) & (total > 0), [False]])
    begins, ends = np.flatnonzero(~regular[:-1] & regular[1:]), np.flatnonzero(regular[:-1] & ~regular[1:]) - 1
    if not len(begins):
        return None
    longest = int(np.argmax(ends - begins))
    low, high = longest, longest
    while low and begins[low] - ends[low - 1] <= BRIDGED * period:
        low -= 1
    while high + 1 < len(begins) and begins[high + 1] - ends[high] <= BRIDGED * period:
        high += 1
    known, first = (max(_settles(equal, int(begins[at]), period) - period, 0) for at in (longest, low))
    if len(distinct_numbers(codes[known : known + period])) < 2:
        return None
    last = len(equal) - _settles(equal[::-1], len(equal) - int(ends[high]) - period, period)
    starts = _starts(codes[first:last], known - first, period)
    return Repeats(period, starts + first) if len(starts) >= least else None


def _settles(equal: NDArray[np.bool_], begin: int, period: int) -> int:
    """Return the index from which on most are equal, in a period of which most are."""
    gain = np.cumsum((equal[begin : begin + period] - ALIKE)[::-1])[::-1]
    return begin + int(np.argmax(gain))


def _starts(codes: IntArray, known: int, period: int) -> IntArray:
    """Return where each regular unit begins, by a run of values that a unit holds but once.

    Args:
        codes: the sequence, from the beginning of a unit on.
        known: beginning of a stretch of regular units.
        period: its length.
    """
    runs, length = codes, 1
    while length <= period:
        inside = runs[known : known + period]
        counts = count_by(runs, int(runs.max(initial=0)) + 1)
        once = count_by(inside, len(counts))[inside] == 1
        if once.any():
            offset = int(np.argmax(np.where(once, counts[inside], 0)))  # one that few irregular units lack
            places = np.flatnonzero(runs == inside[offset])
            starts = places - places[0] % period
            starts = starts[starts + period <= len(codes)]
            follows = np.diff(starts) == period
            regular: IntArray = starts[np.append(follows, follows[-1:])]  # no other begins after the last
            return regular
        _, pairs = distinct_rows(runs[:-length], runs[length:])
        runs, length = pairs.astype(np.int64), 2 * length
    return np.zeros(0, np.int64)


ONE_EACH: Final = 0.8  # of the steps that must hold one unit: some are irregular
APART: Final = 0.75  # of a unit, at least, in which nothing updates: two steps in one unit update twice
UPDATE: Final = "update by an optimizer"
"""Name of such steps."""


class Found(Struct, frozen=True):
    """A unit of the launches of one GPU and process."""

    repeats: Repeats
    rows: IntArray  # rows of `launches`, in order
    process: float  # NaN where unknown
    is_step: Literal["yes", "no", "unknown"]
    basis: Literal["marks", "updates"] | None  # what says so
    update: IntArray  # indices of the launches after an update, where one is in each unit


def find_units(profile: Profile) -> list[Found]:
    """Return what repeats; of the GPU and process with the most launches first, there what covers most of them."""
    launches = profile.require("launches")
    if not len(launches) or "serialises_kernels" in profile.traits:
        return []
    kernel, configs = launches.names("kernel"), launches.numbers("config_id").astype(np.int64)
    grids = profile.require("launch_configs").names("grid")
    grid = np.append(grids.ids, -1)[np.where(configs < len(grids.ids), configs, -1)]
    # by rank of the name: an id depends on the order of rows
    places = [np.append(ranks(names), -1) for names in (kernel.names, grids.names)]
    code = distinct_rows(places[0][kernel.ids], places[1][grid])[1].astype(np.int64)
    updates = np.array([kind_of(name) == "optimizer" for name in kernel.names] + [False], np.bool_)[kernel.ids]
    device = launches.numbers("device")
    return [
        one
        for rows, process in sorted(
            _series(profile, code), key=lambda each: (-len(each[0]), int(device[each[0][0]]), each[1])
        )
        for one in _of_series(code[rows], rows, process, launches, updates[rows])
    ]


def _series(profile: Profile, code: IntArray) -> Iterator[tuple[IntArray, float]]:
    """Yield the launches of each GPU and process, as the host made them; as they ran, where it is not known of all."""
    launches = profile.require("launches")
    process, device = processes_of(profile, launches.numbers("thread")), launches.numbers("device").astype(np.int64)
    for one in distinct_numbers(device).tolist():
        mine = device == one
        known = process[mine & ~np.isnan(process)]
        if len(known) and (known == known[0]).all():
            process[mine] = known[0]  # what was called before the capture began has no thread
    (_, owners), group = distinct_rows(device, np.nan_to_num(process, nan=-1.0).astype(np.int64))
    begun, called = launches.numbers("start_ns"), launches.numbers("launch_ns")
    for rows, owner in zip(rows_by_group(group, len(owners)), owners.tolist(), strict=True):
        made = begun[rows] if np.isnan(called[rows]).any() else called[rows]
        yield rows[np.lexsort((code[rows], begun[rows], made))], np.nan if owner < 0 else float(owner)


def _of_series(
    code: IntArray, rows: IntArray, process: float, launches: Table, updates: NDArray[np.bool_]
) -> Iterator[Found]:
    step = launches.numbers("iteration")[rows]
    marked = len(distinct_numbers(step[~np.isnan(step)].astype(np.int64)))
    for repeats in find_repeats(code, LEAST_STEPS if marked >= LEAST_STEPS else LEAST_REPEATS):
        after = _after_updates(repeats, updates)
        if (by_marks := _by_marks(repeats, step)) is not None:
            yield Found(repeats, rows, process, "yes" if by_marks else "no", "marks", after)
        elif len(after):
            yield Found(repeats, rows, process, "yes", "updates", after)
        else:
            none = updates.any() and not updates[int(repeats.starts[0]) : repeats.end].any()
            yield Found(repeats, rows, process, "no" if none else "unknown", "updates" if none else None, after)


def _by_marks(repeats: Repeats, step: FloatArray) -> bool | None:
    """Return whether steps that are marked hold one unit each; None where too few are marked to tell."""
    inside = step[int(repeats.starts[0]) : repeats.end]
    steps = len(distinct_numbers(inside[~np.isnan(inside)].astype(np.int64)))
    if not steps:
        return None
    held = step[repeats.starts]
    holding = len(distinct_numbers(held[~np.isnan(held)].astype(np.int64)))
    if steps >= LEAST_STEPS and holding >= ONE_EACH * steps and len(held) * ONE_EACH <= holding:
        return True
    return False if len(held) >= 2 * steps or steps >= 2 * len(held) else None


def _after_updates(repeats: Repeats, updates: NDArray[np.bool_]) -> IntArray:
    """Return which launches follow an update, where each unit holds one; none where that is not so.

    An update is one or more launches that lie close.
    """
    end = repeats.end
    at = np.flatnonzero(updates[:end])
    last = at[np.append(np.diff(at) > APART * repeats.period, True)[: len(at)]] if len(at) else at
    per_unit = np.diff(np.searchsorted(last, np.append(repeats.starts, end)))
    regular = np.diff(np.append(repeats.starts, end)) == repeats.period
    one: IntArray = last + 1
    return one if len(at) and (per_unit[regular] == 1).mean() >= ONE_EACH else np.zeros(0, np.int64)


def with_updates(profile: Profile, found: list[Found]) -> Profile:
    """Return the profile with steps that end with an update, where nothing marks any and host times are known.

    Steps of several processes need not run together: then none are marked. What was launched before the first whole
    step belongs to none.
    """
    launches = profile.require("launches")
    if not found or not np.isnan(launches.numbers("iteration")).all():
        return profile
    first = next((one for one in found if one.is_step == "yes"), None)
    called = launches.numbers("launch_ns")
    if first is None or np.isnan(called[first.rows]).any() or len({one.process for one in found}) > 1:
        return profile
    begins, begin = first.update[first.update < len(first.rows)], int(first.repeats.starts[0])
    if begins[0] - first.repeats.period >= begin:
        begins = np.append(begins[0] - first.repeats.period, begins)
    starts = called[first.rows[begins]].astype(np.int64)
    ends = np.append(starts[1:], int(called[first.rows[-1]]))
    return mark_steps(profile, list(range(len(starts))), [UPDATE] * len(starts), starts, ends)


def unit_table(profile: Profile, found: list[Found]) -> Table:
    """Return the table `units`."""
    launches = profile.require("launches")
    begun, spent = launches.numbers("start_ns"), launches.numbers("duration_ns")
    rows: list[dict[str, Any]] = []
    for one in found:
        period, starts = one.repeats.period, one.repeats.starts
        inside = one.rows[int(starts[0]) : one.repeats.end]
        regular = one.rows[(starts[:, None] + np.arange(period)).ravel()] if len(starts) else inside
        lengths = np.diff(begun[one.rows[starts]])[np.diff(starts) == period]
        rows.append(
            {
                "device": int(launches.numbers("device")[one.rows[0]]),
                "process": None if np.isnan(one.process) else int(one.process),
                "kernels": period,
                "repeats": len(starts),
                "start_ns": int(begun[inside].min()),
                "end_ns": int((begun[inside] + spent[inside]).max()),
                "unit_ns": float(np.median(lengths)) if len(lengths) else None,
                "kernel_ns": float(spent[regular].sum() / len(starts)),
                "share_pct": 100.0 * len(regular) / len(one.rows),
                "is_step": one.is_step,
                "basis": one.basis,
            }
        )
    return Table.from_rows(UNITS, rows)
