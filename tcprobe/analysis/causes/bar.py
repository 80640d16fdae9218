"""Build the table `causes`: what part of the window each cause takes on each GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from tcprobe.analysis.causes.split import DividedTime, divide, spread_of, whole_ns
from tcprobe.analysis.grouping import distinct_numbers
from tcprobe.analysis.kernels.launches import Launched
from tcprobe.analysis.ops.table import OpIdentity
from tcprobe.analysis.summary.waiting import kernel_steps
from tcprobe.schema.columns import FloatArray, Row, Table, Value
from tcprobe.schema.kinds import CAUSE_GROUPS, GROUP_OF, CauseKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import CAUSES_OF_TIME

ORDER: Final[tuple[CauseKind, ...]] = tuple(cause for causes in CAUSE_GROUPS.values() for cause in causes)
Device: TypeAlias = int | None
_PLACE: Final = ("op", "op_type", "layer", "pass", "source")


@dataclass(frozen=True, slots=True)
class Split:
    """The window of each GPU, divided.

    Attributes:
        causes: (GPU, cause) -> its part in whole ns; those of a GPU add up to the window.
        ops: op -> its parts on all GPUs, whole ns.
        window_ns: length of the window; where the profiler reports longer steps than it recorded, of those.
    """

    causes: Mapping[tuple[int, CauseKind], int]
    ops: Mapping[OpIdentity, int]
    window_ns: int


def split_of(profile: Profile, launched: Launched | None) -> Split | None:
    """Divide the window of each GPU that ran kernels among causes and ops; None where no clock tells when they ran.

    A kernel that a step outside the window launched counts with what its op has in the window, else as `other_step`.

    Args:
        profile: with `kernels` and their causes.
        launched: launches with their class.
    """
    window = profile.metadata.window
    if launched is None or window.start_ns is None or window.end_ns is None or window.end_ns <= window.start_ns:
        return None
    bounds = window.start_ns, window.end_ns
    keys, causes = _group_causes(profile, launched)
    groups, launches = launched.groups, launched.groups.launches
    device, start, length = (launches.numbers(name) for name in ("device", "start_ns", "duration_ns"))
    memory = profile.require("memory_ops")
    times = np.zeros(len(launches))
    shares: dict[tuple[int, CauseKind], int] = {}
    length_ns = _length(profile, bounds[1] - bounds[0])
    code = np.array([ORDER.index(cause) for cause in causes], np.int64)
    for gpu in distinct_numbers(device).tolist():
        mine, copied = np.flatnonzero(device == gpu), memory.numbers("device") == gpu
        copies = memory.numbers("start_ns")[copied], memory.numbers("duration_ns")[copied]
        divided = divide(bounds, (start[mine], length[mine]), copies)
        times[mine] = divided.parts_ns
        spent = spread_of(code[groups.of_launch[mine]], divided.parts_ns, len(ORDER))
        shares |= _whole(gpu, spent, replace(divided, idle_ns=length_ns - divided.busy_ns - divided.copy_ns))
    by_group = np.bincount(groups.of_launch, weights=times, minlength=len(groups))
    ops: dict[OpIdentity, float] = {}
    for key, ns in zip(keys, by_group.tolist(), strict=True):
        ops[key] = ops.get(key, 0.0) + ns
    return Split(shares, {key: round(ns) for key, ns in ops.items()}, length_ns)


def _length(profile: Profile, recorded: int) -> int:
    """Return the length of the window as the table `devices` has it: DLProf reports steps that it recorded in part."""
    told = profile.require("devices").numbers("window_ns")
    lengths: list[float] = told[~np.isnan(told)].tolist()
    return max([recorded, *map(round, lengths)])


def _whole(gpu: int, spent: FloatArray, divided: DividedTime) -> dict[tuple[int, CauseKind], int]:
    """Return a GPU's parts by cause in whole ns, those of copies and idleness too."""
    parts = whole_ns(spent, divided.busy_ns)
    found = {(gpu, ORDER[at]): ns for at, ns in enumerate(parts.tolist()) if ns > 0}
    rest: dict[CauseKind, int] = {"copy": divided.copy_ns, "idle": divided.idle_ns}
    return {**found, **{(gpu, cause): ns for cause, ns in rest.items() if ns > 0}}


