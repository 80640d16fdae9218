"""Mark the steps of a profile by its ranges: those that the reader tells, or those whose names somebody gives.

Tell which ranges may be steps, where nobody says which are.

A family is one name, or names that differ in a number: `iteration 7`, `iteration 8`. Its ranges are steps where they
hold most kernels, each about as many, and their number rises and never comes twice on a thread. The number of a layer
or a rank comes again with each step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.analysis.host import LEAST_STEPS, processes_of
from tcprobe.errors import UsageError
from tcprobe.grouping import count_by, distinct_numbers, distinct_rows, positions_in, rows_by_group
from tcprobe.probe.constants import STEP_MARK
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table, Value
from tcprobe.schema.kinds import NoStep, RangeNumbers
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.records import as_dict
from tcprobe.schema.tables import STEP_MARKS, STEP_RANGES

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


MOST_NAMED: Final = 5


def with_steps(profile: Profile, pattern: str | None) -> Profile:
    """Return the profile with step marks from its ranges, and the step of each launch and copy.

    Where no profiler recorded anything, the steps that the workload itself was seen to make are marked. Where neither a
    profiler nor a reader marks steps, ranges count that can hardly be anything else (`families`).

    Args:
        profile: as read; steps of its own stay.
        pattern: regular expression for the names of ranges that are steps, in place of all others; None: the kind says.

    Raises:
        UsageError: no range has such a name.
    """
    if pattern is not None:
        return _marked(_named(profile, pattern))
    if profile.is_unprofiled:
        return _by_the_workload(profile)
    launches = profile.require("launches")
    if len(profile.require("step_marks")) or not np.isnan(launches.numbers("iteration")).all():
        return profile
    ranges = profile.require("ranges")
    if ranges.names("kind").among("step").any():
        return _marked(profile)
    listed = families(profile)
    if listed:
        profile = profile.with_tables(family_table(listed))
    chosen = listed[0] if listed and listed[0].why_not is None else None
    return profile if chosen is None else _marked(_named(profile, chosen.pattern))


def _marked(profile: Profile) -> Profile:
    ranges = profile.require("ranges")
    rows = np.flatnonzero(ranges.names("kind").among("step"))
    if not len(rows):
        return profile
    marked = ranges.take(rows)
    steps = _in_a_row(marked)
    numbers, given = steps.values("step"), steps.numbers("step")
    known = not np.isnan(given).any()
    repeat = known and len(set(numbers)) < len(numbers)
    if not known or repeat:
        numbers = list(range(len(steps)))
    starts = steps.numbers("start_ns")
    profile = mark_steps(profile, numbers, steps.names("name"), starts, starts + steps.numbers("duration_ns"))
    if not known or repeat:
        return profile.with_notes(*_notes(marked, repeat, 1))
    profile, processes = _by_process(profile, marked)
    return profile.with_notes(*_notes(marked, repeat, processes))


def mark_steps(
    profile: Profile, numbers: Sequence[Value], names: Names | list[str], starts: IntArray, ends: IntArray
) -> Profile:
    """Return the profile with these steps, in order of time; launches and copies belong to the last that had begun."""
    columns = {"iteration": numbers, "name": names, "start_ns": starts, "end_ns": ends}
    profile = profile.with_tables(Table(STEP_MARKS, columns))
    for name in ("launches", "memory_ops"):
        table = profile.table(name)
        if table is not None:
            at = _during(starts, np.array(numbers, np.float64), table.numbers("launch_ns"))
            profile = profile.with_tables(table.with_columns(iteration=at))
    return profile


def _by_the_workload(profile: Profile) -> Profile:
    """Return the profile with its steps as marks; one whose length is unknown ends as it starts."""
    steps = profile.require("steps")
    if not len(steps):
        return profile
    starts = steps.numbers("start_ns")
    ends = starts + np.nan_to_num(steps.numbers("duration_ns"))
    names = [STEP_MARK] * len(steps)
    columns = {"iteration": steps.numbers("step"), "name": names, "start_ns": starts, "end_ns": ends}
    return profile.with_tables(Table(STEP_MARKS, columns))


def _by_process(profile: Profile, marked: Table) -> tuple[Profile, int]:
    """Return the launches of each process that numbers its steps in those of its own, and how many do.

    Copies, whose thread is not recorded, stay in the steps of the process that marks most.
    """
    launches, owner = profile.require("launches"), processes_of(profile, marked.numbers("thread"))
    each = distinct_numbers(owner[~np.isnan(owner)].astype(np.int64))
    if len(each) < 2:
        return profile, 1
    callers, at = processes_of(profile, launches.numbers("thread")), launches.numbers("iteration").copy()
    done = 0
    for process in each.tolist():
        steps = _in_a_row(marked.take(owner == process))
        numbers = steps.numbers("step")
        if np.isnan(numbers).any() or len(np.unique(numbers)) < len(numbers):
            continue
        mine, done = np.flatnonzero(callers == process), done + 1
        at[mine] = _during(steps.numbers("start_ns"), numbers, launches.numbers("launch_ns")[mine])
    return (profile.with_tables(launches.with_columns(iteration=at)) if len(launches) else profile), max(done, 1)


def _notes(marked: Table, repeat: bool, processes: int) -> Iterator[Note]:
    """Yield what the choice of steps leaves open: threads that train side by side need not keep step.

    Args:
        marked: the ranges that are steps.
        repeat: whether their numbers do.
        processes: how many count by themselves.
    """
    if repeat:
        message = "step numbers of the profile's ranges repeat: steps are numbered from 0 in order of time"
        yield Note("step-numbers-repeat", message, level="note")
    threads = len(set(marked.values("thread")))
    if threads > processes:
        message = f"{threads:,} threads mark steps: those of one count, also for what the others launched meanwhile"
        yield Note("steps-of-one-thread", message, "where they do not keep step, record each process by itself")
    if processes > 1:
        message = (
            f"{processes:,} processes mark steps: a launch counts to the step of its own process, the length of a step "
            "is that of the process that marks most"
        )
        yield Note("steps-by-process", message, level="note")


def _in_a_row(ranges: Table) -> Table:
    """Return the steps of the thread that marks most, in order, without steps that begin within another."""
    threads = np.nan_to_num(ranges.numbers("thread"), nan=-1.0).astype(np.int64)
    each = distinct_numbers(threads)
    thread = each[np.argmax(count_by(positions_in(threads, each), len(each)))]
    mine = ranges.take(threads == thread)
    mine = mine.take(np.lexsort((-mine.numbers("duration_ns"), mine.numbers("start_ns"))))
    starts = mine.numbers("start_ns")
    after = np.searchsorted(starts, starts + mine.numbers("duration_ns")).tolist()
    kept, row = [], 0
    while row < len(after):
        kept.append(row)
        row = max(row + 1, after[row])
    return mine.take(np.array(kept, np.int64))


def _during(starts: IntArray, numbers: FloatArray, called: FloatArray) -> FloatArray:
    """Return the number of the last step that had begun at each call; NaN before the first, and of unknown calls."""
    known = np.flatnonzero(~np.isnan(called))
    place = np.searchsorted(starts, called[known].astype(np.int64), side="right") - 1
    during: FloatArray = np.full(len(called), np.nan)
    during[known] = np.where(place >= 0, numbers[place], np.nan)
    return during


def _named(profile: Profile, pattern: str) -> Profile:
    """Return the profile with ranges of such names as its steps, and no others."""
    ranges = profile.table("ranges")
    if ranges is None or not len(ranges):
        raise UsageError(
            f"--step-range {pattern!r}: this profile records no ranges (NVTX) to take steps from",
            "leave --step-range out; ranges need --trace=nvtx, and an nsys as new as the library that writes them",
        )
    names = ranges.names("name")
    found = [re.search(pattern, name) for name in names.names]
    chosen = np.array([match is not None for match in found] + [False], np.bool_)[names.ids]
    if not chosen.any():
        raise UsageError(f"--step-range {pattern!r}: no range of this profile has such a name", _most(names))
    given = np.array([_number(match) for match in found] + [np.nan])[names.ids]
    steps = np.where(chosen, given, np.nan)
    return profile.with_tables(ranges.with_columns(kind=_kinds(ranges.names("kind"), chosen), step=steps))


def _number(match: re.Match[str] | None) -> float:
    """Return the number of a step: that of the group `step`, else of the only group, else the first in the match."""
    if match is None:
        return np.nan
    if "step" in match.re.groupindex:
        text = match["step"]
    elif match.re.groups == 1:
        text = match[1]
    else:
        first = re.search(r"\d+", match[0])
        text = first and first[0]
    whole = re.fullmatch(r"\s*([0-9]+)\s*", text or "")
    return float(whole[1]) if whole and len(whole[1]) <= LONGEST_NUMBER else np.nan


def _kinds(kinds: Names, chosen: NDArray[np.bool_]) -> Names:
    """Return the kinds of ranges where the chosen ones are the steps."""
    ids = np.where(kinds.among("step"), -1, kinds.ids)
    return Names(np.where(chosen, len(kinds.names), ids), [*kinds.names, "step"])


def _most(names: Names) -> str:
    """Return what to type: the names that most ranges have."""
    counts = count_by(names.ids, len(names.names))
    order = np.argsort(-counts, kind="stable")[:MOST_NAMED].tolist()
    listed = ", ".join(f"{names.names[i]} ({counts[i]:,})" for i in order if counts[i])
    return f"the most frequent are {listed}: give what the names of steps have, as in --step-range '^step (\\d+)'"
