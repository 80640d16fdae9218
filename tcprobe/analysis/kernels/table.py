"""The `kernels` table: derived from launches by one pass over arrays, or read and classified anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.context import identified, parse_capability, tf32_asked
from tcprobe.analysis.grouping import count_by, distinct, sum_by
from tcprobe.analysis.kernels.contradictions import reported_notes
from tcprobe.analysis.kernels.counters import Config, Counters
from tcprobe.analysis.kernels.precision import precision_of_dtype, precision_of_name
from tcprobe.analysis.kernels.verdict import Verdict, classify, refine
from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of, parse_shape, parse_shapes
from tcprobe.hardware import Capability, Gpu
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table, Value
from tcprobe.schema.op import OpRecord
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import KERNELS

__all__ = ["Verdict", "classify", "derive_kernels", "reclassify", "refine"]

CONFIG_COLUMNS: Final = ("registers", "static_shared_bytes", "dynamic_shared_bytes", "block", "grid", "occupancy_pct")


@dataclass(frozen=True, slots=True)
class _Device:
    """What of a GPU bears on its kernels."""

    gpu: Gpu | None = None
    name: str | None = None
    capability: Capability | None = None
    vendor: str | None = None
    tensor_cores: str = "unknown"

    def counted(self, kernel: str, counters: Counters, configs: list[Config], device: Value) -> Verdict | None:
        """Return what hardware counters prove of the kernel; None where they prove nothing."""
        found = counters.verdict(kernel, configs, device, self.capability)
        if found is None:
            return None
        return Verdict(found.uses_tc, "counter", found.evidence, precision_of_name(kernel, found.uses_tc))

    def classify(self, kernel: str) -> Verdict:
        """Return what the kernel's name says on this GPU."""
        verdict = classify(kernel, self.capability, self.vendor)
        if self.tensor_cores == "no" and verdict.basis != "inferred":
            return Verdict(
                "no", "inferred", f"{self.name or 'the GPU'} has no Tensor Cores", verdict.precision, verdict.rule
            )
        return verdict


def _device(row: dict[str, Value]) -> _Device:
    name = None if row["name"] is None else str(row["name"])
    capability = parse_capability(row["compute_capability"])
    vendor = None if row["vendor"] is None else str(row["vendor"])
    if vendor is not None and vendor.lower() != "nvidia":
        return _Device(None, name, capability, vendor, "no")
    found = identified(row)
    known = found.tensor_cores if row["tensor_cores"] == "unknown" else str(row["tensor_cores"])
    if capability is None and found.gpu:
        capability = found.gpu.compute_capability
    return _Device(found.gpu, name or found.name, capability, vendor, known)


def _devices(profile: Profile) -> dict[int, _Device]:
    return {int(row["device"] or 0): _device(row) for row in profile.require("devices").rows()}


