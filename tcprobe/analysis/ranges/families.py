r"""Tell which ranges may be steps, where nobody says which are.

A family is one name, or names that differ in a number: `iteration 7`, `iteration 8`. Its ranges are steps where they
hold most kernels, each about as many, and their number rises and never comes twice on a thread. The number of a layer
or a rank comes again with each step.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.host import LEAST_STEPS, processes_of
from tcprobe.grouping import distinct_rows, rows_by_group
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.kinds import NoStep, RangeNumbers
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import as_dict
from tcprobe.schema.tables import STEP_RANGES

LEAST_UNNUMBERED: Final = 5  # ranges of one name; fewer are as often phases of a run
LISTED: Final = 2  # ranges; a single one is no family
MOST: Final = 0.5  # of the kernels that steps hold at least
NOTICED: Final = 0.1  # of the kernels: ranges that hold fewer are not listed
ALIKE: Final = 0.75  # of the ranges that hold from half to twice the usual number of kernels
OUTSIDE: Final = 3  # times that more kernels than usual lie between two ranges: then these are parts of something
MOST_FAMILIES: Final = 500
LONGEST_NUMBER: Final = 15
"""Digits of the number of a step that a column holds exactly."""
_NUMBER: Final = re.compile(r"\d+")
_PART: Final = re.compile(
    r"layer|block|stage|rank|head|expert|device|gpu|stream|bucket|micro|chunk|thread|worker|conv|encoder|decoder|epoch"
    r"|phase|fold|trial|replica|shard|partition|module",
    re.IGNORECASE,
)
"""Words of what has a number and is no step, also where it comes but once: one step alone was recorded."""


class Family(Struct, frozen=True):
    """Ranges of one name, or of names that differ in a number."""

    pattern: str  # regular expression of their names, the number in a group
    domain: str | None
    thread: float  # the one that has most of them; NaN where unknown
    calls: int  # of these, those that begin in no other
    numbers: RangeNumbers
    median_ns: float
    kernels: float  # median of those launched while one lasted
    share_pct: float  # of all kernels of the process
    why_not: NoStep | None  # None: they are steps


def families(profile: Profile) -> list[Family]:
    """Return the families that hold kernels: those that are steps first, of several only the first is."""
    ranges, launches = profile.require("ranges"), profile.require("launches")
    rows = np.flatnonzero(ranges.names("kind").ids < 0) if len(ranges) and len(launches) else np.zeros(0, np.int64)
    if not len(rows):
        return []
    names = ranges.names("name")
    numbered = _Numbered(names)
    (_, owners), group = distinct_rows(ranges.names("domain").ids[rows], numbered.family[names.ids[rows]])
    each = sorted(rows_by_group(group, len(owners)), key=len, reverse=True)[:MOST_FAMILIES]
    calls = _Calls(profile)
    made = [_family(ranges, rows[mine], numbered, calls) for mine in each if len(mine) >= LISTED]
    listed = [one for one in made if one is not None and one.share_pct >= 100 * NOTICED]
    listed.sort(
        key=lambda one: (one.why_not is not None, one.numbers != "rising", -one.share_pct, one.calls, one.pattern)
    )
    return [one if not at or one.why_not else replace(one, why_not="other_chosen") for at, one in enumerate(listed)]


class _Numbered:
    """The names of ranges: which differ in numbers alone, and these."""

    family: IntArray  # of each name, and a last one of no name
    numbers: list[tuple[str, ...]]  # those in each name

    def __init__(self, names: Names) -> None:
        index: dict[str, int] = {}
        self.numbers = [tuple(_NUMBER.findall(name)) for name in names.names]
        self.family = np.array([index.setdefault(_NUMBER.sub("#", name), len(index)) for name in names.names] + [-1])


class _Calls:
    """When the kernels of each process were launched, ascending."""

    def __init__(self, profile: Profile) -> None:
        launches = profile.require("launches")
        self.profile, self.times = profile, launches.numbers("launch_ns")
        self.process = processes_of(profile, launches.numbers("thread"))
        self._of: dict[float, FloatArray] = {}

    def of_thread(self, thread: float) -> FloatArray:
        """Return those of the process of a thread; all where that is not known."""
        process = float(processes_of(self.profile, np.array([thread]))[0])
        key = -1.0 if np.isnan(process) else process
        if key not in self._of:
            mine = self.times if key < 0 else self.times[self.process == process]
            self._of[key] = np.sort(mine[~np.isnan(mine)])
        return self._of[key]


def _family(ranges: Table, rows: IntArray, numbered: _Numbered, calls: _Calls) -> Family | None:
    """Return what the ranges of one domain and name, or names, are; None if no kernel is known to be launched then."""
    threads = np.nan_to_num(ranges.numbers("thread")[rows], nan=-1.0).astype(np.int64)
    (each,), place = distinct_rows(threads)
    thread = float(each[int(np.argmax(np.bincount(place)))])
    mine = rows[threads == thread]
    starts, lengths = ranges.numbers("start_ns")[mine], ranges.numbers("duration_ns")[mine]
    order = np.lexsort((-lengths, starts))
    mine, starts, ends = mine[order], starts[order], (starts + lengths)[order]
    outermost = np.append(True, starts[1:] >= np.maximum.accumulate(ends)[:-1])
    mine, starts, ends = mine[outermost], starts[outermost], ends[outermost]
    times = calls.of_thread(thread if thread >= 0 else np.nan)
    if not len(times):
        return None
    begin, end = np.searchsorted(times, starts), np.searchsorted(times, ends)
    held, names = end - begin, ranges.names("name")
    pattern, numbers, word = _pattern(names, names.ids[mine], numbered)
    family = Family(
        pattern,
        ranges.names("domain")[int(mine[0])],
        thread if thread >= 0 else np.nan,
        len(mine),
        numbers,
        float(np.median(ends - starts)),
        float(np.median(held)),
        100.0 * float(held.sum()) / len(times),
        None,
    )
    return replace(family, why_not=_why_not(family, word, held, begin[1:] - end[:-1]))


def _pattern(names: Names, ids: IntArray, numbered: _Numbered) -> tuple[str, RangeNumbers, str]:
    """Return a regular expression of these names, whether one of their numbers rises, and the words at that number.

    Args:
        names: all names.
        ids: of the ranges, in order of time.
    """
    digits = [numbered.numbers[name] for name in ids.tolist()]
    varies = [len(set(values)) > 1 for values in zip(*digits, strict=True)]
    rising = next((at for at, varied in enumerate(varies) if varied and _rises([each[at] for each in digits])), None)
    first = names.names[int(ids[0])]
    between = [re.escape(text).replace(r"\ ", " ") for text in _NUMBER.split(first)]
    wanted = [(r"(\d+)" if at == rising else r"\d+") if varied else digits[0][at] for at, varied in enumerate(varies)]
    text = "".join(part for pair in zip(between, [*wanted, ""], strict=True) for part in pair)
    if rising is None:
        return f"^{text}$", "recurring" if any(varies) else "none", first
    return f"^{text}$", "rising", between[rising] or between[rising + 1]


def _rises(digits: list[str]) -> bool:
    if max(map(len, digits)) > LONGEST_NUMBER:
        return False
    return bool((np.diff(np.array(digits, np.int64)) > 0).all())


def _why_not(family: Family, word: str, held: IntArray, between: IntArray) -> NoStep | None:
    """Return why the ranges of a family are no steps; None if they are.

    Args:
        family: theirs.
        word: what their name says that they are.
        held: kernels launched in each.
        between: kernels launched from the end of each to the beginning of the next.
    """
    usual, unnumbered = family.kernels, family.numbers == "none"
    alike = float(((held >= usual / 2) & (held <= 2 * usual)).mean())
    more = int((between > 2 * np.median(between) + usual / 10).sum()) if len(between) else 0
    reasons: tuple[tuple[NoStep, bool], ...] = (
        ("number_recurs", family.numbers == "recurring"),
        ("part", _PART.search(word) is not None),
        ("few", family.calls < (LEAST_UNNUMBERED if unnumbered else LEAST_STEPS)),
        ("few_kernels", family.share_pct < 100 * MOST),
        ("uneven", alike < ALIKE),
        ("irregular", unnumbered and more >= OUTSIDE),
    )
    return next((why for why, holds in reasons if holds), None)


def family_table(listed: list[Family]) -> Table:
    """Return the table `step_ranges`."""
    rows = [{**as_dict(one), "thread": None if np.isnan(one.thread) else int(one.thread)} for one in listed]
    return Table.from_rows(STEP_RANGES, rows)
