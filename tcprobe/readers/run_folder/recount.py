"""Number the steps by all calls of a run: while it ran, what was still to come could not be known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.jsonfile import Count, record, records
from tcprobe.probe.constants import DOMAIN, STEP_MARK
from tcprobe.readers.run_folder.periods import MOST_PHASES, Callee, Stretch, find_stretches
from tcprobe.readers.run_folder.steps import Calls, read_calls
from tcprobe.schema.columns import FloatArray, IntArray, Row, Table
from tcprobe.schema.op import Part
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import PHASES, RANGES, STEP_MARKS, STEPS

MARKED: Final = "tcprobe.step"  # the basis of steps that the script marks: no call tells them
MOST_ROWS: Final = 256  # of a phase, that are looked at for the steps that a row stands for
UNSURE: Final = Note(
    "steps-unsure",
    "all calls of the run tell of other steps than the profile marks: the steps are those that were seen while it ran",
    "mark the step: with tcprobe.step(): ...",
)
MOST_THREADS: Final = 4  # whose updates are listed
STEADY: Final = 3  # steps in a row, alike and unlike those before, after which the script's own are another phase
NUMBERED: Final = (("launches", "iteration"), ("step_marks", "iteration"), ("ranges", "step"), ("metrics", "step"))


class _Told(Struct):
    """What probe.json says of the steps."""

    basis: str = ""
    count: Count = 0


class _Log(Struct):
    """What probe.json says of calls.bin."""

    lost: Count = 0


class Recount(Struct, frozen=True):
    """The steps and phases of a run as all of its calls tell them."""

    steps: Table
    phases: Table
    # of the rows of steps.csv: their numbers there, and what they are
    seen: IntArray
    numbers: IntArray

    @property
    def moved(self) -> int:
        """Return how many steps have another number than while the workload ran."""
        return int(np.count_nonzero(self.seen != self.numbers))

    def of(self, steps: FloatArray) -> FloatArray:
        """Return what steps are that had these numbers while the workload ran; NaN stays."""
        row = np.searchsorted(self.seen, steps, side="right") - 1
        moved: FloatArray = np.where(row < 0, steps, steps + (self.numbers - self.seen)[row.clip(0)])
        return moved

    def renumber(self, profile: Profile) -> Profile:
        """Return a profile whose rows have the numbers of these steps."""
        for table, column, ours in _numbered(profile) if self.moved else ():
            numbers = table.numbers(column)
            changed = np.where(ours, self.of(numbers.astype(np.float64)), numbers).astype(numbers.dtype)
            profile = profile.with_tables(table.with_columns(**{column: changed}))
        return profile

    def window(self, window: Any) -> Any:
        """Return the window of probe.json, or of run.json, with the numbers of these steps."""
        if not isinstance(window, dict):
            return window
        found = {**window, "session": self.window(window.get("session"))} if "session" in window else dict(window)
        for key in ("first_step", "last_step"):
            if isinstance(found.get(key), int):
                found[key] = int(self.of(np.array([found[key]], np.float64))[0])
        return found

    def notes(self) -> tuple[Note, ...]:
        """Say that numbers differ."""
        if not self.moved:
            return ()
        message = f"{self.moved:,} of {len(self.seen):,} steps have other numbers than while the workload ran"
        return (Note("steps-renumbered", f"{message}: what was called later tells where they begin", None, "note"),)


def read_recount(
    path: Path, own: Profile, probe: dict[str, Any], inside: Sequence[Profile]
) -> tuple[Recount | None, tuple[Note, ...]]:
    """Return the steps as all calls in a file tell them, and what is to be said of them; None where nothing tells.

    Args:
        path: of calls.bin.
        own: steps of steps.csv.
        probe: probe.json.
        inside: what profilers recorded.
    """
    (calls, notes), steps, told = read_calls(path), own.table("steps"), record(_Told, probe.get("steps"))
    if calls is not None and (log := record(_Log, probe.get("calls"))) is not None and log.lost:
        message = f"calls.bin was full: it lacks the last {log.lost:,} calls, and their steps are as they were seen"
        notes = (Note("calls-not-kept", message, None, "note"),)
    if calls is None or steps is None or told is None or not told.basis:
        return None, notes
    callees = {one.key: one for one in records(Callee, probe.get("parts"))}
    notes += _threads(calls, callees)
    starts, numbers = steps.numbers("start_ns"), steps.numbers("step")
    if (np.diff(starts) < 0).any() or (np.diff(numbers) < 1).any():
        return None, notes
    row = np.searchsorted(starts, calls.start_ns, side="right") - 1
    first = int(np.searchsorted(row, 0))  # an optimizer that makes its variables is called before any step
    calls, row = calls.since(first), row[first:]
    followers = frozenset(one.key for one in callees.values() if not one.begins)
    stretches = [] if told.basis == MARKED else find_stretches(calls.keys, followers)
    lengths = _marked_ns(inside, numbers)
    found = _counted(steps, calls, row, stretches, callees, told, lengths) if stretches and not row[0] else None
    if found is not None:
        return found, (*notes, *found.notes())
    unsure = (*notes, UNSURE) if stretches else notes
    if "phases" in probe and told.basis != MARKED:  # by a probe that told them itself; of marks it may count calls late
        return None, unsure
    cuts = _steady(row, calls.keys, len(steps)) if told.basis == MARKED else [0]
    cuts = sorted({0, *(int(row[one.begins[0][0]]) for one in stretches[1:])}) if stretches else cuts
    if len(cuts) > MOST_PHASES:
        return None, unsure
    ended = max(len(steps) - 1, 1 if told.basis == MARKED else 0)  # the last is still running
    ended = min(ended, int(row[-1])) if calls.is_full else ended
    return Recount(steps, _means(steps, cuts, ended, row, calls.keys, callees, told), numbers, numbers), unsure


def _threads(calls: Calls, callees: dict[int, Callee]) -> tuple[Note, ...]:
    """Say that several threads train, and how many updates each made."""
    after = [one.key for one in callees.values() if not one.begins]
    made: Counter[int] = Counter()
    for thread, keys, steps in (*calls.mine, *calls.others):
        made[thread] += int(steps[~np.isin(keys, after)].sum())
    mine, counts = sum(int(steps[~np.isin(keys, after)].sum()) for _, keys, steps in calls.mine), [*made.values()]
    if not mine or mine == sum(counts):
        return ()
    listed = ", ".join(f"{count:,}" for count in counts[:MOST_THREADS]) + ", ..." * (len(counts) > MOST_THREADS)
    message = (
        f"threads train at once, with {listed} updates: the steps are {mine:,} of these, of one thread at a time; "
        "times and calls of ops and kernels hold what all ran"
    )
    return (Note("threads", message, None, "note"),)


def _numbered(profile: Profile) -> Iterator[tuple[Table, str, NDArray[np.bool_]]]:
    """Yield the tables that number steps as the probe did while it ran, the columns, and which rows."""
    by_marks = STEP_MARK in profile.require("step_marks").values("name")
    for name, column in NUMBERED:
        table = profile.table(name)
        if table is None or (name in ("launches", "step_marks") and not by_marks):
            continue
        yield table, column, table.names("domain").among(DOMAIN) if name == "ranges" else np.ones(len(table), np.bool_)


def _marked_ns(inside: Sequence[Profile], numbers: IntArray) -> FloatArray:
    """Return how long the profile's marks of each step last, at the most; -1 where it has none."""
    lengths = np.full(len(numbers), -1.0)
    for table, column, ours in (each for one in inside for each in _numbered(one)):
        if table.spec not in (STEP_MARKS, RANGES):
            continue
        is_range, step = table.spec is RANGES, table.numbers(column)
        spent = table.numbers("duration_ns") if is_range else table.numbers("end_ns") - table.numbers("start_ns")
        row = np.searchsorted(numbers, step).clip(max=len(numbers) - 1)
        known = ours & (numbers[row] == step)
        np.maximum.at(lengths, row[known], spent[known])
    return lengths


