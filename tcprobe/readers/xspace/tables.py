"""Make our tables from what the planes of an XSpace hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from tcprobe.grouping import positions_in
from tcprobe.probe.constants import STEP_MARK
from tcprobe.readers.arrays import Ints, dense
from tcprobe.readers.host_work import KINDS
from tcprobe.readers.protobuf import Span
from tcprobe.readers.rows import gpu_row, tensor_cores_of
from tcprobe.readers.xspace.gpu import NONE, DeviceEvents, Gpu
from tcprobe.readers.xspace.host import Host, Mark, Times, add_times
from tcprobe.readers.xspace.text import kernel_config, memory_kind, memory_size, parse_shapes
from tcprobe.readers.xspace.wire import Space
from tcprobe.readers.xspace.xla import OpResolver, graph_rows, hlo_host_op
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import Data, FloatArray, Names, Table, Value, concatenate
from tcprobe.schema.profile import Note

if TYPE_CHECKING:
    from tcprobe.readers.hlo.module import Module


class HostFile(Struct):
    """What one XSpace holds: one host, whose GPUs count from `first_device`; `started_ns` since the epoch.

    `modules` are those that ran, by program id, as far as the file holds them; `no_module` counts the others.
    """

    path: Path
    space: Space
    first_device: int
    gpus: list[Gpu]
    host: Host
    modules: dict[int, Module]
    started_ns: int | None = None
    no_module: int = 0


class Clock(Struct, frozen=True):
    """When things happened on one host: its steps, the start of the capture, launches by correlation id."""

    steps: Steps
    origin: int
    launches: tuple[Ints, Ints]


def tables(parts: Sequence[HostFile]) -> tuple[list[Table], dict[str, str], list[Note]]:
    """Return (tables, reason of each absent one, notes)."""
    clocks = [
        Clock(choose_steps(p.host.marks, [g.steps for g in p.gpus]), _origin(p), p.host.launches()) for p in parts
    ]
    builder = _Builder()
    for part, clock in zip(parts, clocks, strict=True):
        for gpu in part.gpus:
            builder.add(part, gpu, clock)
    made = [
        _host_ops(parts),
        Table.from_rows(contract.STEP_MARKS, _step_rows(clocks)),
        _host_events(parts, clocks),
        Table.from_rows(contract.GRAPH_OPS, [row for part in parts for row in graph_rows(part.modules)]),
    ]
    absent = {"kernel_counters": "the profiler of TensorFlow and JAX records no hardware counters"}
    if any(part.gpus for part in parts):
        made += [*builder.tables(), _devices(parts)]
    else:
        reason = "the profile has no GPU plane"
        absent |= dict.fromkeys(("launches", "launch_configs", "op_details", "memory_ops", "devices"), reason)
    names = [table.spec.name for table in made if not len(table)]
    absent |= {name: _EMPTY[name] for name in names if name in _EMPTY}
    notes = []
    if any(clock.steps.renumbered for clock in clocks):
        message = "step numbers of the profile's marks repeat: steps are numbered from 0 in order of time"
        notes.append(Note("step-numbers-repeat", message, level="note"))
    return [table for table in made if table.spec.name not in absent], absent, notes


_EMPTY: Final = {
    "host_ops": "the profile has no host op",
    "step_marks": "the profile marks no step",
    "host_events": "no long event of the host says what it did while a GPU ran no kernel",
    "graph_ops": "the profile holds no HLO module with a dot or convolution",
}


def _origin(part: HostFile) -> int:
    """Return the time at which the capture begins on the file's clock.

    Recorders count from the start of the session; one that wrote the time since the epoch is brought to that.
    """
    starts = [e.start_ns for gpu in part.gpus for e in (gpu.kernels, gpu.memory) if len(e)]
    times = [int(s.min()) for s in (*starts, *(t for t in part.host.launch_ns if len(t)))]
    first = min([*times, *(mark.start_ns for mark in part.host.marks)], default=0)
    return first if first > 10**15 else 0  # eleven days


def _float(values: Ints) -> FloatArray:
    """Return integers as a nullable column."""
    return np.where(values == NONE, np.nan, values)


class _Builder(Struct):
    """Gathers launches and memory operations over GPUs and hosts."""

    resolver: OpResolver = field(default_factory=OpResolver)
    configs: dict[tuple[str, float | None], int] = field(default_factory=dict)
    launches: list[Table] = field(default_factory=list)
    memory: list[Table] = field(default_factory=list)

    def add(self, part: HostFile, gpu: Gpu, clock: Clock) -> None:
        """Append the rows of one GPU."""
        device = part.first_device + gpu.ordinal
        events = gpu.kernels
        launch = launch_times(clock.launches, events)
        ops = np.array([self.resolver.op_id(key, part.modules) for key in events.ops] or [-1], np.int64)
        codes = [self.configs.setdefault(d, len(self.configs)) for d in events.details]
        columns: dict[str, Data] = {
            **_times(events, device, clock.origin),
            "kernel": _named(events, events.names),
            "op_id": ops[events.op],
            "config_id": np.array(codes or [-1], np.int64)[events.detail],
            "correlation_id": _float(np.where(events.correlation > 0, events.correlation, NONE)),
            "launch_ns": _float(np.where(launch == NONE, NONE, launch - clock.origin)),
            "iteration": iterations(clock.steps, events, launch),
        }
        self.launches.append(Table(contract.LAUNCHES, columns))
        self._add_memory(gpu.memory, device, clock)

    def _add_memory(self, events: DeviceEvents, device: int, clock: Clock) -> None:
        sizes = [memory_size(text) for text, _ in events.details]
        size = np.array([np.nan if s is None else s for s in sizes] or [np.nan])
        launch = launch_times(clock.launches, events)
        columns: dict[str, Data] = {
            **_times(events, device, clock.origin),
            "kind": _named(events, [memory_kind(name) for name in events.names]),
            "size_bytes": size[events.detail],
            "iteration": iterations(clock.steps, events, launch),
        }
        self.memory.append(Table(contract.MEMORY_OPS, columns))

    def tables(self) -> list[Table]:
        """Return launches, launch_configs, op_details and memory_ops."""
        return [
            concatenate(contract.LAUNCHES, self.launches),
            Table.from_rows(contract.LAUNCH_CONFIGS, [_config(*key) for key in self.configs]),
            Table.from_rows(contract.OP_DETAILS, self.resolver.rows),
            concatenate(contract.MEMORY_OPS, self.memory),
        ]


def _named(events: DeviceEvents, names: Sequence[str]) -> Names:
    """Return the name of each event, out of `names` by its code; equal names share an id."""
    codes, used = dense(events.name)
    ids: dict[str, int] = {}
    lookup = [ids.setdefault(names[code], len(ids)) for code in used.tolist()]
    return Names(np.array(lookup or [-1], np.int32)[codes], list(ids))


def _times(events: DeviceEvents, device: int, origin: int) -> dict[str, Data]:
    return {
        "device": np.full(len(events), device, np.int64),
        "stream": events.stream,
        "start_ns": events.start_ns - origin,
        "duration_ns": events.duration_ns,
    }


def _config(details: str, occupancy: float | None) -> dict[str, Value]:
    row: dict[str, Value] = dict(kernel_config(details))
    return row if occupancy is None else {**row, "occupancy_pct": occupancy}


def _devices(parts: Sequence[HostFile]) -> Table:
    rows = [_device(part.first_device, gpu) for part in parts for gpu in part.gpus]
    return Table.from_rows(contract.DEVICES, sorted(rows, key=lambda row: int(row["device"] or 0)))


def _device(first: int, gpu: Gpu) -> dict[str, Value]:
    """Return what the file itself says of a GPU; a capability's minor number is left out where it is 0."""
    stats = gpu.stats
    name, vendor, major = (stats.get(key) for key in ("gpu_device_name", "device_vendor", "compute_cap_major"))
    vendor = None if vendor is None else str(vendor)
    return {
        **gpu_row(first + gpu.ordinal, None if name is None else str(name), ran=len(gpu.kernels) > 0),
        "vendor": vendor,
        "compute_capability": None if major is None else f"{major}.{stats.get('compute_cap_minor', 0)}",
        "tensor_cores": tensor_cores_of(vendor),
        **{column: _count(stats.get(key)) for column, key in _FIGURES.items()},
    }


