"""Build the `kernels` table from groups of launches, or classify one that a profiler wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.analysis.context import identified, parse_capability, tf32_asked
from tcprobe.analysis.kernels.counters import Configuration, Counters, reported_notes
from tcprobe.analysis.kernels.details import sizes_of, waves_of, with_details
from tcprobe.analysis.kernels.launches import NO, UNKNOWN, YES, Launched, LaunchGroups, group_launches
from tcprobe.analysis.kernels.verdict import (
    Verdict,
    classify,
    may_multiply,
    precision_as,
    precision_of_dtype,
    refine,
    with_words,
)
from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of, parse_json_shapes, parse_shape
from tcprobe.grouping import Numbers, count_by, distinct_rows, ranks, sum_by
from tcprobe.hardware import Capability, Gpu
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table, Value
from tcprobe.schema.kinds import NamedKernel
from tcprobe.schema.op import OpRecord
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.tables import KERNELS

__all__ = ["Verdict", "classify", "derive_kernels", "reclassify", "refine"]

CONFIG_COLUMNS: Final = ("registers", "static_shared_bytes", "dynamic_shared_bytes", "block", "grid", "occupancy_pct")


class Device(Struct, frozen=True):
    """What is known of a GPU, as far as its kernels' class depends on it."""

    gpu: Gpu | None = None
    name: str | None = None
    capability: Capability | None = None
    vendor: str | None = None
    tensor_cores: str = "unknown"

    def by_counters(
        self, kernel: str, counters: Counters, configs: Sequence[Configuration], device: Value
    ) -> Verdict | None:
        """Return what hardware counters prove of the kernel; None where they prove nothing."""
        found = counters.verdict(kernel, configs, device, self.capability)
        if found is None:
            return None
        return Verdict(found.uses_tc, "counter", found.evidence, precision_as(kernel, found.uses_tc))

    def classify(self, kernel: str) -> Verdict:
        """Return what the kernel's name says on this GPU."""
        verdict = classify(kernel, self.capability, self.vendor)
        if self.tensor_cores == "no" and verdict.basis != "inferred":
            return Verdict(
                "no", "inferred", f"{self.name or 'the GPU'} has no Tensor Cores", verdict.precision, verdict.rule
            )
        return verdict


def _device(row: dict[str, Value]) -> Device:
    name = text_of(row["name"])
    capability = parse_capability(row["compute_capability"])
    vendor = text_of(row["vendor"])
    if vendor is not None and vendor.lower() != "nvidia":
        return Device(None, name, capability, vendor, "no")
    found = identified(row)
    known = found.tensor_cores if row["tensor_cores"] == "unknown" else str(row["tensor_cores"])
    if capability is None and found.gpu:
        capability = found.gpu.compute_capability
    return Device(found.gpu, name or found.name, capability, vendor, known)


def devices_of(profile: Profile) -> dict[int, Device]:
    """Return what is known of each GPU, by its ordinal."""
    return {int(row["device"] or 0): _device(row) for row in profile.require("devices").rows()}


def derive_kernels(profile: Profile) -> Table:
    """Return the kernels table of all launches of a profile, costliest first, every kernel with its verdict.

    Args:
        profile: holds `launches`; `op_details`, `launch_configs` and `devices` add what they have.
    """
    groups = group_launches(profile)
    return classified_kernels(profile, groups, np.arange(len(groups)))[0]


def classified_kernels(profile: Profile, groups: LaunchGroups, chosen: IntArray) -> tuple[Table, IntArray]:
    """Return the kernels table of some groups of launches, costliest first, and the row of each of these groups.

    Args:
        profile: that of the groups.
        groups: of its launches.
        chosen: all groups of these rows that count, or all of them that do not.
    """
    if not len(chosen):
        return Table(KERNELS, {c.name: [] for c in KERNELS.columns}), np.zeros(0, np.int64)
    rows = _Rows(groups, chosen, profile.require("op_details"))
    mine, row, count = rows.groups, rows.row, len(rows)
    sums = sum_by(row, groups.sum_ns[mine], count)
    shortest, longest = groups.min_ns[rows.first].copy(), groups.max_ns[rows.first].copy()
    np.minimum.at(shortest, row, groups.min_ns[mine])
    np.maximum.at(longest, row, groups.max_ns[mine])
    columns: dict[str, Any] = {
        "device": rows.device,
        "kernel": Names(rows.kernel, groups.names),
        "op": rows.op,
        "op_type": rows.op_type,
        "calls": sum_by(row, groups.calls[mine], count),
        "sum_ns": sums,
        "min_ns": shortest,
        "max_ns": longest,
        **_configs(rows.costliest(groups.config), profile.require("launch_configs")),
        **_verdicts(profile, rows),
        **_waves(profile, rows),
    }
    order = np.lexsort((rows.label_rank, ranks(groups.names)[rows.kernel], -sums))
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    return with_details(Table(KERNELS, columns).take(order)), place[row]