def _counted(
    steps: Table,
    calls: Calls,
    row: IntArray,
    stretches: list[Stretch],
    callees: dict[int, Callee],
    told: _Told,
    lengths: FloatArray,
) -> Recount | None:
    """Return the steps of stretches; None where one begins or ends within marks of others, or makes no step.

    Args:
        steps: of steps.csv.
        calls: all but those before the first step.
        row: of `steps`, of each call.
        stretches: of the calls.
        callees: parts of training, by key.
        told: what probe.json says of the steps.
        lengths: of the marks of `steps`, in ns; negative where there is none. What a mark was seen to hold stays
            together; it ended where the pattern of the calls broke.
    """
    starts = steps.numbers("start_ns")
    begins = np.unique(np.concatenate([[0], *(part for one in stretches for part in one.begins)]).astype(np.int64))
    seen = np.append(True, np.diff(row) > 0)[begins]  # whether the step was seen to begin there
    begun = np.where(seen, starts[row[begins]], calls.start_ns[begins])
    numbers = np.append(0, np.cumsum(calls.steps[begins]))
    after = np.arange(row[-1] + 1, len(starts))  # of calls that came when the file was full
    later = steps.numbers("step")[after]
    all_numbers = np.append(numbers[:-1], numbers[-1] + later - (later[0] if len(later) else 0))
    table = _table(steps, np.append(begun, starts[after]), all_numbers)
    of_row = np.searchsorted(table.numbers("start_ns"), starts, side="right") - 1
    held, unseen = np.bincount(of_row, lengths >= 0), begins[~seen]
    cut = (calls.start_ns[unseen] - starts[row[unseen]] <= lengths[row[unseen]]).any()
    cut = cut or ((held > 0) & (held < np.bincount(of_row))).any()
    if cut or (np.diff(all_numbers) < 1).any():
        return None
    end = int(all_numbers[-1]) + 1 if len(later) else int(numbers[-1])
    basis = "period" if told.basis == "dominant function" else told.basis
    first = [0, *(int(np.searchsorted(begins, one.begins[0][0])) for one in stretches[1:])]
    parts = [Counter(one.pattern) for one in stretches]
    phases = _phases(np.append(numbers[:-1], end), first, parts, callees, basis)
    return Recount(table, phases, steps.numbers("step"), all_numbers[of_row])


