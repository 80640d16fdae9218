"""Number the steps by all calls of a run: while it ran, what was still to come could not be known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tcprobe.jsonfile import record, records
from tcprobe.readers.run_folder.calls import Calls, read_calls
from tcprobe.readers.run_folder.periods import Stretch, find_stretches
from tcprobe.readers.run_folder.phases import Callee
from tcprobe.schema.columns import FloatArray, IntArray, Row, Table
from tcprobe.schema.op import Part
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import PHASES, STEPS

MARKED: Final = "tcprobe.step"  # the basis of steps that the script marks: no call tells them
MOST_ROWS: Final = 256  # of a phase, that are looked at for the steps that a row stands for
UNSURE: Final = Note(
    "steps-unsure",
    "all calls of the run tell of other steps than the profile marks: the steps are those that were seen while it ran",
    "mark the step: with tcprobe.step(): ...",
)
NUMBERED: Final = (("launches", "iteration"), ("step_marks", "iteration"), ("ranges", "step"), ("metrics", "step"))


class _Told(Struct):
    """What probe.json says of the steps."""

    basis: str = ""


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
        for name, column in NUMBERED:
            table = profile.table(name)
            if table is not None:
                numbers = table.numbers(column)
                changed = self.of(numbers.astype(np.float64)).astype(numbers.dtype)
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
    (calls, notes), steps = read_calls(path), own.table("steps")
    if calls is None or steps is None or not len(calls.keys):
        return None, notes
    tables = [(one.require(name), column) for one in inside for name, column in NUMBERED]
    marked = [table.numbers(column).astype(np.float64) for table, column in tables]
    return recount(steps, calls, probe, np.concatenate([*marked, np.zeros(0)]))


def recount(
    steps: Table, calls: Calls, probe: dict[str, Any], marked: FloatArray
) -> tuple[Recount | None, tuple[Note, ...]]:
    """Return the steps as all calls tell them, and what is to be said of them; None where too little repeats.

    Args:
        steps: of steps.csv.
        calls: of calls.bin.
        probe: probe.json.
        marked: numbers of the steps that the profile marks. What a mark was seen to hold stays together: where other
            steps begin or end within marks, they count as they were seen.
    """
    told, starts = record(_Told, probe.get("steps")), steps.numbers("start_ns")
    if told is None or told.basis in ("", MARKED) or (np.diff(starts) < 0).any():
        return None, ()
    row = np.searchsorted(starts, calls.start_ns, side="right") - 1
    first = int(np.searchsorted(row, 0))  # an optimizer that makes its variables is called before any step
    row, keys = row[first:], calls.keys[first:]
    callees = {one.key: one for one in records(Callee, probe.get("parts"))}
    stretches = find_stretches(keys, frozenset(one.key for one in callees.values() if not one.begins))
    if not stretches or row[0]:
        return None, ()
    begins = np.unique(np.concatenate([[0], *(part for one in stretches for part in one.begins)]).astype(np.int64))
    seen = np.append(True, np.diff(row) > 0)[begins]  # whether the step was seen to begin there
    begun = np.where(seen, starts[row[begins]], calls.start_ns[first:][begins])
    numbers = np.append(0, np.cumsum(calls.steps[first:][begins]))
    after = np.arange(row[-1] + 1, len(starts))  # of calls that came when the file was full
    later = steps.numbers("step")[after]
    all_numbers = np.append(numbers[:-1], numbers[-1] + later - (later[0] if len(later) else 0))
    table = _table(steps, np.append(begun, starts[after]), all_numbers)
    of_row = np.searchsorted(table.numbers("start_ns"), starts, side="right") - 1
    inside = np.isin(steps.numbers("step"), marked)
    held = np.bincount(of_row, inside)
    if inside[row[begins[~seen]]].any() or ((held > 0) & (held < np.bincount(of_row))).any():
        return None, (UNSURE,)
    end = int(all_numbers[-1]) + 1 if len(later) else int(numbers[-1])
    phases = _phases(stretches, np.append(numbers[:-1], end), begins, callees, told.basis)
    found = Recount(table, phases, steps.numbers("step"), all_numbers[of_row])
    return found, found.notes()


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


def _phases(
    stretches: list[Stretch], numbers: IntArray, begins: IntArray, callees: dict[int, Callee], basis: str
) -> Table:
    """Return the phases of stretches.

    Args:
        stretches: in order.
        numbers: of the steps, and how many there are.
        begins: calls that begin them.
        callees: parts of training, by key.
        basis: what told the steps while the workload ran.
    """
    first = [0, *(int(np.searchsorted(begins, one.begins[0][0])) for one in stretches[1:]), len(numbers) - 1]
    rows: list[Row] = []
    for number, (stretch, (begin, end)) in enumerate(zip(stretches, pairwise(first), strict=True)):
        steps = Counter(np.diff(numbers[begin : end + 1])[:MOST_ROWS].tolist()).most_common(1)[0][0]
        parts = sorted(Counter(stretch.pattern).items())
        made = (Part(key, callees[key].name if key in callees else "", calls / max(1, steps)) for key, calls in parts)
        rows.append(
            {
                "phase": number,
                "first_step": int(numbers[begin]),
                "last_step": int(numbers[end]) - 1,
                "steps": int(numbers[end] - numbers[begin]),
                "parts": Part.text_of(made),
                "basis": "period" if basis == "dominant function" else basis,
            }
        )
    return Table.from_rows(PHASES, rows)