def _group_causes(profile: Profile, launched: Launched) -> tuple[list[OpIdentity], list[CauseKind]]:
    """Return op and cause of each group of launches."""
    kernels, details, groups = profile.require("kernels"), profile.require("op_details"), launched.groups
    columns = (kernels.values(name) for name in ("device", "kernel", "op", "op_type", "cause"))
    known: dict[tuple[Value, ...], Any] = {tuple(row): cause for *row, cause in zip(*columns, strict=True)}
    names, types = [*details.names("op").tolist(), None], [*details.names("op_type").tolist(), None]
    keys: list[OpIdentity] = []
    causes: list[CauseKind] = []
    for device, kernel, op in zip(groups.device.tolist(), groups.kernel.tolist(), groups.op.tolist(), strict=True):
        keys.append((str(names[op]), types[op]))
        causes.append(known.get((device, groups.names[kernel], names[op], types[op]), "other_step"))
    return keys, causes


def build_causes(profile: Profile, split: Split | None, places: Mapping[OpIdentity, Row]) -> Table | None:
    """Return the table `causes`; None where no kernel has a cause.

    Args:
        profile: with `kernels` and their causes, and `devices`.
        split: the window of each GPU; None where only sums are known.
        places: op -> its row of `ops`.
    """
    kernels = profile.require("kernels")
    if not len(kernels):
        return None
    rows = _summed(kernels, places)
    totals: dict[Device, float] = {}
    for (device, _), row in rows.items():
        totals[device] = totals.get(device, 0.0) + float(row["sum_ns"] or 0)
    if split is not None:
        for (gpu, cause), ns in split.causes.items():
            rows.setdefault((gpu, cause), _empty(gpu, cause))["split_ns"] = ns
        for row in profile.require("devices").rows():
            if (found := rows.get((_device(row["device"]), "copy"))) is not None:
                found["sum_ns"] = row["memory_ns"]
    steps = kernel_steps(profile)
    for (device, _), row in rows.items():
        spent = row["sum_ns"] if split is None else row.get("split_ns") or 0
        row["split_ns"] = None if split is None else spent
        whole = totals.get(device, 0.0) if split is None else split.window_ns
        row["share_pct"] = 100.0 * float(spent) / whole if spent is not None and whole else None
        row["step_ns"] = float(spent) / steps if spent is not None and steps else None
    ordered = sorted(rows.values(), key=_order)
    return Table.from_rows(CAUSES_OF_TIME, ordered)


def _order(row: Row) -> tuple[float, int, float, str]:
    device = -1.0 if row["device"] is None else float(row["device"])
    spent = row["split_ns"] if row["split_ns"] is not None else row["sum_ns"]
    return device, list(CAUSE_GROUPS).index(str(row["group"])), -float(spent or 0), str(row["cause"])  # type: ignore[arg-type]


def _device(value: Value) -> Device:
    return None if value is None else int(value)


def _empty(device: Device, cause: CauseKind) -> Row:
    return {"device": device, "group": GROUP_OF[cause], "cause": cause}


def _summed(kernels: Table, places: Mapping[OpIdentity, Row]) -> dict[tuple[Device, CauseKind], Row]:
    """Return a row for each GPU and cause that kernels have, with the costliest op of each and its costliest kernel."""
    found: dict[tuple[Device, CauseKind], list[Row]] = {}
    for row in kernels.rows():
        cause: Any = row["cause"]
        found.setdefault((_device(row["device"]), cause), []).append(row)
    return {(device, cause): _row(device, cause, members, places) for (device, cause), members in found.items()}


def _row(device: Device, cause: CauseKind, members: list[Row], places: Mapping[OpIdentity, Row]) -> Row:
    spent: dict[OpIdentity, float] = {}
    for row in members:
        if row["op"] is not None:
            key = (str(row["op"]), _text(row["op_type"]))
            spent[key] = spent.get(key, 0.0) + float(row["sum_ns"] or 0)
    costliest = min(spent, key=lambda key: (-spent[key], key[0], str(key[1])), default=None)
    own = [row for row in members if costliest == (str(row["op"]), _text(row["op_type"]))] or members
    kernel = min(own, key=lambda row: (-float(row["sum_ns"] or 0), str(row["kernel"])))["kernel"]
    place = places.get(costliest, {}) if costliest is not None else {}
    line = place.get("source") or place.get("called_from")
    return {
        **_empty(device, cause),
        "launches": _added([row["calls"] for row in members]),
        "ops": len(spent),
        "sum_ns": _added([row["sum_ns"] for row in members]),
        "kernel": kernel,
        **{name: place.get(name) for name in _PLACE},
        "source": line,
    }


def _added(values: list[Value]) -> int | None:
    return None if None in values else sum(int(value) for value in values if value is not None)


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