def _table(steps: Table, starts: IntArray, numbers: IntArray) -> Table:
    """Return the steps that begin at these times, with the numbers under which they were seen."""
    row = np.searchsorted(steps.numbers("start_ns"), starts, side="right") - 1
    seen = steps.numbers("step")[row]
    if len(starts) == len(steps) and (seen == numbers).all() and (np.diff(row) > 0).all():
        return steps
    apart, made = np.diff(starts), np.diff(numbers)
    unknown = np.append(0, np.cumsum(np.isnan(steps.numbers("duration_ns"))))[row]
    lengths = np.where((made > 0) & (np.diff(unknown) == 0), apart // made.clip(1), np.nan)
    kinds = steps.values("kind")
    return Table(
        STEPS,
        {
            "step": numbers,
            "start_ns": starts,
            "duration_ns": np.append(lengths, np.nan),
            "kind": [kinds[each] for each in row.tolist()],
            "live_step": np.where(seen == numbers, np.nan, seen),
        },
    )


def _steady(row: IntArray, keys: IntArray, count: int) -> list[int]:
    """Return where phases begin of steps that the script marks itself: where their calls change for good.

    Args:
        row: of the step of each call.
        keys: of the calls.
        count: number of steps; of the last nobody knows what it would still have called.
    """
    each: list[Counter[int]] = [Counter() for _ in range(count)]
    for step, key in zip(row.tolist(), keys.tolist(), strict=True):
        each[step][key] += 1
    cuts, alike = [0], 0
    usual: Counter[int] | None = None
    for step, calls in enumerate(each[:-1]):
        alike = alike + 1 if step and calls == each[step - 1] else 1
        if alike == STEADY and calls != usual:
            cuts += [] if usual is None else [step - STEADY + 1]
            usual = calls
    return cuts


def _means(
    steps: Table, cuts: list[int], ended: int, row: IntArray, keys: IntArray, callees: dict[int, Callee], told: _Told
) -> Table:
    """Return phases that begin with these rows of `steps`, with the mean calls of a row, of those before `ended`."""
    numbers = steps.numbers("step")
    parts = []
    for begin, end in pairwise([*cuts, ended]):
        held = Counter(keys[(row >= begin) & (row < end)].tolist())
        parts.append({key: calls / (end - begin) for key, calls in held.items()})
    return _phases(np.append(numbers, max(told.count, int(numbers[-1]) + 1)), cuts, parts, callees, told.basis)


def _phases(
    numbers: IntArray, first: list[int], parts: Sequence[Mapping[int, float]], callees: dict[int, Callee], basis: str
) -> Table:
    """Return a table of phases.

    Args:
        numbers: of the steps, and how many there are.
        first: rows of the first step of each.
        parts: calls of each part in a row of it, by key.
        callees: parts of training, by key.
        basis: what tells the steps.
    """
    rows: list[Row] = []
    for number, (calls, (begin, end)) in enumerate(zip(parts, pairwise([*first, len(numbers) - 1]), strict=True)):
        steps = Counter(np.diff(numbers[begin : end + 1])[:MOST_ROWS].tolist()).most_common(1)[0][0]
        each = sorted(calls.items())
        rows.append(
            {
                "phase": number,
                "first_step": int(numbers[begin]),
                "last_step": int(numbers[end]) - 1,
                "steps": int(numbers[end] - numbers[begin]),
                "parts": Part.text_of(Part(k, callees[k].name if k in callees else "", n / steps) for k, n in each),
                "basis": basis,
            }
        )
    return Table.from_rows(PHASES, rows)
