"""Read what the probe wrote as the run went on, which a killed run may have cut off anywhere.

That is steps.csv, metrics.csv, calls.bin (every call that trained, until the file was full) and gradients.json (what
float16 would make of the gradients that a run counted, `--numerics`).
"""

from __future__ import annotations

import csv
import json
import math
import os
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import opened, read
from tcprobe.jsonfile import MOST_BYTES, Text, read_object, records
from tcprobe.probe.constants import (
    CALL_BYTES,
    CALLS_MAGIC,
    CALLS_VERSION,
    EXPONENTS,
    HANDED_OVER,
    MOST_CALLS,
    TAKEN_BACK,
)
from tcprobe.schema.columns import IntArray, Table
from tcprobe.schema.profile import Note
from tcprobe.schema.tables import GRADIENTS, METRICS, STEPS

MOST_LOG_BYTES: Final = 1 << 30  # a month of steps of 100 ms; one step takes 30 bytes
KINDS: Final = STEPS.column("kind").values
TableAndNotes = tuple[Table | None, tuple[Note, ...]]


class _Pause(Struct):
    """A time that the process stood still."""

    start_ns: int
    stop_ns: Annotated[int, Meta(lt=2**53)]


def read_steps(path: Path, probe: dict[str, Any], last_bytes: int | None = None) -> TableAndNotes:
    """Return `STEPS` of steps.csv; the length of a step is the distance to the next one's start.

    Where numbers jump, one call made several steps (steps_per_execution): each takes its share of the distance.
    A last line that was cut off is dropped; a damaged one elsewhere is skipped and counted, and then a jump in the
    numbers gives no length to the step before it. A step in which the whole process stood still has none either.
    With `last_bytes` only the end of the file is read, where a run that is being watched goes on.
    """
    lines, refused = _rows(path, last_bytes)
    rows = [row for row in lines if len(row) == 3 and _whole(row[0]) and _whole(row[1])]
    notes = (*refused, *_skipped(path, len(lines) - len(rows)))
    if not rows:
        return None, notes
    steps, starts = [int(r[0]) for r in rows], [int(r[1]) for r in rows]
    jumps = [b - a for a, b in pairwise(steps)]
    sure = [jump == 1 or (jump > 1 and not notes) for jump in jumps]
    apart = [b - a for a, b in pairwise(starts)]
    lengths = [d // j if ok and d >= 0 else None for d, j, ok in zip(apart, jumps, sure, strict=True)]
    pauses = _pauses(probe)
    if pauses and min(apart, default=0) >= 0:
        notes += (_stood_still(pauses),)
        for row in _paused(starts, pauses):
            lengths[row] = None
    kinds = [r[2] if r[2] in KINDS else "measured" for r in rows]
    return Table(STEPS, {"step": steps, "start_ns": starts, "duration_ns": [*lengths, None], "kind": kinds}), notes


def _pauses(probe: dict[str, Any]) -> list[tuple[int, int]]:
    """Return start and stop of each time that the process stood still, in order, without those that overlap."""
    found: list[tuple[int, int]] = []
    for pause in records(_Pause, probe.get("pauses")):
        if (found[-1][1] if found else 0) <= pause.start_ns < pause.stop_ns:
            found.append((pause.start_ns, pause.stop_ns))
    return found


def _paused(starts: list[int], pauses: list[tuple[int, int]]) -> list[int]:
    """Return the rows in which the process stood still: a pause was seen with the moments before and after it."""
    rows = list[int]()
    for start, stop in pauses:
        near = range(max(0, bisect_right(starts, start) - 1), min(bisect_left(starts, stop), len(starts) - 1))
        rows += [row for row in near if starts[row + 1] - starts[row] > (stop - start) / 2]
    return rows


def _stood_still(pauses: list[tuple[int, int]]) -> Note:
    times = "once" if len(pauses) == 1 else f"{len(pauses)} times"
    seconds = sum(stop - start for start, stop in pauses) / 1e9
    why = "stopped by Ctrl-Z or its like, or its machine was"
    message = f"the workload stood still {times}, for {seconds:.0f} s ({why}): steps that this fell into have no length"
    return Note("stood-still", message, None, "note")


def read_metrics(path: Path, last_bytes: int | None = None) -> TableAndNotes:
    """Return `METRICS` of metrics.csv, or of its end; damaged lines are skipped and counted."""
    lines, refused = _rows(path, last_bytes)
    rows = [row for row in lines if len(row) == 4 and row[1] and _figure(row[2]) is not None]
    notes = (*refused, *_skipped(path, len(lines) - len(rows)))
    if not rows:
        return None, notes
    columns = {
        "step": [int(r[0]) if _whole(r[0]) else None for r in rows],
        "name": [r[1] for r in rows],
        "value": [_figure(r[2]) for r in rows],
        "unit": [r[3] or None for r in rows],
    }
    return Table(METRICS, columns), notes


def _rows(path: Path, last_bytes: int | None) -> tuple[list[list[str]], tuple[Note, ...]]:
    """Return the rows below the header, without a last line that was cut off, and why the file cannot be read."""
    try:
        with opened(path, MOST_LOG_BYTES, home(path)) as file:
            if last_bytes is not None:
                file.seek(max(0, file.seek(0, os.SEEK_END) - last_bytes))
            text = file.read().decode("utf-8", "replace")
    except MissingInput:
        return [], ()
    except InputError as error:
        return [], (damaged(path, error.found, "nothing of it is used"),)
    whole = text[: text.rfind("\n") + 1].replace("\0", "").splitlines()
    try:
        return [row for row in list(csv.reader(whole))[1:] if row], ()
    except csv.Error:
        return [row for line in whole[1:] if (row := _fields(line))], ()


def home(path: Path) -> Path:
    """Return the run folder of a file of the probe's; no link of it is followed beyond."""
    return path.parent.parent


def _fields(line: str) -> list[str]:
    try:
        return next(iter(csv.reader([line])), [])
    except csv.Error:
        return [""]


def _skipped(path: Path, count: int) -> tuple[Note, ...]:
    if not count:
        return ()
    lines = "1 line is" if count == 1 else f"{count} lines are"
    return (damaged(path, f"{lines} damaged", "skipped"),)


def _whole(text: str) -> bool:
    """Whether it is a whole number that a float64 column holds exactly."""
    return text.isascii() and text.isdigit() and len(text) <= 16 and int(text) < 2**53


def _figure(text: str) -> float | None:
    """Return the number; NaN and infinities are figures that a script may log, and digits past a double's are none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isinf(value) and "inf" not in text.lower() else value


def damaged(path: Path, found: str, effect: str) -> Note:
    """Return the note on a file of the probe's: what is wrong with it, and what that costs."""
    name = f"{path.parent.name}/{path.name}"
    return Note(f"damaged-{path.stem}", f"{name}: {found}: {effect}", "run `tcprobe profile` again to have it whole")


MOST_CALL_BYTES: Final = CALL_BYTES * (MOST_CALLS + 1)
BEGINS: Final = CALLS_MAGIC + CALLS_VERSION.to_bytes(2, "little") + CALL_BYTES.to_bytes(2, "little")
LATEST: Final = 2**53  # ns that a column of floats holds exactly


class Calls(Struct, frozen=True):
    """The calls of the thread that trains, in order of time."""

    keys: IntArray  # of the parts of training
    start_ns: IntArray
    steps: IntArray  # that each made
    is_full: bool = False  # so that later calls are missing
    # number, keys and steps of each thread: of those that had the steps while they did, and of the others beside them
    mine: tuple[tuple[int, IntArray, IntArray], ...] = ()
    others: tuple[tuple[int, IntArray, IntArray], ...] = ()

    def since(self, first: int) -> Calls:
        """Return the calls from one on."""
        return replace(self, keys=self.keys[first:], start_ns=self.start_ns[first:], steps=self.steps[first:])


def read_calls(path: Path) -> tuple[Calls | None, tuple[Note, ...]]:
    """Return what calls.bin holds, and what is wrong with it; a last call that was cut off is dropped."""
    try:
        data = read(path, MOST_CALL_BYTES, home(path))
    except MissingInput:
        return None, ()
    except InputError as error:
        return None, (_unused(path, error.found),)
    if data[: len(BEGINS)] != BEGINS:
        return None, (_unused(path, "it does not begin as this version's does"),)
    words = np.frombuffer(data, "<i8", len(data) // CALL_BYTES * 2).reshape(-1, 2)[1:].astype(np.int64)
    start, what, steps = words[:, 0], words[:, 1] & 0xFFFFFFFF, words[:, 1] >> 32
    mine = _kept(np.flatnonzero(what < 1 << 24), steps)  # the thread that trains has number 0
    thread, key, handed = what >> 24, what & 0xFFFFFF, np.flatnonzero(steps == HANDED_OVER)
    apart = {one: np.flatnonzero((thread == one) & (steps != HANDED_OVER)) for one in np.unique(thread[thread > 0])}
    others = tuple((int(one), key[rows], steps[rows]) for one, rows in apart.items() if len(rows))
    owners = [*thread[handed[:1]].tolist(), *key[handed].tolist()] or [0]
    owned = zip(owners, np.split(mine, np.searchsorted(mine, handed)), strict=True)
    held = tuple((one, what[rows], steps[rows]) for one, rows in owned)
    calls = Calls(what[mine], start[mine], steps[mine], len(steps) >= MOST_CALLS, held, others)
    if (np.diff(calls.start_ns) < 0).any():
        calls = _in_order(calls)
    ends = calls.start_ns[[0, -1]].tolist() if len(mine) else [0, 0]
    if ends[0] < 0 or ends[1] >= LATEST or (np.diff(calls.start_ns) < 0).any() or (steps < 0).any():
        return None, (_unused(path, "its calls are out of order, or make less than no step"),)
    return calls, ()


def _in_order(calls: Calls) -> Calls:
    """Return calls with the first of each part, which is counted late where it turned out to train, where it began."""
    first = np.unique(calls.keys, return_index=True)[1]
    if (np.diff(np.delete(calls.start_ns, first)) < 0).any():
        return calls
    order = np.argsort(calls.start_ns, kind="stable")
    return replace(calls, keys=calls.keys[order], start_ns=calls.start_ns[order], steps=calls.steps[order])


def _unused(path: Path, found: str) -> Note:
    return damaged(path, found, "steps and phases are those that were seen while the workload ran")


def _kept(rows: IntArray, steps: IntArray) -> IntArray:
    """Return the rows of calls without those that were taken back, each time the latest one."""
    backs = steps[rows] == TAKEN_BACK
    if not backs.any():
        return rows
    kept: list[int] = []
    for row, back in zip(rows.tolist(), backs.tolist(), strict=True):
        if not back:
            kept.append(row)
        elif kept:
            kept.pop()
    return np.array(kept, np.int64)


_Count = Annotated[float, Meta(ge=0, lt=2**53)]
_COUNTED: Final = ("updates", "size", "values", "zeros", "not_finite", "gone", "subnormal", "infinite")


class _Gradient(Struct):
    """A weight, with sums over its updates; see `tcprobe.probe.tensorflow.gradients`."""

    name: Text
    updates: Annotated[float, Meta(ge=1, lt=2**53)]
    size: _Count
    scale: Annotated[float, Meta(gt=0)]
    values: _Count
    zeros: _Count
    not_finite: _Count
    gone: _Count
    subnormal: _Count
    infinite: _Count
    larger: list[_Count]
    layer: Text | None = None

    def is_whole(self, exponents: list[int]) -> bool:
        """Return whether its counts can be true: the kinds of its values are no more than these, nor those beyond."""
        kinds = self.zeros + self.not_finite + self.gone + self.subnormal + self.infinite
        beyond = [self.values - self.zeros - self.not_finite, *self.larger]  # which falls, from exponent to exponent
        of_all = kinds <= self.values <= self.size and beyond == sorted(beyond, reverse=True)
        return of_all and len(self.larger) == len(exponents)


def read_gradients(path: Path) -> TableAndNotes:
    """Return `GRADIENTS`; None where nothing was counted. A record that is damaged is skipped and counted."""
    try:
        read(path, MOST_BYTES, home(path))
    except MissingInput:
        return None, ()
    except InputError as error:
        return None, (damaged(path, error.found, "nothing of it is used"),)
    data = read_object(path, home(path))
    exponents: Any = data.get("exponents")
    if not isinstance(exponents, list) or any(type(one) is not int for one in exponents):
        exponents = []
    exponents = exponents if exponents == sorted({*exponents, *EXPONENTS}) else []
    given: Any = data.get("gradients")
    rows = [one for one in records(_Gradient, given) if exponents and one.is_whole(exponents)]
    lost = len(given) - len(rows) if isinstance(given, list) else 1
    notes = (damaged(path, f"{lost} of its records are damaged", "skipped"),) if lost else ()
    rows = [row for row in rows if row.values]  # the others are of empty gradients
    return (_gradient_table(rows, exponents) if rows else None), notes


def _gradient_table(rows: list[_Gradient], exponents: list[int]) -> Table:
    columns: dict[str, list[Any]] = {name: [int(getattr(row, name)) for row in rows] for name in _COUNTED}
    columns |= {name: [getattr(row, name) for row in rows] for name in ("layer", "scale")}
    columns |= {
        "weight": [row.name for row in rows],
        "zero_pct": [100.0 * (row.zeros + row.gone) / row.values for row in rows],
        "subnormal_pct": [100.0 * row.subnormal / row.values for row in rows],
        "infinite_pct": [100.0 * (row.not_finite + row.infinite) / row.values for row in rows],
        "larger": [json.dumps({str(e): int(n) for e, n in zip(exponents, row.larger, strict=True)}) for row in rows],
    }
    return Table(GRADIENTS, columns)
