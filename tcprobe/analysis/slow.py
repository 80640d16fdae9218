"""Tell why steps are far longer than the others: an epoch's end, a function traced again, or a kind of steps."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from tcprobe.analysis.phases import steps_by_phase
from tcprobe.jsonfile import records
from tcprobe.schema.columns import FloatArray, IntArray
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import STEP_KINDS

Mask = NDArray[np.bool_]
FEWEST_LENGTHS: Final = 5  # known lengths of steps, below which none is typical
LONG: Final = 3.0  # times the median; at equal distances: a stall of the input is as long, and comes when it likes
PAUSE: Final = 10.0  # times the median: no step of training varies so much, wherever it stands
SLOWER: Final = 1.5  # times the median of the others: so slow a first one is warm-up; later ones hardly vary so much
LEAST_USUAL: Final = 3  # that must follow slow first ones, or there is no usual length
RARE: Final = 0.1  # share of the steps; what is as common is the run's own way to train


class SlowSteps(NamedTuple):
    """Which rows of `steps` are far longer than the others, by what is known of them; no row is of two."""

    ends: Mask  # rare, and taken for an epoch's end
    retraced: Mask  # rare, and a function was traced again in them
    common: Mask  # at equal distances, and too common for either: steps like others, of a longer kind

    @property
    def left_out(self) -> Mask:
        """Which are no part of a step's typical length."""
        return self.ends | self.retraced


class Retrace(Struct):
    """A function that the probe saw traced again."""

    name: str
    at_ns: Annotated[int, Meta(ge=0, lt=2**53)]


def leading_slow(lengths: FloatArray) -> int:
    """Return how many of the first of some lengths, in order, are far longer than all but a few later ones."""
    for slow in range(min(len(lengths) - LEAST_USUAL, len(lengths) // 2), 0, -1):
        usual = float(np.median(lengths[slow:]))
        rare = max(SLOWER * usual, float(np.percentile(lengths[slow:], 90)))  # as long as later ones is no warm-up
        if usual > 0 and (lengths[:slow] > rare).all():
            return slow
    return 0


def slow_steps(profile: Profile) -> SlowSteps:
    """Return which rows of `steps` are slow, each compared with its phase and kind.

    The kinds differ, for a profiler slows the steps that it records. Warm-up holds none that anybody could tell. Where
    threads train at once, a step is long whenever another has the interpreter: nothing tells an end from that.
    """
    steps = profile.require("steps")
    numbers, kinds = steps.numbers("step"), steps.names("kind")
    ends, retraced, common = (np.zeros(len(steps), np.bool_) for _ in range(3))
    traced = np.isin(np.arange(len(steps)), list(retraces(profile)))
    for mine in () if trains_by_threads(profile) else steps_by_phase(profile):
        lengths = np.where(mine, steps.numbers("duration_ns"), np.nan)
        usual = _median(lengths)
        for kind in STEP_KINDS:
            alike = mine & kinds.among(kind)
            enough = np.count_nonzero(~np.isnan(lengths[alike])) >= FEWEST_LENGTHS
            lengths[alike] /= _median(lengths[alike]) if enough else usual
        again = traced & _longer(lengths, LONG)
        if is_rare(again, lengths):
            retraced |= again
            lengths[again] = np.nan
        others = long_steps(numbers, lengths)
        ends |= others[0]
        common |= others[1]
    return SlowSteps(ends, retraced, common)


def trains_by_threads(profile: Profile) -> bool:
    """Return whether several threads train at once, by the reader's note."""
    return any(note.code == "threads" for note in profile.metadata.notes)


def retraces(profile: Profile) -> dict[int, str]:
    """Return the rows of `steps` in which a function was traced again, with the first such function of each."""
    steps, found = profile.require("steps"), dict[int, str]()
    starts = steps.numbers("start_ns")
    order = np.argsort(starts, kind="stable")
    for one in records(Retrace, profile.metadata.run.get("retraces")):
        place = int(np.searchsorted(starts[order], one.at_ns, side="right")) - 1
        if place >= 0:
            found.setdefault(int(order[place]), one.name)
    return found


def functions_of(profile: Profile, rows: Mask) -> str:
    """Return the functions that were traced again in these rows of `steps`."""
    return ", ".join(sorted({name for row, name in retraces(profile).items() if rows[row]}))


def is_rare(rows: Mask, lengths: FloatArray) -> bool:
    """Return whether these are one step, or under a tenth of those of known length."""
    return bool(rows.sum() <= 1 or rows.sum() < RARE * np.count_nonzero(~np.isnan(lengths)))


def long_steps(numbers: IntArray, lengths: FloatArray) -> tuple[Mask, Mask]:
    """Return which steps hold an epoch's end, and which are a longer kind, by their lengths alone.

    Steps of 10 times the median or more hold an end, where they are rare. Steps of 3 times the median or more that
    lie at equal distances (no step at these places is shorter, and few elsewhere are as long) do where there are over
    ten steps from one to the next; where they come more often they are steps like others, of a kind of their own.
    A step right after a far longer one is slow for its sake (caches, an input that starts anew): it is no pause of
    its own.

    Args:
        numbers: of the steps, ascending.
        lengths: of each; NaN where unknown.
    """
    ends, common = np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.bool_)
    if np.count_nonzero(~np.isnan(lengths)) < FEWEST_LENGTHS or np.isnan(_median(lengths)):
        return ends, common
    long, pause = _longer(lengths, LONG), _longer(lengths, PAUSE)
    after = np.append(False, long[:-1] & (LONG * lengths[1:] < lengths[:-1]))
    long, slow, pause = long & ~after, after & pause, pause & ~after
    there = _regular(numbers, lengths, long, pause)
    rare = there.any() and float(np.median(np.diff(np.flatnonzero(there)))) * RARE > 1.0
    if there.any() and not rare:
        common |= there
    elif rare:
        ends |= there
    if is_rare(pause, lengths):
        ends |= pause & ~common
    ends[1:] |= slow[1:] & ends[:-1]
    return ends, common


def _regular(numbers: IntArray, lengths: FloatArray, long: Mask, pause: Mask) -> Mask:
    """Return the long steps that lie at equal distances, if they are most of the long ones; else none."""
    if long.sum() > 1:
        period = _commonest(np.diff(numbers[long]))
        there = (numbers % period == _commonest(numbers[long] % period)) & ~np.isnan(lengths)
        enough = (there & long).sum() >= 3 or (there & pause).sum() >= 2
        if enough and long[there].all() and 2 * there.sum() > long.sum():
            return np.asarray(there, np.bool_)
    return np.zeros(len(numbers), np.bool_)


def _longer(lengths: FloatArray, times: float) -> Mask:
    """Return which are longer than so many medians; none of unknown length is."""
    with np.errstate(invalid="ignore"):
        return np.asarray(lengths > times * _median(lengths), np.bool_)


def _commonest(values: IntArray) -> int:
    """Return the value that occurs most often, the largest of several."""
    counts: Counter[int] = Counter(values.tolist())
    return max(counts, key=lambda value: (counts[value], value))


def _median(lengths: FloatArray) -> float:
    """Return the median of the known lengths; NaN where there is none above 0."""
    known = lengths[~np.isnan(lengths)]
    return float(np.median(known)) if len(known) and np.median(known) > 0 else np.nan
