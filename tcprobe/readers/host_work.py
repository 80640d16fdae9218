"""Tell from the name of a host event what the host does, and find the stretches in which a GPU runs no kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.grouping import merged
from tcprobe.readers.arrays import Ints, dense
from tcprobe.schema.waits import EVENT_WORK, HostWork

LEAST_NS: Final = 10_000  # shorter events explain no gap worth a row
SHORTEST_GAP_NS: Final = 100_000  # shorter ones are the pace of launches
KINDS: Final = EVENT_WORK

# The first that fits. Names of TensorFlow's TraceMe events and of XLA's, of CUPTI's and ROCm's driver calls, of MPI and
# PyTorch in NVTX, and of the Python tracer ($file.py:12 function). Threads that prepare data ahead (PrefetchProduce,
# Iterator::...) wait for nobody and tell nothing; a consumer that waits for data is inside GetNext, and of several GPUs
# not inside MultiDeviceIteratorGetNextFromShard, with which the prefetching of each GPU takes its share ahead.
_WORK: Final[tuple[tuple[HostWork, re.Pattern[str]], ...]] = (
    ("copy_call", re.compile(
        r"^Memcpy(?!D2D|DtoD)|^(?:cu|cuda|hip)Memcpy(?!DtoD)|:_(?:Host)?(?:Send|Recv)$|^DevicePut$"
        r"|Transfer(?:To|From)|CopyToDevice|LinearizeHostBuffer|BufferFromHost|ToLiteral")),
    ("input", re.compile(
        r"(?<!MultiDevice)IteratorGetNext|InfeedEnqueue|^enumerate\(DataLoader\)"
        r"|^\$(?:iterator_ops|dataloader|data_adapter|data_loader)\.py:\d+ _*(?:next|get)")),
    ("compile", re.compile(
        r"(?:^|[a-z_:])Compile(?![a-z])|^Xla(?:Compile|Pass)|[Aa]utotun|cudnnFind|^HloPass"
        r"|^cu(?:Module|Library)Load|^cuLink|^nvrtcCompile"
        r"|^\$\S+:\d+ (?:trace_to_\w+|func_graph_from_py_func|_?maybe_define_\w+|backend_compile\w*|lower_\w+)$")),
    ("communicate", re.compile(r"Collective|nccl|AllReduce|^MPI_(?!Init|Finalize)")),
    ("synchronise", re.compile(
        r"(?:Stream|Event|Ctx|Context|Device)Synchronize$|BlockHostUntil|BlockUntilReady|AwaitReady|block_until_ready")),
    ("launch", re.compile(
        r"^ExecutorState::Process$|^(?:cu|cuda|hip)(?:Module|Graph)?Launch|LaunchKernel|^PjitFunction"
        r"|ExecuteThunks$|^(?:EagerLocalExecute|EagerExecute): (?!__)"
        r"|^(?!.*MultiDeviceIteratorGetNext)[\w.][\w.\-/]*:[A-Z_]\w*$")),
    ("python", re.compile(r"^\$|^PythonRefManager")),
)  # fmt: skip


def host_work(name: str) -> HostWork | None:
    """Return what the host does during an event of this name; None if the name does not tell."""
    return next((work for work, pattern in _WORK if pattern.search(name)), None)


_COMPILES: Final = re.compile(r"compil|lazy", re.IGNORECASE)
_FULL: Final = "command buffer full"  # launches are as far ahead of the GPU as they can be: no cost of the profiler


def overhead_work(name: str) -> HostWork | None:
    """Return what the host does during an event that CUPTI, or Nsight Systems, calls overhead; None if it waits.

    Source: CUPTI, CUpti_ActivityOverheadKind: driver compiler, buffer flush, instrumentation, resource, runtime
    triggered module loading, lazy function loading, command buffer full, activity buffer request.
    """
    if _FULL in name.lower():
        return None
    return "compile" if _COMPILES.search(name) or "module loading" in name.lower() else "profiler"


def work_code(name: str) -> int:
    """Return the place in `KINDS` of what the host does during an event of this name; -1 if the name does not tell."""
    work = host_work(name)
    return -1 if work is None else KINDS.index(work)


class Stretches(Struct, frozen=True):
    """Stretches of time in which some GPU ran no kernel, in order and apart from one another."""

    # start_ns, end_ns: bounds on the file's clock.
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

    def explained(self, start: Ints, end: Ints) -> NDArray[np.bool_]:
        """Return which intervals last for half of a stretch or more; one at an end begins, or ends, with the first."""
        if not len(self.end_ns) or not len(start):
            return np.zeros(len(start), np.bool_)
        begins, ends = np.maximum(self.start_ns, start.min()), np.minimum(self.end_ns, end.max())
        found = np.zeros(len(start), np.bool_)
        first = np.minimum(np.searchsorted(self.end_ns, start, side="right"), len(ends) - 1)
        last = np.maximum(np.searchsorted(self.start_ns, end, side="left") - 1, 0)
        for place in (first, np.minimum(first + 1, len(ends) - 1), last):
            shared = np.minimum(end, ends[place]) - np.maximum(start, begins[place])
            found |= (shared > 0) & (2 * shared >= ends[place] - begins[place])
        return found


Ran: TypeAlias = tuple[Ints, Ints]
"""Start and duration of each kernel of a GPU."""


def stretches(gpus: Sequence[Ran]) -> Stretches:
    """Return when any GPU that ran kernels ran none for long, before its first and after its last one included."""
    found = [_between(start, duration) for start, duration in gpus if len(start)]
    if not found:
        return Stretches(np.zeros(0, np.int64), np.zeros(0, np.int64))
    start, end = (np.concatenate(part) for part in zip(*found, strict=True))
    return Stretches(*merged(start, end))


def _between(start: Ints, duration: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(start, kind="stable")
    end = np.maximum.accumulate((start + duration)[order])
    start = start[order]
    far = 1 << 62
    begin, stop = np.append(-far, end), np.append(start, far)
    long = stop - begin >= SHORTEST_GAP_NS
    return begin[long], stop[long]


MOST_OWNERS: Final = 4096  # threads that launch; a machine has fewer


def holding(start: Ints, end: Ints, owner: Ints, called: Ints, owners: Ints) -> NDArray[np.bool_]:
    """Say which ranges hold a call of their owner, a thread or a process.

    Args:
        start, end, owner: of each range.
        called, owners: when each call began, and whose it is.
    """
    held = np.zeros(len(start), np.bool_)
    order, distinct = np.lexsort((called, owners)), dense(owners)[1]
    bounds = np.searchsorted(owners[order], distinct[1:])
    for one, times in zip(distinct[:MOST_OWNERS].tolist(), np.split(called[order], bounds), strict=False):
        rows = np.flatnonzero(owner == one)
        next_call = np.append(times, np.iinfo(np.int64).max)[np.searchsorted(times, start[rows])]
        held[rows] = next_call <= end[rows]
    return held
