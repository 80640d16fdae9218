"""Divide the time in which a GPU ran no kernel among what the host did, moment by moment.

A moment lies between two changes: a stretch begins or ends, an event does, or a kernel is launched. What the host did
in it is the first of these that holds; docs/figures.md gives the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.ranges.nesting import latest
from tcprobe.analysis.waits.idle import NO_NAME, TRAINS, WORK, Gpu
from tcprobe.grouping import distinct_numbers
from tcprobe.schema.columns import IntArray
from tcprobe.schema.waits import SHORT_NS, HostWork

OF_THE_HOST: Final[tuple[HostWork, ...]] = ("profiler", "compile", "input", "communicate", "copy_call")
"""What holds up the host whatever else it does."""
LEAST_EXECUTOR_NS: Final = 1_000_000
"""A stretch as long holds no launch of tens of ops: that the executor of ops runs says nothing of launching."""
_EXECUTOR: Final = "ExecutorState::Process"
_EXECUTOR_OP: Final = re.compile(r"[^:\s]+:[^:\s]+")


class Moments(NamedTuple):
    """All moments without a kernel, in order, as equally long columns."""

    stretch: IntArray  # stretch that each belongs to
    ns: IntArray  # its length, above 0
    work: IntArray  # what the host did, as its place in `KINDS`
    name: IntArray  # event that tells so, as `names_of` numbers names; -1 for none
    range: IntArray  # innermost range of a launching thread around it, likewise
    short: NDArray[np.bool_]  # whether its stretch is shorter than `SHORT_NS`


def moments_of(gpu: Gpu) -> Moments:
    """Return the moments of a GPU's stretches without a kernel: their lengths add up to those of the stretches."""
    return _Division(gpu).moments()


class _Division:
    """The moments of one GPU while what the host did is being found."""

    def __init__(self, gpu: Gpu) -> None:
        self.events, self.idle, names = gpu.events, gpu.idle, gpu.events.names
        edges = distinct_numbers(np.concatenate([*_edges(gpu)]))
        stretch = np.searchsorted(self.idle.start_ns, edges, side="right") - 1
        inside = np.flatnonzero((stretch >= 0) & (edges < np.append(self.idle.end_ns, 0)[stretch]))
        self.stretch, self.time = stretch[inside], edges[inside]
        self.ns = np.append(edges, 0)[inside + 1] - self.time
        self.work, self.name = np.full((2, len(inside)), -1, np.int64)
        self.ops = np.array([*(_EXECUTOR_OP.fullmatch(name) is not None for name in names), False], np.bool_)
        self.count = len(names)

    def moments(self) -> Moments:
        idle, events = self.idle, self.events
        called, start = idle.call_ns[self.stretch], idle.start_ns[self.stretch]
        short = (idle.length_ns < SHORT_NS)[self.stretch]
        launched, late = called <= start, called > start
        long_op = self.ops[events.name] & (events.end_ns - events.start_ns >= SHORT_NS)
        launches, trains = events.work == WORK["launch"], events.work == TRAINS
        calling = np.isin(events.thread, events.thread[trains])
        self._of_events("copy")
        self._of_events("set")
        self._mark("queued", short & launched)
        for work in OF_THE_HOST:
            self._of_events(work)
        self._tuned()
        self._mark("queued", launched | (~short & (self.time >= called + SHORT_NS)))
        self._of_events("synchronise")
        self._mark("launch", short & late)
        self._claim_outside(trains, calling)
        self._claim("op", launches & long_op)
        self._claim("launch", launches)
        self._claim_executor()
        self._of_events("python")
        self._mark("launch", late & (self.time >= called))
        self._of_events("range")
        self._claim("unknown", trains)
        self._mark("unknown", np.ones(len(self.time), np.bool_))
        _, around = self._innermost(events.work == WORK["range"], np.arange(len(self.time)))
        return Moments(self.stretch, self.ns, self.work, self.name, around, short)

    def _last_begun(self, which: NDArray[np.bool_], rows: IntArray) -> IntArray:
        """Return the event, of these the one begun last, that lasts at each of these moments; -1 for none."""
        chosen = np.flatnonzero(which)
        chosen = chosen[np.argsort(self.events.start_ns[chosen], kind="stable")]
        if not len(chosen):
            return np.full(len(rows), -1, np.int64)
        time = self.time[rows]
        return np.append(chosen, -1)[latest(self.events.start_ns[chosen], self.events.end_ns[chosen], time, time)]

    def _innermost(self, which: NDArray[np.bool_], rows: IntArray) -> tuple[NDArray[np.bool_], IntArray]:
        """Return whether one of these events lasts at each of these moments, and the name of the one begun last."""
        event = self._last_begun(which, rows)
        return event >= 0, np.append(self.events.name, -1)[event]

    def _claim(self, work: HostWork, which: NDArray[np.bool_]) -> None:
        free = np.flatnonzero(self.work < 0)
        lasts, name = self._innermost(which, free)
        self.work[free[lasts]], self.name[free[lasts]] = WORK[work], name[lasts]

    def _of_events(self, work: HostWork) -> None:
        self._claim(work, self.events.work == WORK[work])

    def _claim_outside(self, trains: NDArray[np.bool_], calling: NDArray[np.bool_]) -> None:
        """Give moments between calls that train to what is outside of them, unless other threads run ops then.

        A frame of Python that is recorded then tells by itself.
        """
        free = np.flatnonzero(self.work < 0)
        if not trains.any() or not len(free):
            return
        launches = self.events.work == WORK["launch"]
        within, _ = self._innermost(trains | (launches & ~calling), free)
        free = free[~within]
        beside = (launches & calling) | np.isin(self.events.work, (WORK["python"], WORK["unknown"]))
        event = self._last_begun(beside, free)
        framed = np.append(self.events.work, -1)[event] == WORK["python"]
        self.work[free] = np.where(framed, WORK["python"], WORK["outside"])
        self.name[free] = np.append(self.events.name, -1)[event]

    def _claim_executor(self) -> None:
        """Tell launching apart from what the executor does where it launches nothing for long."""
        executor = [code for code, name in enumerate(self.events.names) if name == _EXECUTOR]
        long = self.idle.length_ns[self.stretch] >= LEAST_EXECUTOR_NS
        self.work[(self.work == WORK["launch"]) & np.isin(self.name, executor) & long] = WORK["executor"]

    def _mark(self, work: HostWork, where: NDArray[np.bool_]) -> None:
        self.work[where & (self.work < 0)] = WORK[work]

    def _tuned(self) -> None:
        op = self.idle.tuned[self.stretch]
        mine = (op != -1) & (self.work < 0)
        self.work[mine], self.name[mine] = WORK["compile"], np.where(op == NO_NAME, -1, op + self.count)[mine]


def _edges(gpu: Gpu) -> Iterator[IntArray]:
    """Yield the times at which something changes; of events those within some stretch."""
    idle, events = gpu.idle, gpu.events
    yield from (idle.start_ns, idle.end_ns)
    called = idle.call_ns[~np.isnan(idle.call_ns)].astype(np.int64)
    for times in (events.start_ns, events.end_ns, called, called + SHORT_NS):
        place = np.searchsorted(idle.start_ns, times, side="right") - 1
        yield times[(place >= 0) & (times < np.append(idle.end_ns, 0)[place])]
