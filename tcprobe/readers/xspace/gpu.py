"""Read the GPU planes of an XSpace: kernels, memory operations, spans of steps, and what the device is.

The names that events refer to are numbered, so that a million events cost arrays and never a million strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tcprobe.grouping import positions_in
from tcprobe.readers.arrays import Bytes, Ints, combine
from tcprobe.readers.host_work import LEAST_NS
from tcprobe.readers.protobuf import Span
from tcprobe.readers.xspace.events import Events, Stats, Wanted, decode, event_bounds
from tcprobe.readers.xspace.wire import DOUBLE, REF, STRING, Line, Plane, line_head, plane_stats, string_map
from tcprobe.schema.tables import NAMELESS

LONG_TEXT: Final = 4096  # bytes; longer strings are compared one by one


class Index:
    """Positions of known ids: `rows` answers for a whole array at once."""

    __slots__ = ("_keys", "_order")

    def __init__(self, keys: Iterable[int]) -> None:
        found = np.fromiter(keys, dtype=np.int64)
        order = np.argsort(found, kind="stable")
        self._keys, self._order = found[order], np.append(order, -1).astype(np.int32)

    def rows(self, ids: Ints) -> NDArray[np.int32]:
        """Return the position of each id among the keys, -1 where it is none of them."""
        return self._order[positions_in(ids, self._keys)]


class Texts:
    """The strings of one plane's stats: names that stats refer to, and those that stand in the events.

    Attributes:
        names: by code; the first ones are the plane's stat_metadata.
    """

    __slots__ = ("_codes", "_file", "_refs", "names")

    def __init__(self, file: Bytes, stat_names: dict[int, str]) -> None:
        self._file = file
        self._refs = Index(stat_names)
        self.names = list(stat_names.values())
        self._codes: dict[bytes, int] = {}

    def codes(self, stats: Stats, rows: int) -> NDArray[np.int32]:
        """Return one code per event of a chunk of `rows` events; -1 where it has no such text."""
        out = np.full(rows, -1, np.int32)
        refs = np.flatnonzero(stats.kind == REF)
        out[stats.row[refs]] = self._refs.rows(stats.value[refs])
        texts = np.flatnonzero(stats.kind == STRING)
        if len(texts):
            out[stats.row[texts]] = self._intern(stats.value[texts], stats.size[texts])
        return out

    def _intern(self, at: Ints, size: Ints) -> NDArray[np.int32]:
        out = np.zeros(len(at), np.int32)
        order = np.argsort(size, kind="stable")
        lengths, begins = np.unique(size[order], return_index=True)
        for length, same in zip(lengths.tolist(), np.split(order, begins[1:]), strict=True):
            if 0 < length <= LONG_TEXT:
                rows = np.ndarray((self._file.size - length + 1,), f"S{length}", self._file.data, 0, (1,))[at[same]]
                _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
            else:
                first = inverse = np.arange(len(same))
            codes = [self._code(int(at[same[i]]), length) for i in first.tolist()]
            out[same] = np.array(codes, np.int32)[inverse]
        return out

    def _code(self, at: int, size: int) -> int:
        raw = bytes(self._file.data[at : at + size])
        code = self._codes.get(raw)
        if code is None:
            code = self._codes[raw] = len(self.names)
            self.names.append(raw.decode("utf-8", "replace"))
        return code

    def text(self, code: int) -> str | None:
        """Return the string of a code; None for -1."""
        return self.names[code] if code >= 0 else None


GPU_PLANE: Final = re.compile(r"/device:GPU:(\d{1,6})")
# xplane_schema.h: lines that XProf derives have ids 0xdeadbeef and up, stored as int32
DERIVED_IDS: Final = range(0xDEADBEEF, 0xDEADBEEF + 64)
DERIVED_NAMES: Final = frozenset(
    (
        *("Steps", "Launch Stats", "XLA Modules", "XLA Ops", "Async XLA Ops", "Source code", "Source", "XLA TraceMe"),
        *("TensorFlow Name Scope", "TensorFlow Ops", "Framework Name Scope", "Framework Ops"),
    )
)
STEPS_LINE: Final = "Steps"
OVERHEAD_LINE: Final = "CUPTI overhead"
OTHER_LINES: Final = (OVERHEAD_LINE, "_counters_")  # neither kernels nor copies
NONE: Final = -(1 << 62)  # no number

CORRELATION, OP, KERNEL, MEMORY, GROUP, HLO_OP, PROGRAM, NAME, PREFIX, SHAPE, OCCUPANCY, MODULE = range(12)
STATS: Final = {
    "correlation_id": CORRELATION,
    "tf_op": OP,
    "level 0": OP,  # TensorFlow up to 2.5
    "kernel_details": KERNEL,
    "memcpy_details": MEMORY,
    "memset_details": MEMORY,
    "memalloc_details": MEMORY,
    "memfree_details": MEMORY,
    "MemFree_details": MEMORY,
    "group_id": GROUP,
    "hlo_op": HLO_OP,
    "program_id": PROGRAM,
    "name": NAME,
    "prefix": PREFIX,
    "shape": SHAPE,
    "theoretical_occupancy_pct": OCCUPANCY,
    "hlo_module": MODULE,
}
OP_TEXTS: Final = (OP, HLO_OP, NAME, PREFIX, SHAPE, MODULE)


class OpKey(Struct, frozen=True):
    """What a GPU event says of the op that launched it, texts as in `OP_TEXTS`; None where it says nothing."""

    program: int | None
    annotation: str | None = None
    hlo_op: str | None = None
    name: str | None = None
    prefix: str | None = None
    shape: str | None = None
    module: str | None = None


class DeviceEvents(Struct, frozen=True):
    """Events of one kind on one GPU, as equally long columns."""

    # stream, start_ns, duration_ns, correlation, group: `NONE` where an event lacks it.
    stream: Ints
    start_ns: Ints
    duration_ns: Ints
    correlation: Ints
    group: Ints
    name: Ints  # index into `names`
    op: Ints  # index into `ops`, -1 for none
    detail: Ints  # index into `details` (text, occupancy in percent), -1 for none
    names: list[str]
    ops: list[OpKey]
    details: list[tuple[str, float | None]]

    def __len__(self) -> int:
        return len(self.stream)


class Gpu(Struct):
    """One GPU plane."""

    ordinal: int
    stats: dict[str, str | int | float]
    kernels: DeviceEvents
    memory: DeviceEvents
    unclassed: int = 0
    graph_launches: int = 0
    # group -> start and end in ns of its step, as the profiler derived them from the GPU's activity
    steps: dict[int, Span] = field(default_factory=dict)
    overheads: list[tuple[str, int, int]] = field(default_factory=list)  # of the profiler: what, start and length in ns


class _Columns:
    """The events of one kind on one plane, gathered chunk by chunk."""

    def __init__(self) -> None:
        self._parts: dict[str | int, list[NDArray[Any]]] = {}

    def add(self, columns: dict[str | int, NDArray[Any]], rows: Ints) -> None:
        """Append these rows of a chunk."""
        for name, values in columns.items():
            self._parts.setdefault(name, []).append(values[rows])

    def take(self, name: str | int) -> Ints:
        """Return a column over all chunks, and forget it; empty where there was no chunk."""
        parts = self._parts.pop(name, [np.zeros(0, np.int64)])
        return np.concatenate(parts).astype(np.int64, copy=False)


class _PlaneReader:
    """Gathers the kernels and memory operations of one plane."""

    def __init__(self, file: Bytes, plane: Plane) -> None:
        self.stat_names = string_map(file.data, plane.stat_metadata)
        event_names = string_map(file.data, plane.event_metadata)
        self.texts = Texts(file, self.stat_names)
        self.index = Index(event_names)
        self.names = [*event_names.values(), NAMELESS]
        self.is_graph = np.array([name.startswith("CudaGraph") for name in self.names])
        self.wanted = Wanted(self.stat_names, STATS)
        self.kernels, self.memory = _Columns(), _Columns()
        self.graph_launches = self.unclassed = 0
        self.steps: dict[int, Span] = {}
        self.overheads: list[tuple[str, int, int]] = []

    def add(self, line: Line, events: Events) -> None:
        """Sort the events of one chunk into kernels, memory operations and the rest."""
        columns = self._columns(line, events)
        kernel = columns[KERNEL] >= 0
        memory = ~kernel & (columns[MEMORY] >= 0)
        self.kernels.add(columns, np.flatnonzero(kernel))
        self.memory.add(columns, np.flatnonzero(memory))
        rest = self.is_graph[columns["name"][~kernel & ~memory]]
        self.graph_launches += int(rest.sum())
        self.unclassed += int((~rest).sum())

    def add_steps(self, line: Line, events: Events) -> None:
        """Keep the spans of the steps of one chunk of the line that holds them."""
        start = line.timestamp_ns + events.offset_ps // 1000
        spans = zip(_number(events, GROUP).tolist(), start.tolist(), (events.duration_ps // 1000).tolist(), strict=True)
        self.steps |= {group: (begin, begin + length) for group, begin, length in spans if group != NONE}

    def add_overheads(self, line: Line, events: Events) -> None:
        """Keep what of one chunk tells of time that the profiler itself takes."""
        long = np.flatnonzero(events.duration_ps >= 1000 * LEAST_NS)
        start = line.timestamp_ns + events.offset_ps[long] // 1000
        names = [self.names[row] for row in self.index.rows(events.metadata_id[long]).tolist()]
        self.overheads += zip(names, start.tolist(), (events.duration_ps[long] // 1000).tolist(), strict=True)

    def _columns(self, line: Line, events: Events) -> dict[str | int, NDArray[Any]]:
        rows = len(events)
        columns: dict[str | int, NDArray[Any]] = {
            "stream": np.full(rows, line.id),
            "start_ns": line.timestamp_ns + events.offset_ps // 1000,
            "duration_ns": events.duration_ps // 1000,
            "name": self.index.rows(events.metadata_id),
        }
        for key in (*OP_TEXTS, KERNEL, MEMORY):
            columns[key] = self.texts.codes(events.stats.of(key), rows)
        for key in (CORRELATION, GROUP, PROGRAM, OCCUPANCY):
            columns[key] = _number(events, key)
        return columns

    def events(self, columns: _Columns, detail: int) -> DeviceEvents:
        """Return the gathered events of one kind."""
        op, ops = self._ops(columns)
        code, details = self._details(columns.take(detail), columns.take(OCCUPANCY))
        name = columns.take("name")
        name[name < 0] = len(self.names) - 1
        return DeviceEvents(
            **{field: columns.take(field) for field in ("stream", "start_ns", "duration_ns")},
            correlation=columns.take(CORRELATION),
            group=columns.take(GROUP),
            name=name,
            op=op,
            detail=code,
            names=self.names,
            ops=ops,
            details=details,
        )

    def _ops(self, columns: _Columns) -> tuple[Ints, list[OpKey]]:
        """Return (index of the op of each event, distinct ops)."""
        found = [columns.take(key) for key in (*OP_TEXTS, PROGRAM)]
        code, first = combine(found)
        rows = zip(*(column[first].tolist() for column in found), strict=True)
        return code, [
            OpKey(None if program == NONE else program, *map(self.texts.text, texts)) for *texts, program in rows
        ]

    def _details(self, texts: Ints, occupancy: Ints) -> tuple[Ints, list[tuple[str, float | None]]]:
        code, first = combine([texts, occupancy])
        found = zip(texts[first].tolist(), occupancy[first].tolist(), strict=True)
        return code, [(self.texts.names[t], o / 100 if 0 < o <= 10_000 else None) for t, o in found]


def _number(events: Events, key: int) -> Ints:
    """Return a stat of each event as an integer, a percentage in hundredths; `NONE` where it lacks the stat."""
    out = np.full(len(events), NONE, np.int64)
    stats = events.stats.of(key)
    if key != OCCUPANCY:
        out[stats.row] = stats.number()
        return out
    floats = np.where(stats.kind == DOUBLE, stats.value.view(np.float64), stats.value.astype(np.float64))
    out[stats.row] = (np.nan_to_num(floats).clip(-1, 1e6) * 100).round().astype(np.int64)
    return out


def read_gpu(file: Bytes, plane: Plane) -> Gpu:
    """Return kernels and memory operations of a GPU plane; derived lines are left out.

    Raises:
        DamagedError: a line or an event of the plane is no such message.
    """
    reader = _PlaneReader(file, plane)
    for span in plane.lines:
        line = line_head(file.data, span)
        if add := _adds(reader, line):
            for starts, ends in event_bounds(file, line.events):
                add(line, decode(file, starts, ends, reader.wanted))
    found = GPU_PLANE.match(plane.name)
    return Gpu(
        int(found[1]) if found else 0,
        plane_stats(file.data, plane.stats, reader.stat_names),
        reader.events(reader.kernels, KERNEL),
        reader.events(reader.memory, MEMORY),
        reader.unclassed,
        reader.graph_launches,
        reader.steps,
        reader.overheads,
    )


def _adds(reader: _PlaneReader, line: Line) -> Callable[[Line, Events], None] | None:
    """Return what takes the events of a line; None of one that is derived from others, or of counters."""
    if line.name == STEPS_LINE:
        return reader.add_steps
    if line.name.startswith(OVERHEAD_LINE):
        return reader.add_overheads
    derived = line.id in DERIVED_IDS or line.id + (1 << 32) in DERIVED_IDS
    recorded = not derived and line.name not in DERIVED_NAMES and not line.name.startswith(OTHER_LINES)
    return reader.add if recorded else None