_FIGURES: Final = {
    "sm_count": "core_count",
    "clock_khz": "clock_rate",
    "memory_bytes": "memory_size",
    "bandwidth_bytes_per_s": "memory_bandwidth",
}


def _count(value: str | int | float | None) -> int | None:
    """Return a figure of a device; TensorFlow leaves 0 where it does not know one."""
    return int(value) if isinstance(value, int | float) and 0 < value < 2**53 else None


def _host_ops(parts: Sequence[HostFile]) -> Table:
    found: dict[tuple[str, str], Times] = {}
    for part in parts:
        for key, times in part.host.ops.items():
            add_times(found, key, times)
        for (name, program), times in part.host.hlo_ops.items():
            add_times(found, hlo_host_op(name, program, part.modules), times)
    return Table.from_rows(contract.HOST_OPS, [_host_row(*key, times) for key, times in sorted(found.items())])


def _host_row(op: str, op_type: str, times: Times) -> dict[str, Value]:
    *figures, shape = astuple(times)
    row = dict(zip(("calls", "sum_ns", "min_ns", "max_ns"), figures, strict=True))
    return {"op": op, "op_type": op_type, **row, "input_shapes": parse_shapes(shape)[1] if shape else None}


def _host_events(parts: Sequence[HostFile], clocks: Sequence[Clock]) -> Table:
    """Return the long events of the only host; those of several would not tell which GPU they belong to."""
    if len(parts) > 1:
        return Table(contract.HOST_EVENTS, {c.name: [] for c in contract.HOST_EVENTS.columns})
    events = parts[0].host.events
    thread, code, kind, start, duration = events.columns()
    columns = {
        "thread": thread,
        "start_ns": start - clocks[0].origin,
        "duration_ns": duration,
        "name": Names(code, events.names),
        "work": Names(kind, KINDS),
    }
    return Table(contract.HOST_EVENTS, columns)


