"""Read the steps and the logged figures of a run folder: CSV that a killed run may have cut off anywhere."""

from __future__ import annotations

import csv
import math
import os
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import opened
from tcprobe.jsonfile import records
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Note
from tcprobe.schema.tables import METRICS, STEPS

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
