"""Which CUDA call launched what: calls of the runtime and the driver, joined on correlation id and process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.readers.arrays import dense
from tcprobe.readers.nsys.columns import NONE, Columns, Ints, read_columns
from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import FloatArray

CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_THREAD: Final = 0xFFFFFF  # Nsight Systems User Guide, "Exporting": globalTid holds the process above, the thread below


def process_of(thread: Ints) -> Ints:
    """Return the globalPid of each globalTid."""
    return np.where(thread == NONE, NONE, thread & ~_THREAD)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that launched something, by process and correlation id.

    Attributes:
        key: process and correlation id as one number, ascending.
        start_ns: when each began, on the clock of the file.
        thread: globalTid.
        processes, correlations: what the keys are made of, ascending.
    """

    key: Ints
    start_ns: Ints
    thread: Ints
    processes: Ints
    correlations: Ints

    def launch_of(self, launched: Columns) -> Ints:
        """Return the call of each kernel or copy, as a row here; -1 where none was recorded."""
        process, known = _positions(self.processes, launched["globalPid"])
        correlation, listed = _positions(self.correlations, launched["correlationId"])
        place, found = _positions(self.key, process * len(self.correlations) + correlation)
        return np.where(known & listed & found, place, -1)


def _positions(among: Ints, values: Ints) -> tuple[Ints, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Return where values stand among ascending ones, and whether they do."""
    if not len(among):
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return place, among[place] == values


def read_calls(database: Database) -> Calls:
    """Read the calls; of several with one correlation id in a process the first counts."""
    calls = read_columns(database, CALLS, ("start", "globalTid", "correlationId"), _where(database))
    calls = calls.take(np.argsort(calls["start"], kind="stable")) if _unsorted(calls["start"]) else calls
    process, processes = dense(process_of(calls["globalTid"]))
    correlation, correlations = dense(calls["correlationId"])
    key = process * len(correlations) + correlation
    order = np.argsort(key, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = key[order[1:]] != key[order[:-1]]
    rows = order[first]
    return Calls(key[rows], calls["start"][rows], calls["globalTid"][rows], processes, correlations)


def _where(database: Database) -> str:
    return "[correlationId] > 0" if database.has(CALLS, "correlationId") else ""


def _unsorted(values: Ints) -> bool:
    return bool((values[1:] < values[:-1]).any())


def called_ns(calls: Calls, call: Ints, origin: int) -> FloatArray:
    """Return when each call of `launch_of` began, from `origin`; NaN where there is none."""
    if not len(calls.start_ns):
        return np.full(len(call), np.nan)
    return np.where(call < 0, np.nan, (calls.start_ns[call] - origin).astype(np.float64))