class _Rows:
    """Rows of the kernels table: groups of launches of one GPU, kernel, op and type of op.

    Attributes:
        all: groups of launches.
        groups: those that have a row.
        row: of each of these.
        first: a group of each row.
        device, kernel, op, op_type: of each row; the kernel by its place among the names.
        label_rank: place of each row's op and type in alphabetical order.
    """

    def __init__(self, groups: LaunchGroups, chosen: IntArray, details: Table) -> None:
        self.all, self.groups = groups, chosen
        labels, label_of = label_ids(details)
        keys = groups.device[chosen], groups.kernel[chosen], label_of[groups.op[chosen]]
        (self.device, self.kernel, label), self.row = distinct_rows(*keys)
        self.first = np.empty(len(self), np.int64)
        self.first[self.row] = chosen
        self.op, self.op_type = (Names.of(column).take(label) for column in zip(*labels, strict=True))
        self.label_rank = ranks([(op or "", op_type or "") for op, op_type in labels])[label]

    def __len__(self) -> int:
        return len(self.device)

    def shared(self, of_op: Numbers) -> IntArray:
        """Return the value that all ops of a row share; -1 where they differ.

        Args:
            of_op: value of each op; the last is that of no op.
        """
        shared = of_op[self.all.op[self.first]].astype(np.int64)
        shared[self.row[of_op[self.all.op[self.groups]] != shared[self.row]]] = -1
        return shared

    def configs(self) -> list[list[int]]:
        """Return the distinct configurations of each row, in ascending order."""
        (row, config), _ = distinct_rows(self.row, self.all.config[self.groups])
        lists: list[list[int]] = [[] for _ in range(len(self))]
        for at, value in zip(row.tolist(), config.tolist(), strict=True):
            lists[at].append(value)
        return lists

    def costliest(self, values: IntArray) -> IntArray:
        """Return for each row the value of its groups that takes most of its time; the lowest of equals."""
        (row, value), pair = distinct_rows(self.row, values[self.groups])
        best = np.lexsort((value, -sum_by(pair, self.all.sum_ns[self.groups], len(row)), row))
        return value[best][np.flatnonzero(np.diff(row[best], prepend=-1))]


def _waves(profile: Profile, rows: _Rows) -> dict[str, FloatArray]:
    """Return the columns on waves: of the costliest configuration, and of the time of all."""
    names = ("waves", "blocks_per_sm", "outputs_at_most", "tail_ns")
    columns = {name: np.full(len(rows), np.nan) for name in names}
    configs, sizes = list(profile.require("launch_configs").rows()), sizes_of(profile)
    if not configs or not sizes:
        return columns
    columns["tail_ns"][:] = 0.0
    chosen = rows.costliest(rows.all.config).tolist()
    for row, group in zip(rows.row.tolist(), rows.groups.tolist(), strict=True):
        config, gpu = int(rows.all.config[group]), sizes.get(int(rows.all.device[group]))
        known = gpu is not None and 0 <= config < len(configs)
        found = waves_of(rows.all.names[rows.all.kernel[group]], configs[config], gpu) if gpu and known else None
        columns["tail_ns"][row] += found.empty * float(rows.all.sum_ns[group]) if found else np.nan
        if found and config == chosen[row]:
            for name in names[:3]:
                columns[name][row] = getattr(found, name)
    return columns


def label_ids(details: Table) -> tuple[list[tuple[str | None, str | None]], IntArray]:
    """Return the distinct (op, type) and the id of each op's; the last id is that of no op."""
    index: dict[tuple[str | None, str | None], int] = {}
    pairs = zip(details.names("op").tolist(), details.names("op_type").tolist(), strict=True)
    ids = [index.setdefault(pair, len(index)) for pair in pairs]
    ids.append(index.setdefault((None, None), len(index)))
    return list(index), np.array(ids, dtype=np.int64)


def _configs(chosen: IntArray, configs: Table) -> dict[str, Any]:
    known = (chosen >= 0) & (chosen < len(configs))
    safe = np.where(known, chosen, 0)
    columns: dict[str, Any] = {}
    for name in CONFIG_COLUMNS if len(configs) else ():
        data = configs.columns[name]
        if isinstance(data, Names):
            columns[name] = Names(np.where(known, data.ids[safe], -1), data.names)
        else:
            columns[name] = np.where(known, data[safe], np.nan)
    return columns


