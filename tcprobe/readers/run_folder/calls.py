"""Read calls.bin: every call that trained, until the file was full."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.errors import InputError, MissingInput
from tcprobe.foreign import read
from tcprobe.probe.constants import CALL_BYTES, CALLS_MAGIC, CALLS_VERSION, MOST_CALLS, TAKEN_BACK
from tcprobe.readers.run_folder.steps import damaged, home
from tcprobe.schema.columns import IntArray
from tcprobe.schema.profile import Note

MOST_BYTES: Final = CALL_BYTES * (MOST_CALLS + 1)
BEGINS: Final = CALLS_MAGIC + CALLS_VERSION.to_bytes(2, "little") + CALL_BYTES.to_bytes(2, "little")
LATEST: Final = 2**53  # ns that a column of floats holds exactly


class Calls(Struct, frozen=True):
    """The calls of the thread that trains, in order of time."""

    keys: IntArray  # of the parts of training
    start_ns: IntArray
    steps: IntArray  # that each made
    is_full: bool = False  # so that later calls are missing
    # keys and steps of the calls of each other thread
    others: tuple[tuple[IntArray, IntArray], ...] = ()

    def since(self, first: int) -> Calls:
        """Return the calls from one on."""
        return replace(self, keys=self.keys[first:], start_ns=self.start_ns[first:], steps=self.steps[first:])


def read_calls(path: Path) -> tuple[Calls | None, tuple[Note, ...]]:
    """Return what calls.bin holds, and what is wrong with it; a last call that was cut off is dropped."""
    try:
        data = read(path, MOST_BYTES, home(path))
    except MissingInput:
        return None, ()
    except InputError as error:
        return None, (_unused(path, error.found),)
    if data[: len(BEGINS)] != BEGINS:
        return None, (_unused(path, "it does not begin as this version's does"),)
    words = np.frombuffer(data, "<i8", len(data) // CALL_BYTES * 2).reshape(-1, 2)[1:].astype(np.int64)
    start, what, steps = words[:, 0], words[:, 1] & 0xFFFFFFFF, words[:, 1] >> 32
    mine = _kept(np.flatnonzero(what < 1 << 24), steps)  # the thread that trains has number 0
    apart = [np.flatnonzero(what >> 24 == thread) for thread in np.unique(what >> 24).tolist() if thread]
    others = tuple((what[rows] & 0xFFFFFF, steps[rows]) for rows in apart)
    calls = Calls(what[mine], start[mine], steps[mine], len(steps) >= MOST_CALLS, others)
    ends = calls.start_ns[[0, -1]].tolist() if len(mine) else [0, 0]
    if ends[0] < 0 or ends[1] >= LATEST or (np.diff(calls.start_ns) < 0).any() or (steps < 0).any():
        return None, (_unused(path, "its calls are out of order, or make less than no step"),)
    return calls, ()


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