def _step_rows(clocks: Sequence[Clock]) -> list[dict[str, Value]]:
    """Return the marks of the first host that has some; the others run the same steps."""
    clock = next((c for c in clocks if c.steps.marks), None)
    if clock is None:
        return []
    return [
        {
            "iteration": number,
            "name": mark.name if mark.step is not None else mark.group_name,
            "start_ns": mark.start_ns - clock.origin,
            "end_ns": mark.end_ns - clock.origin,
        }
        for number, mark in zip(clock.steps.number, clock.steps.marks, strict=True)
    ]


class Steps(Struct, frozen=True):
    """Steps of one host, in order of time.

    Attributes:
        number: of each step.
        mark: event that stands for it.
        renumbered: the marks' own numbers repeat, so the steps are numbered from 0.
    """

    number: tuple[int, ...]
    marks: tuple[Mark, ...]
    renumbered: bool = False


def choose_steps(marks: Sequence[Mark], spans: Sequence[Mapping[int, Span]] = ()) -> Steps:
    """Return the steps among `marks`: ours, Keras 2's `train`, any root with a step number, XProf's groups.

    Of several names in the best class the most frequent one counts. Where the host marks none, the spans count that
    the profiler derived from the activity of each GPU; the only step that it marks takes the bounds of its span.

    Args:
        marks: of the host.
        spans: of each GPU, group -> start and end in ns.
    """
    steps = _marked(marks)
    held: dict[int, Span] = {}
    for group, (start, end) in sorted(item for of_gpu in spans for item in of_gpu.items()):
        first, last = held.get(group, (start, end))
        held[group] = min(first, start), max(last, end)
    if not steps.marks:
        found = sorted((Mark("", None, False, group, *span) for group, span in held.items()), key=lambda m: m.start_ns)
        return Steps(tuple(m.group or 0 for m in found), tuple(found))
    only = steps.marks[0]
    if len(steps.marks) > 1 or only.group not in held:
        return steps
    start, end = held[only.group]
    return replace(steps, marks=(replace(only, start_ns=start, end_ns=end),))


def _marked(marks: Sequence[Mark]) -> Steps:
    numbered = [m for m in marks if m.step is not None]
    rooted = [m for m in numbered if m.root]
    classes = (
        [m for m in numbered if m.name == STEP_MARK],
        [m for m in rooted if m.name == "train"],
        *(rooted, numbered, [m for m in marks if m.group is not None]),
    )
    found = next((c for c in classes if c), [])
    if not found:
        return Steps((), ())
    name = Counter(m.name for m in found).most_common(1)[0][0]
    chosen = sorted((m for m in found if m.name == name), key=lambda m: (m.start_ns, m.end_ns))
    numbers = [m.step if m.step is not None else m.group or 0 for m in chosen]
    repeats = len(set(numbers)) < len(numbers)
    return Steps(tuple(range(len(numbers)) if repeats else numbers), tuple(chosen), repeats)


def launch_times(launches: tuple[Ints, Ints], events: DeviceEvents) -> Ints:
    """Return the host time of the launch of each event, `NONE` where the file has none.

    Args:
        launches: as `Host.launches` returns them.
        events: of one GPU.
    """
    ids, times = launches
    return np.append(times, NONE)[positions_in(events.correlation, ids)]


def iterations(steps: Steps, events: DeviceEvents, launch_ns: Ints) -> FloatArray:
    """Return the step of each event: by its stored group, else by its launch time; NaN for none.

    A launch between two steps belongs to the one before; one before the first step to none. A stored group that
    no step carries is work outside the steps.
    """
    out = np.full(len(events), np.nan)
    stored = events.group != NONE
    out[stored] = _by_group(steps, events.group[stored])
    timed = np.flatnonzero(~stored & (launch_ns != NONE))
    if len(timed) and steps.marks:
        starts = np.array([m.start_ns for m in steps.marks], np.int64)
        place = np.searchsorted(starts, launch_ns[timed], side="right") - 1
        out[timed] = np.where(place >= 0, np.array(steps.number, np.float64)[place], np.nan)
    return out


def _by_group(steps: Steps, group: Ints) -> FloatArray:
    pairs = {m.group: n for m, n in zip(steps.marks, steps.number, strict=True) if m.group is not None}
    if not pairs:
        return group.astype(np.float64)
    codes, groups = dense(group)
    return np.array([pairs.get(g, np.nan) for g in groups.tolist()], np.float64)[codes]