def _verdicts(profile: Profile, rows: _Rows) -> dict[str, Names]:
    """Return the columns that classification fills: counters, then names, then op, dtype and rate of what is left."""
    devices, names = devices_of(profile), rows.all.names
    (ordinals, kernels), which = distinct_rows(rows.device, rows.kernel)
    where = [devices.get(ordinal, Device()) for ordinal in ordinals.tolist()]
    named = [device.classify(names[k]) for device, k in zip(where, kernels.tolist(), strict=True)]
    found = [named[i] for i in which.tolist()]
    for row, verdict in _by_counters(profile, rows, devices):
        found[row] = verdict
    unknown = [row for row, verdict in enumerate(found) if verdict.uses_tc == "unknown"]
    dtypes = profile.require("op_details").names("dtype")
    dtype = Names(rows.shared(np.append(dtypes.ids, -1)), dtypes.names)
    tf32, rates = tf32_asked(profile), _rates(profile, rows, unknown)
    for row in unknown:
        flops, spent = rates.get(row, (None, None))
        found[row] = refine(
            found[row],
            op_type=rows.op_type[row],
            dtype=dtype[row],
            flops=flops,
            duration_ns=spent,
            gpu=where[which[row]].gpu,
            tf32=tf32,
        )
    return _columns(found, dtype)


def _columns(found: list[Verdict], dtype: Names) -> dict[str, Names]:
    """Return verdict, basis, evidence and precision; the op's dtype tells the precision where the name does not."""
    index: dict[Verdict, int] = {}
    ids = np.array([index.setdefault(verdict, len(index)) for verdict in found])
    (which, dtypes), pair = distinct_rows(ids, dtype.ids)
    distinct = list(index)
    told = [
        (distinct[i], None if d < 0 else dtype.names[d]) for i, d in zip(which.tolist(), dtypes.tolist(), strict=True)
    ]
    columns = {
        "uses_tc": [v.uses_tc for v, _ in told],
        "basis": [v.basis for v, _ in told],
        "evidence": [v.evidence for v, _ in told],
        "precision": [v.precision or precision_of_dtype(d, v.uses_tc, may_multiply(v)) for v, d in told],
    }
    return {name: Names.of(values).take(pair) for name, values in columns.items()}


def _by_counters(profile: Profile, rows: _Rows, devices: dict[int, Device]) -> Iterator[tuple[int, Verdict]]:
    """Yield what hardware counters prove of rows, in the configurations in which their kernels were launched."""
    counters = Counters.of(profile)
    if not counters:
        return
    configs = profile.require("launch_configs")
    shapes = list(zip(configs.values("grid"), configs.values("block"), strict=True))
    columns = zip(rows.device.tolist(), rows.kernel.tolist(), rows.configs(), strict=True)
    for row, (ordinal, kernel, ids) in enumerate(columns):
        asked = [shapes[c] for c in ids if 0 <= c < len(shapes)]
        verdict = devices.get(ordinal, Device()).by_counters(rows.all.names[kernel], counters, asked, ordinal)
        if verdict is not None:
            yield row, verdict


