"""Tell from the name of a host event what the host does, and keep the long events while a GPU runs no kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.probe.constants import STEP_MARK
from tcprobe.readers.arrays import Ints
from tcprobe.readers.xspace.gpu import DeviceEvents
from tcprobe.schema.waits import HOST_WORK, HostWork

LEAST_NS: Final = 10_000  # shorter events explain no gap worth a row
SHORTEST_GAP_NS: Final = 100_000  # shorter ones are the pace of launches
KINDS: Final = tuple(HOST_WORK)

# The first that fits. Names of TensorFlow's TraceMe events and of XLA's, of CUPTI's and ROCm's driver calls, and of
# the Python tracer ($file.py:12 function). Threads that prepare data ahead (PrefetchProduce, Iterator::...) wait for
# nobody and tell nothing; a consumer that waits for data is inside GetNext, and of several GPUs not inside
# MultiDeviceIteratorGetNextFromShard, with which the prefetching of each GPU takes its share ahead.
_WORK: Final[tuple[tuple[HostWork, re.Pattern[str]], ...]] = (
    ("copy", re.compile(
        r"^Memcpy(?!D2D|DtoD)|^(?:cu|cuda|hip)Memcpy(?!DtoD)|:_(?:Host)?(?:Send|Recv)$|^DevicePut$"
        r"|Transfer(?:To|From)|CopyToDevice|LinearizeHostBuffer|BufferFromHost|ToLiteral")),
    ("input", re.compile(
        r"(?<!MultiDevice)IteratorGetNext|InfeedEnqueue"
        r"|^\$(?:iterator_ops|dataloader|data_adapter|data_loader)\.py:\d+ _*(?:next|get)")),
    ("compile", re.compile(
        r"(?:^|[a-z_:])Compile(?![a-z])|^Xla(?:Compile|Pass)|[Aa]utotun|cudnnFind|^HloPass"
        r"|^\$\S+:\d+ (?:trace_to_\w+|func_graph_from_py_func|_?maybe_define_\w+|backend_compile\w*|lower_\w+)$")),
    ("synchronise", re.compile(
        r"(?:Stream|Event|Ctx|Context|Device)Synchronize$|BlockHostUntil|BlockUntilReady|AwaitReady|block_until_ready"
        r"|Collective|nccl|AllReduce")),
    ("launch", re.compile(
        r"^ExecutorState::Process$|^(?:cu|cuda|hip)(?:Module)?Launch|LaunchKernel|^PjitFunction"
        r"|ExecuteThunks$|^(?:EagerLocalExecute|EagerExecute): (?!__)"
        r"|^(?!.*MultiDeviceIteratorGetNext)[\w.][\w.\-/]*:[A-Z_]\w*$")),
    ("python", re.compile(r"^\$|^PythonRefManager")),
)  # fmt: skip


# of the threads that call the framework; what Python does in others, it does ahead or beside
_CALLS: Final = re.compile(
    rf"^(?:EagerExecute|EagerLocalExecute|TFE_Py_|PjitFunction|PJRT_LoadedExecutable_Execute|{STEP_MARK}$)"
)


def calls_framework(name: str) -> bool:
    """Return whether an event of this name shows that its thread calls the framework from Python."""
    return _CALLS.search(name) is not None


def host_work(name: str) -> HostWork | None:
    """Return what the host does during an event of this name; None if the name does not tell."""
    return next((work for work, pattern in _WORK if pattern.search(name)), None)


def work_code(name: str) -> int:
    """Return the place in `KINDS` of what the host does during an event of this name; -1 if the name does not tell."""
    work = host_work(name)
    return -1 if work is None else KINDS.index(work)


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of time in which some GPU ran no kernel, in order and apart from one another.

    Attributes:
        start_ns, end_ns: bounds on the file's clock.
    """

    start_ns: Ints
    end_ns: Ints

    def meet(self, start: Ints, end: Ints) -> NDArray[np.bool_]:
        """Return which intervals overlap a stretch."""
        if not len(self.end_ns):
            return np.zeros(len(start), np.bool_)
        place = np.searchsorted(self.end_ns, start, side="right")
        begins = np.append(self.start_ns, np.iinfo(np.int64).max)
        hit: NDArray[np.bool_] = begins[place] < end
        return hit


def stretches(gpus: Sequence[DeviceEvents]) -> Stretches:
    """Return when any GPU that ran kernels ran none for long, before its first and after its last one included."""
    found = [_between(kernels) for kernels in gpus if len(kernels)]
    if not found:
        return Stretches(np.zeros(0, np.int64), np.zeros(0, np.int64))
    start, end = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    new = np.flatnonzero(np.append(True, start[1:] > end[:-1]))
    return Stretches(start[new], end[np.append(new[1:] - 1, len(end) - 1)])


def _between(kernels: DeviceEvents) -> tuple[Ints, Ints]:
    order = np.argsort(kernels.start_ns, kind="stable")
    start = kernels.start_ns[order]
    end = np.maximum.accumulate(start + kernels.duration_ns[order])
    far = 1 << 62
    begin, stop = np.append(-far, end), np.append(start, far)
    long = stop - begin >= SHORTEST_GAP_NS
    return begin[long], stop[long]


@dataclass(slots=True)
class HostEvents:
    """Long events of the host that say what it does, gathered chunk by chunk.

    Attributes:
        while_idle: when some GPU ran no kernel; events outside are left out.
        names: of the events, by code.
        callers: threads that call the framework; where some are known, only their Python counts.
    """

    while_idle: Stretches
    names: list[str] = field(default_factory=list)
    callers: set[int] = field(default_factory=set)
    _parts: list[tuple[Ints, Ints, Ints, Ints, Ints]] = field(default_factory=list)

    def add(
        self, thread: int, code: NDArray[np.integer[Any]], work: NDArray[np.int8], start: Ints, duration: Ints
    ) -> None:
        """Keep those events of a chunk that are long, tell something, and overlap a stretch without kernels."""
        row = np.flatnonzero((duration >= LEAST_NS) & (work >= 0))
        if len(row):
            row = row[self.while_idle.meet(start[row], start[row] + duration[row])]
        if len(row):
            part = (
                np.full(len(row), thread, np.int64),
                code[row].astype(np.int64),
                work[row].astype(np.int64),
                start[row],
                duration[row],
            )
            self._parts.append(part)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return (thread, code of the name, place of the work in `KINDS`, start, duration) of all events."""
        if not self._parts:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing, nothing, nothing
        thread, code, work, start, duration = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        if not self.callers:
            return thread, code, work, start, duration
        kept = (work != KINDS.index("python")) | np.isin(thread, [*self.callers])
        return thread[kept], code[kept], work[kept], start[kept], duration[kept]