class _Groups:
    """Launches grouped by device, kernel and op label; ids of the groups run from 0.

    Attributes:
        group: of each launch.
        op: row of `op_details` of each launch, -1 for none.
        device: position of each launch's device among `devices`.
    """

    def __init__(self, launches: Table, details: Table) -> None:
        self.duration: IntArray = launches.numbers("duration_ns")
        self.kernels, kernel = _merged(launches.names("kernel"))
        self.labels, label_of = _labels(details)
        ops = launches.numbers("op_id")
        self.op: IntArray = np.where((ops >= 0) & (ops < len(details)), ops, -1).astype(np.int64)
        self.devices, self.device = _codes(launches.numbers("device"))
        keys = (self.device * len(self.kernels) + kernel) * len(self.labels) + label_of[self.op]
        found, self.group = distinct(keys, len(self.devices) * len(self.kernels) * len(self.labels))
        rest, self.label_id = np.divmod(found, len(self.labels))
        self.device_id, self.kernel_id = np.divmod(rest, len(self.kernels))
        pairs, _ = distinct(self.group * (len(details) + 1) + self.op + 1, len(found) * (len(details) + 1))
        self._pair_group, pair_op = np.divmod(pairs, len(details) + 1)
        self._pair_op = pair_op - 1

    def __len__(self) -> int:
        return len(self.kernel_id)

    def extreme(self, function: np.ufunc) -> FloatArray:
        """Return the shortest (np.minimum) or longest (np.maximum) launch of each group."""
        found = np.full(len(self), np.inf if function is np.minimum else -np.inf)
        function.at(found, self.group, self.duration.astype(np.float64))
        return found

    def shared(self, of_op: NDArray[Any]) -> NDArray[Any]:
        """Return the value that all ops of a group share; -1 where they differ.

        Args:
            of_op: value of each op; the last is that of no op.
        """
        values, starts = of_op[self._pair_op], np.flatnonzero(np.r_[True, np.diff(self._pair_group) != 0])
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        return np.where(low == high, low, -1)

    def values_of(self, values: IntArray) -> list[list[int]]:
        """Return the distinct values of each group, in ascending order."""
        bound = int(values.max()) + 2
        found, _ = distinct(self.group * bound + values + 1, len(self) * bound)
        lists: list[list[int]] = [[] for _ in range(len(self))]
        for key in found.tolist():
            lists[key // bound].append(key % bound - 1)
        return lists

    def costliest(self, values: IntArray) -> IntArray:
        """Return for each group the value that takes most of its time; the lowest of equals."""
        bound = int(values.max()) + 2
        found, inverse = distinct(self.group * bound + values + 1, len(self) * bound)
        cost = np.bincount(inverse, weights=self.duration)
        group, value = np.divmod(found, bound)
        best = np.lexsort((value, -cost, group))
        chosen: IntArray = value[best][np.r_[True, np.diff(group[best]) != 0]] - 1
        return chosen


def _codes(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct values in ascending order, and the position of each row's among them."""
    low = int(values.min())
    found, positions = distinct(values - low, int(values.max()) - low + 1)
    return found + low, positions


def _merged(names: Names) -> tuple[list[str], IntArray]:
    """Give equal names one id; NA cannot occur in a kernel column."""
    index: dict[str, int] = {}
    lookup = np.array([index.setdefault(n, len(index)) for n in names.names], dtype=np.int64)
    return list(index), lookup[names.ids]


def _labels(details: Table) -> tuple[list[tuple[str | None, str | None]], IntArray]:
    """Return the distinct (op, type) and the id of each op's; the last id is that of no op."""
    index: dict[tuple[str | None, str | None], int] = {}
    pairs = zip(details.names("op").tolist(), details.names("op_type").tolist(), strict=True)
    ids = [index.setdefault(pair, len(index)) for pair in pairs]
    ids.append(index.setdefault((None, None), len(index)))
    return list(index), np.array(ids, dtype=np.int64)


def derive_kernels(profile: Profile) -> Table:
    """Return the kernels table of a profile's launches, costliest first, every kernel with its verdict.

    Args:
        profile: holds `launches`; `op_details`, `launch_configs` and `devices` add what they have.
    """
    launches, details = profile.require("launches"), profile.require("op_details")
    if not len(launches):
        return Table(KERNELS, {c.name: [] for c in KERNELS.columns})
    groups = _Groups(launches, details)
    sums = sum_by(groups.group, groups.duration, len(groups))
    kernels = [groups.kernels[k] for k in groups.kernel_id.tolist()]
    labels = [groups.labels[i] for i in groups.label_id.tolist()]
    columns: dict[str, Any] = {
        "device": groups.devices[groups.device_id].astype(np.float64),
        "kernel": kernels,
        "op": [op for op, _ in labels],
        "op_type": [kind for _, kind in labels],
        "calls": count_by(groups.group, len(groups)).astype(np.float64),
        "sum_ns": sums.astype(np.float64),
        "min_ns": groups.extreme(np.minimum),
        "max_ns": groups.extreme(np.maximum),
        **_configs(groups.costliest(launches.numbers("config_id")), profile.require("launch_configs")),
        **_verdicts(groups, kernels, [kind for _, kind in labels], launches, profile),
    }
    rank = sorted(
        range(len(groups)), key=lambda i: (-int(sums[i]), kernels[i], labels[i][0] or "", labels[i][1] or "", i)
    )
    return Table(KERNELS, columns).take(np.array(rank, dtype=np.int64))


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


def _verdicts(
    groups: _Groups, kernels: list[str], op_types: list[str | None], launches: Table, profile: Profile
) -> dict[str, Any]:
    """Return the columns that classification fills: counters, then names, then op, dtype and rate of what is left."""
    details, devices, tf32 = profile.require("op_details"), _devices(profile), tf32_asked(profile)
    where = [devices.get(int(groups.devices[d]), _Device()) for d in groups.device_id.tolist()]
    counted = _counted(groups, kernels, where, launches, profile)
    found = [c or device.classify(kernel) for c, device, kernel in zip(counted, where, kernels, strict=True)]
    dtypes = details.names("dtype")
    dtype_of = groups.shared(np.r_[dtypes.ids, -1]).tolist()
    dtype = [dtypes.names[i] if i >= 0 else None for i in dtype_of]
    rates = _Rates(groups, launches, details) if any(v.uses_tc == "unknown" for v in found) else None
    for i, verdict in enumerate(found):
        if verdict.uses_tc == "unknown" and rates:
            flops, spent = rates.of(i)
            found[i] = refine(
                verdict,
                op_type=op_types[i],
                dtype=dtype[i],
                flops=flops,
                duration_ns=spent,
                gpu=where[i].gpu,
                tf32=tf32,
            )
    return _columns(found, dtype)


def _counted(
    groups: _Groups, kernels: list[str], where: list[_Device], launches: Table, profile: Profile
) -> list[Verdict | None]:
    """Return what hardware counters prove of each group, in the configurations in which it was launched."""
    counters = Counters.of(profile)
    if not counters:
        return [None] * len(groups)
    configs = profile.require("launch_configs")
    shapes = list(zip(configs.values("grid"), configs.values("block"), strict=True))
    launched = groups.values_of(launches.numbers("config_id"))
    devices = [int(groups.devices[d]) for d in groups.device_id.tolist()]
    return [
        device.counted(kernel, counters, [shapes[c] for c in ids if 0 <= c < len(shapes)], ordinal)
        for device, kernel, ids, ordinal in zip(where, kernels, launched, devices, strict=True)
    ]


def _columns(found: list[Verdict], dtype: list[str | None]) -> dict[str, Any]:
    return {
        "uses_tc": [v.uses_tc for v in found],
        "basis": [v.basis for v in found],
        "evidence": [v.evidence for v in found],
        "precision": [v.precision or precision_of_dtype(d, v.uses_tc) for v, d in zip(found, dtype, strict=True)],
    }


class _Rates:
    """FLOPs of an op that surely ran, and the time of all its kernels: a lower bound of its rate.

    An op executes at least once in every iteration in which it launched kernels; how often it launched them does
    not tell, for one execution may launch several.
    """

    def __init__(self, groups: _Groups, launches: Table, details: Table) -> None:
        ops = len(details) + 1
        key = groups.device * ops + groups.op + 1
        bound = len(groups.devices) * ops
        self.spent = np.bincount(key, weights=groups.duration, minlength=bound)
        step = np.nan_to_num(launches.numbers("iteration"), nan=-1.0).astype(np.int64)
        steps, step = _codes(step)
        ran, _ = distinct(key * len(steps) + step, bound * len(steps))
        self.least = np.bincount(ran // len(steps), minlength=bound)
        self.op = groups.shared(np.r_[np.arange(ops - 1), -1])
        self.key = groups.device_id * ops + self.op + 1
        self.details = details
        self.flops: dict[int, int | None] = {}

    def of(self, group: int) -> tuple[float | None, float | None]:
        """Return FLOPs and ns of the group's op; None where it has none, or several."""
        op, key = int(self.op[group]), int(self.key[group])
        if op < 0:
            return None, None
        if op not in self.flops:
            self.flops[op] = _flops(self.details, op)
        flops = self.flops[op]
        return (None if flops is None else float(flops * self.least[key])), float(self.spent[key])


def _flops(details: Table, op: int) -> int | None:
    text = {name: details.names(name)[op] for name in ("op_type", "dtype", "input_shapes", "output_shape")}
    shapes, output = parse_shapes(text["input_shapes"]), parse_shape(text["output_shape"])
    return flops_of(gemms_of(OpRecord(text["op_type"] or "", shapes, output, {}, text["dtype"])))


def reclassify(table: Table, profile: Profile) -> tuple[Table, tuple[Note, ...]]:
    """Classify a kernels table that a profiler wrote.

    Counters go first; then our verdict stands where the name tells, and the profiler's where it does not. A note lists
    where the name and the profiler contradict each other (DLProf's list of names predates Hopper).

    Args:
        table: `kernels` as read; its `uses_tc` is the profiler's own, basis ``reported``.
        profile: for the GPUs.
    """
    devices, counters = _devices(profile), Counters.of(profile)
    only = next(iter(devices.values())) if len(set(devices.values())) == 1 else _Device()
    columns = (table.values(name) for name in ("device", "kernel", "grid", "block"))
    named, found = [], []
    for ordinal, kernel, *config in zip(*columns, strict=True):
        device = only if ordinal is None else devices.get(int(ordinal), only)
        named.append(device.classify(str(kernel)))
        counted = device.counted(str(kernel), counters, [(config[0], config[1])], ordinal)
        found.append(counted or named[-1])
    said, basis, evidence = (table.values(name) for name in ("uses_tc", "basis", "evidence"))
    kept = [v.uses_tc == "unknown" and s != "unknown" for v, s in zip(found, said, strict=True)]
    changed = {
        "uses_tc": [s if k else v.uses_tc for v, s, k in zip(found, said, kept, strict=True)],
        "basis": [b if k else v.basis for v, b, k in zip(found, basis, kept, strict=True)],
        "evidence": [e if k else v.evidence for v, e, k in zip(found, evidence, kept, strict=True)],
        "precision": [p or v.precision for v, p in zip(found, table.values("precision"), strict=True)],
    }
    return table.with_columns(**changed), reported_notes(table, named, said)