def _rates(profile: Profile, rows: _Rows, asked: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return FLOPs that the op of a row surely executed, and ns of all its kernels on that GPU: least rate of the op.

    An op executes at least once in every iteration in which it launched kernels; how often it launched them does
    not tell, for one execution may launch several.

    Args:
        profile: for the shapes of its ops.
        rows: of the kernels table.
        asked: the rows in question; those of several ops, or of unknown shapes, are left out.
    """
    details, groups = profile.require("op_details"), rows.all
    ops = rows.shared(np.append(np.arange(len(details)), -1)).tolist()
    known = {op: flops for op in {ops[row] for row in asked} if op >= 0 and (flops := _flops(details, op)) is not None}
    if not known:
        return {}
    of_known = np.zeros(len(details) + 1, np.bool_)
    of_known[list(known)] = True
    mine = np.flatnonzero(of_known[groups.op] & (groups.counted == groups.counted[rows.first[0]]))
    (device, op), pair = distinct_rows(groups.device[mine], groups.op[mine])
    of_group = np.full(len(groups), -1, np.int32)
    of_group[mine] = pair
    of_launch = of_group[groups.of_launch]
    steps = groups.launches.numbers("iteration")[of_launch >= 0]
    ran, _ = distinct_rows(of_launch[of_launch >= 0], np.where(np.isnan(steps), -1, steps).astype(np.int64))
    least, spent = count_by(ran[0], len(op)).tolist(), sum_by(pair, groups.sum_ns[mine], len(op)).tolist()
    at = {key: place for place, key in enumerate(zip(device.tolist(), op.tolist(), strict=True))}
    places = {row: at[int(rows.device[row]), ops[row]] for row in asked if ops[row] in known}
    return {row: (float(known[ops[row]] * least[p]), float(spent[p])) for row, p in places.items()}


def _flops(details: Table, op: int) -> int | None:
    text = {name: details.names(name)[op] for name in ("op_type", "dtype", "input_shapes", "output_shape")}
    shapes, output = parse_json_shapes(text["input_shapes"]), parse_shape(text["output_shape"])
    return flops_of(gemms_of(OpRecord(text["op_type"] or "", shapes, output, {}, text["dtype"])))


def reclassify(table: Table, profile: Profile, words: Sequence[NamedKernel] = ()) -> tuple[Table, tuple[Note, ...]]:
    """Classify a kernels table that a profiler wrote.

    Counters go first; then our verdict stands where the name tells, and the profiler's where it does not. A note lists
    where the name and the profiler contradict each other (DLProf's list of names predates Hopper).

    Args:
        table: `kernels` as read; its `uses_tc` is the profiler's own, basis ``reported``.
        profile: for the GPUs.
        words: what the user says of kernels whose names do not tell.
    """
    devices, counters = devices_of(profile), Counters.of(profile)
    only = next(iter(devices.values())) if len(set(devices.values())) == 1 else Device()
    named, found = [], []
    for ordinal, kernel in zip(table.values("device"), table.values("kernel"), strict=True):
        device = only if ordinal is None else devices.get(int(ordinal), only)
        named.append(device.classify(str(kernel)))
        counted = device.by_counters(str(kernel), counters, (), ordinal)  # a row sums over configurations
        found.append(counted or named[-1])
    said, basis, evidence = (table.values(name) for name in ("uses_tc", "basis", "evidence"))
    kept = [v.uses_tc == "unknown" and s != "unknown" for v, s in zip(found, said, strict=True)]
    changed = {
        "uses_tc": [s if k else v.uses_tc for v, s, k in zip(found, said, kept, strict=True)],
        "basis": [b if k else v.basis for v, b, k in zip(found, basis, kept, strict=True)],
        "evidence": [e if k else v.evidence for v, e, k in zip(found, evidence, kept, strict=True)],
        "precision": [p or v.precision for v, p in zip(found, table.values("precision"), strict=True)],
    }
    return with_words(with_details(table.with_columns(**changed)), words), reported_notes(table, named, said)


_CODES: Final = {"no": NO, "yes": YES, "unknown": UNKNOWN}


def classify_launches(
    profile: Profile, counted: NDArray[np.bool_], words: Sequence[NamedKernel] = ()
) -> tuple[Table, Launched]:
    """Return the kernels table of the launches that count, and all launches in groups, each with its class.

    A launch that does not count takes the class that its kernel and op have in the window; where they do not occur
    there, they are classified by all launches outside it.

    Args:
        profile: holds `launches` and `op_details`.
        counted: which launches count.
        words: what the user says of kernels whose names do not tell.
    """
    groups, reported = group_launches(profile, counted), _reported(profile)
    _, label_of = label_ids(profile.require("op_details"))
    found, key = distinct_rows(groups.device, groups.kernel, label_of[groups.op])
    classes = np.full(len(found[0]), -1, np.int8)

    def classified(chosen: NDArray[np.int64]) -> Table:
        table, row = classified_kernels(profile, groups, chosen)
        table = with_words(_settled(table, reported), words)
        uses = table.names("uses_tc")
        classes[key[chosen]] = np.array([_CODES[name] for name in uses.names], np.int8)[uses.ids[row]]
        return table

    kernels = classified(np.flatnonzero(groups.counted))
    classified(np.flatnonzero(classes[key] < 0))
    return kernels, Launched(groups, classes[key])


def _reported(profile: Profile) -> Mapping[str, Value]:
    """Return what the profiler itself says of each kernel name; unknown where it contradicts itself."""
    said: dict[str, Value] = {}
    table = profile.require("kernels")
    for name, verdict in zip(table.values("kernel"), table.values("uses_tc"), strict=True):
        said[str(name)] = verdict if said.get(str(name), verdict) == verdict else "unknown"
    return said


def _settled(kernels: Table, reported: Mapping[str, Value]) -> Table:
    """Take the profiler's own verdict where ours is unknown."""
    if set(reported.values()) <= {"unknown"}:
        return kernels
    columns = {name: kernels.values(name) for name in ("kernel", "uses_tc", "basis", "evidence")}
    for row in range(len(kernels)):
        said = reported.get(str(columns["kernel"][row]), "unknown")
        if columns["uses_tc"][row] == "unknown" and said != "unknown":
            columns["uses_tc"][row], columns["basis"][row] = said, "reported"
            columns["evidence"][row] = "the profiler says so"
    return kernels.with_columns(**columns)
