"""Mark the steps of a profile by its ranges: those that the reader tells, or those whose names somebody gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.host import processes_of
from tcprobe.analysis.ranges.families import LONGEST_NUMBER, families, family_table
from tcprobe.errors import UsageError
from tcprobe.grouping import count_by, distinct_numbers, positions_in
from tcprobe.probe.constants import STEP_MARK
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table, Value
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import STEP_MARKS

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
