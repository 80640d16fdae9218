"""Read the host planes of an XSpace: ops as the host ran them, kernel launches, and the marks of steps."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tcprobe.probe.constants import STEP_MARK
from tcprobe.readers.arrays import Bytes, Ints, combine, dense
from tcprobe.readers.host_work import KINDS, LEAST_NS, Stretches, overhead_work, stretches, work_code
from tcprobe.readers.rows import summed
from tcprobe.readers.xspace.events import DECODE, LEAVE_OUT, NO_STATS, Events, Stats, Wanted, decode, event_bounds
from tcprobe.readers.xspace.gpu import NONE, Index, Texts
from tcprobe.readers.xspace.text import executor_op
from tcprobe.readers.xspace.wire import Line, Plane, line_head, string_map
from tcprobe.schema.waits import CALL

# of the threads that call the framework; what Python does in others, it does ahead or beside
_CALLS: Final = re.compile(
    rf"^(?:EagerExecute|EagerLocalExecute|TFE_Py_|PjitFunction|PJRT_LoadedExecutable_Execute|{STEP_MARK}$)"
)
# What every call passes through, and work that is done ahead of the step: no evidence of what the host is busy with.
_NO_EVIDENCE: Final = re.compile(
    rf"^(?:TFE_|Eager|TensorHandle|ValidateInput|FunctionRun$|_Send input|Pjit|PJRT_|PjRt|{STEP_MARK}$)"
    r"|Iterator|Produce$|Consume$|InstantiatedCapturedFunction|^void |[<(]"
)
LONG_NS: Final = 1_000_000  # an event of a thread that does not call the framework


def calls_framework(name: str) -> bool:
    """Return whether an event of this name shows that its thread calls the framework from Python."""
    return _CALLS.search(name) is not None


def is_evidence(name: str) -> bool:
    """Return whether an event of this name, which tells no kind of work, is worth being named."""
    return _NO_EVIDENCE.search(name) is None


class Spans(NamedTuple):
    """Events of one thread, as equally long columns."""

    name: NDArray[np.integer[Any]]  # number of the name
    start_ns: Ints
    duration_ns: Ints

    def take(self, rows: NDArray[Any]) -> Spans:
        """Return some of the events."""
        return Spans(*(column[rows] for column in self))


def joined(parts: list[Spans]) -> Spans:
    """Return the events of all parts, at least one."""
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def outermost_calls(events: Spans, calling: NDArray[np.bool_]) -> Spans:
    """Return the outermost events of a thread within which it calls the framework.

    Args:
        events: of one thread, marks of steps left out; of 0.01 ms and longer.
        calling: whether the event of each shows a call.
    """
    end = events.start_ns + events.duration_ns
    order = np.lexsort((-end, events.start_ns))
    until = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[order]))[:-1]
    top = order[events.start_ns[order] >= until]
    place = np.searchsorted(events.start_ns[top], events.start_ns[calling], side="right") - 1
    return events.take(top[np.unique(place[place >= 0])])


def long(events: Spans) -> Spans:
    """Return the events that are long enough to explain something."""
    return events.take(events.duration_ns >= LEAST_NS)


HOST_PLANES: Final = ("/host:CPU", "/host:CUPTI")
NO_THREAD: Final = 0  # of what the profiler says of itself
EAGER: Final = "EagerLocalExecute"
# frequent events of the runtime, of no use here: no op, no launch, no step
USELESS: Final = frozenset(
    (
        *("MemoryAllocation", "MemoryDeallocation", "ExecutorPropagateOutputs"),
        *("ThreadpoolListener::Record", "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"),
    )
)
TIMES_ONLY: Final = frozenset(("ExecutorState::Process",))  # frequent as well, and its stats tell nothing
_OpKey = TypeVar("_OpKey", bound=tuple[str, str] | tuple[str, int])

CORRELATION, STEP, ROOT, STEP_NAME, GROUP, HLO_OP, PROGRAM, SHAPE = range(8)
STATS: Final = {
    "correlation_id": CORRELATION,
    "step_num": STEP,
    "_r": ROOT,
    "step_name": STEP_NAME,
    "group_id": GROUP,
    "hlo_op": HLO_OP,
    "program_id": PROGRAM,
    "shape": SHAPE,
}


class Mark(Struct, frozen=True):
    """An event that may stand for a step: it has a step number, or a name that XProf gave its group."""

    name: str
    step: int | None
    root: bool
    group: int | None
    start_ns: int
    end_ns: int
    group_name: str | None = None


class Times(Struct):
    """Calls of one op: their number, sum, shortest and longest, in ns."""

    calls: int
    sum_ns: int
    min_ns: int
    max_ns: int
    shape: str | None = None

    def add(self, other: Times) -> None:
        """Count the calls of `other` too."""
        self.calls += other.calls
        self.sum_ns += other.sum_ns
        self.min_ns = min(self.min_ns, other.min_ns)
        self.max_ns = max(self.max_ns, other.max_ns)


class Host(Struct):
    """What the host planes of one file hold."""

    # (path, type) -> times, of ops run by the executor and of functions called eagerly
    ops: dict[tuple[str, str], Times] = field(default_factory=dict)
    # (HLO instruction, program id) -> times, of XLA programs on the CPU
    hlo_ops: dict[tuple[str, int], Times] = field(default_factory=dict)
    # correlation, launch_ns: launches of GPU work, equally long.
    correlation: list[Ints] = field(default_factory=list)
    launch_ns: list[Ints] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)  # candidates for steps
    # long events that say what the host does while a GPU runs no kernel
    events: HostEvents = field(default_factory=lambda: HostEvents(stretches(())))

    def launches(self) -> tuple[Ints, Ints]:
        """Return (correlation ids in ascending order, each once; time of the first launch under it)."""
        nothing = np.zeros(0, np.int64)
        ids, times = (np.concatenate([nothing, *parts]) for parts in (self.correlation, self.launch_ns))
        code, first = combine([ids])
        earliest = times[first]
        np.minimum.at(earliest, code, times)
        return ids[first], earliest


def read_host(file: Bytes, plane: Plane, host: Host) -> None:
    """Add what a host plane holds to `host`.

    Raises:
        DamagedError: a line or an event of the plane is no such message.
    """
    reader = _HostReader(file, plane)
    reader.first_name = len(host.events.names)
    for span in plane.lines:
        line = line_head(file.data, span)
        for starts, ends in event_bounds(file, line.events):
            reader.add(line, decode(file, starts, ends, reader.wanted, reader.need), host)
        reader.end_line(line, host)
    reader.finish(host)


def host_op(name: str) -> tuple[str, str] | None:
    """Return path and type of an event that is counted as a host op.

    That is an op of the executor (``a/b/MatMul:MatMul``), or the eager call of a traced function
    (``EagerLocalExecute: __inference_step_42``), counted under the function's name. An op called eagerly has an
    event of its own beside that.
    """
    kind, _, called = name.partition(":")
    if kind == EAGER:
        return (called.strip(), EAGER) if called.strip().startswith("__") else None
    return executor_op(name)


class _HostReader:
    """Sums over the events of one plane, by its event names."""

    def __init__(self, file: Bytes, plane: Plane) -> None:
        stat_names = string_map(file.data, plane.stat_metadata)
        event_names = string_map(file.data, plane.event_metadata)
        self.first_name = 0
        self.wanted = Wanted(stat_names, STATS)
        self.texts = Texts(file, stat_names)
        self.names = list(event_names.values())
        self.index = Index(event_names)
        self.ops = [host_op(name) for name in self.names]
        self.is_op = np.array([*(op is not None for op in self.ops), False])
        self.work = np.array([*map(work_code, self.names), -1], np.int8)
        self.calling = np.array([*map(calls_framework, self.names), False])
        self.evidence = np.array([*map(is_evidence, self.names), False]) & (self.work < 0)
        self.marks = np.zeros(len(self.names) + 1, np.bool_)  # names of marks of steps
        self.spans: list[Spans] = []  # long events of the line
        known = {**dict.fromkeys(USELESS, LEAVE_OUT), **dict.fromkeys(TIMES_ONLY, NO_STATS)}
        useless = [known.get(name, DECODE) for name in self.names]
        self.needed = np.array([*useless, DECODE], np.int8)
        rows = len(self.names)
        self.calls, self.sum_ns, self.max_ns = (np.zeros(rows, np.int64) for _ in range(3))
        self.min_ns = np.full(rows, 1 << 62, np.int64)
        self.shape = np.full(rows, -1, np.int32)

    def add(self, line: Line, events: Events, host: Host) -> None:
        """Count the events of one chunk."""
        name = self.index.rows(events.metadata_id)
        duration = events.duration_ps // 1000
        start = line.timestamp_ns + events.offset_ps // 1000
        if self.calling[name].any():
            host.events.callers.add(line.id)
        host.events.add(line.id, name + self.first_name, self.work[name], start, duration)
        self.marks[name[events.stats.of(STEP).row]] = True
        self.spans.append(long(Spans(name, start, duration)))
        self._count_ops(name, duration, events.stats.of(SHAPE))
        launches = events.stats.of(CORRELATION)
        valid = np.flatnonzero(launches.number() > 0)
        host.correlation.append(launches.number()[valid])
        host.launch_ns.append(start[launches.row[valid]])
        self._count_hlo(name, duration, events.stats, host)
        self._find_marks(name, start, duration, events.stats, host)
        self._learn(name, events.stats)

    def end_line(self, line: Line, host: Host) -> None:
        """Keep the outermost calls of a thread, and what it did beside them."""
        spans, self.spans = self.spans, []
        if not spans:
            return
        events = joined(spans)
        events = events.take(~self.marks[events.name])
        calls = self.calling[events.name]
        beside = events.take(self.evidence[events.name] & (calls.any() | (events.duration_ns >= LONG_NS)))
        host.events.add_beside(line.id, beside._replace(name=beside.name + self.first_name))
        if calls.any():
            outer = outermost_calls(events, calls)
            host.events.add_calls(line.id, outer._replace(name=outer.name + self.first_name))

    def need(self, metadata_id: Ints) -> NDArray[np.int8]:
        """Return how events of these kinds are to be decoded."""
        return self.needed[self.index.rows(metadata_id)]

    def _learn(self, name: NDArray[np.int32], stats: Stats) -> None:
        """Read ops without stats once an event of theirs has shown that it carries no launch, step or instruction."""
        self.needed[name[self.is_op[name]]] = NO_STATS
        self.needed[name[stats.row[(stats.column != SHAPE) & (stats.column != GROUP)]]] = DECODE
        self.needed[-1] = DECODE

    def _count_ops(self, name: NDArray[np.int32], duration: Ints, shapes: Stats) -> None:
        row = np.flatnonzero(self.is_op[name])
        op, time = name[row], duration[row]
        np.add.at(self.calls, op, 1)
        np.add.at(self.sum_ns, op, time)
        np.minimum.at(self.min_ns, op, time)
        np.maximum.at(self.max_ns, op, time)
        new = shapes.take(np.flatnonzero(self.is_op[name[shapes.row]] & (self.shape[name[shapes.row]] < 0)))
        if len(new.row):
            self.shape[name[new.row]] = self.texts.codes(new, len(name))[new.row]

    def _count_hlo(self, name: NDArray[np.int32], duration: Ints, stats: Stats, host: Host) -> None:
        found, program = stats.of(HLO_OP), stats.of(PROGRAM)
        if not len(found.row):
            return
        rows = len(name)
        module, launched = np.full(rows, NONE, np.int64), np.zeros(rows, np.bool_)
        module[program.row] = program.number()
        launched[stats.of(CORRELATION).row] = True
        op = self.texts.codes(found, rows)
        row = np.flatnonzero((op >= 0) & (module != NONE) & ~launched)
        code, first = combine([op[row], module[row]])
        for index, times in enumerate(_sums(code, duration[row], len(first))):
            key = (self.texts.names[op[row][first[index]]].rpartition("::")[2], int(module[row][first[index]]))
            add_times(host.hlo_ops, key, times)

    def _find_marks(self, name: NDArray[np.int32], start: Ints, duration: Ints, stats: Stats, host: Host) -> None:
        step, label = stats.of(STEP), stats.of(STEP_NAME)
        numbers = dict(zip(step.row.tolist(), step.number().tolist(), strict=True))
        labels = self.texts.codes(label, len(name))
        rows = dense(np.concatenate((step.row, label.row)))[1].tolist()
        if not rows:
            return
        roots = set(stats.of(ROOT).take(np.flatnonzero(stats.of(ROOT).number() > 0)).row.tolist())
        group = stats.of(GROUP)
        groups = dict(zip(group.row.tolist(), group.number().tolist(), strict=True))
        for row in rows:
            text = self.names[name[row]] if name[row] >= 0 else ""
            begin, end = int(start[row]), int(start[row] + duration[row])
            mark = Mark(text, numbers.get(row), row in roots, groups.get(row), begin, end, self.texts.text(labels[row]))
            host.marks.append(mark)

    def finish(self, host: Host) -> None:
        """Give the sums and the names of events to `host`."""
        host.events.names += self.names
        for row in np.flatnonzero(self.calls).tolist():
            calls, total, least, most = (int(c[row]) for c in (self.calls, self.sum_ns, self.min_ns, self.max_ns))
            times = Times(calls, total, least, most, self.texts.text(int(self.shape[row])))
            op = self.ops[row]
            if op is not None:
                add_times(host.ops, op, times)


def _sums(code: Ints, duration: Ints, count: int) -> list[Times]:
    sums = np.stack(list(summed(code, count, duration).values()), axis=1).astype(np.int64)
    return [Times(*row) for row in sums.tolist()]


def add_times(found: dict[_OpKey, Times], key: _OpKey, times: Times) -> None:
    """Add the times of an op to those that are known of it, if any."""
    if found.setdefault(key, times) is not times:
        found[key].add(times)


class HostEvents(Struct):
    """Long events of the host that say what it does, and calls of the framework, gathered chunk by chunk."""

    while_idle: Stretches  # when some GPU ran no kernel; events outside are left out
    names: list[str] = field(default_factory=list)  # of the events, by code
    # threads that call the framework; where some are known, only their Python counts
    callers: set[int] = field(default_factory=set)
    _parts: list[tuple[Ints, ...]] = field(default_factory=list)

    def add(
        self, thread: int, code: NDArray[np.integer[Any]], work: NDArray[np.int8], start: Ints, duration: Ints
    ) -> None:
        """Keep those events of a chunk that are long, tell something, and overlap a stretch without kernels."""
        row = np.flatnonzero((duration >= LEAST_NS) & (work >= 0))
        self._keep(thread, code[row], work[row], start[row], duration[row])

    def add_beside(self, thread: int, events: Spans) -> None:
        """Keep events of a thread that tell no kind of work, if they overlap a stretch without kernels."""
        work = np.full(len(events.name), KINDS.index("unknown"), np.int8)
        self._keep(thread, events.name, work, events.start_ns, events.duration_ns)

    def add_overheads(self, overheads: list[tuple[str, int, int]]) -> None:
        """Keep what the profiler itself takes, which no line of the host shows: (what, start, length in ns)."""
        kinds = [overhead_work(name) for name, *_ in overheads]
        told = [(one, KINDS.index(kind)) for one, kind in zip(overheads, kinds, strict=True) if kind]
        code = np.arange(len(told)) + len(self.names)
        self.names += [name for (name, *_), _ in told]
        start, length = (np.array([one[i] for one, _ in told], np.int64) for i in (1, 2))
        self._keep(NO_THREAD, code, np.array([work for _, work in told], np.int8), start, length)

    def add_calls(self, thread: int, calls: Spans) -> None:
        """Keep the outermost calls of a thread: all, for which of them launch most is told by all."""
        self._append(thread, calls.name, np.full(len(calls.name), KINDS.index(CALL)), calls.start_ns, calls.duration_ns)

    def _keep(
        self, thread: int, code: NDArray[np.integer[Any]], work: NDArray[np.int8], start: Ints, duration: Ints
    ) -> None:
        row = np.flatnonzero(self.while_idle.meet(start, start + duration)) if len(start) else np.zeros(0, np.int64)
        self._append(thread, code[row], work[row], start[row], duration[row])

    def _append(
        self,
        thread: int,
        code: NDArray[np.integer[Any]],
        work: NDArray[np.integer[Any]],
        start: Ints,
        duration: Ints,
    ) -> None:
        if len(start):
            part = np.full(len(start), thread, np.int64), code.astype(np.int64), work.astype(np.int64), start, duration
            self._parts.append(part)

    def columns(self) -> tuple[Ints, ...]:
        """Return (thread, code of the name, place of the work in `KINDS`, start, duration) of all events."""
        parts = self._parts or [(np.zeros(0, np.int64),) * 5]
        thread, code, work, start, duration = (np.concatenate(part) for part in zip(*parts, strict=True))
        kept = (work != KINDS.index("python")) | np.isin(thread, [*self.callers]) | (not self.callers)
        return thread[kept], code[kept], work[kept], start[kept], duration[kept]
