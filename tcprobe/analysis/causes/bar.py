"""Divide the window of each GPU among causes and ops, and tell what layout changes cost beside an op."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tcprobe.analysis.causes.facts import CASTS, COPIES, TRANSPOSES
from tcprobe.analysis.causes.kernels import Kernel, Kernels
from tcprobe.analysis.kernels.kinds import kind_of, part_of
from tcprobe.analysis.kernels.launches import Launched
from tcprobe.analysis.ops.table import NO_OP, OpIdentity
from tcprobe.grouping import distinct_numbers, positions_in, sum_by, union_by
from tcprobe.schema.columns import FloatArray, IntArray, Row, Table
from tcprobe.schema.kinds import CAUSE_GROUPS, GROUP_OF, KERNEL_KINDS, CauseKind, KernelKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import OFF_CAUSES
from tcprobe.schema.tables import CAUSES_OF_TIME, KINDS_OF_KERNELS

COPYING: Final = ("copy", COPIES, "aten::clone")
"""Types of ops whose kernels may change layout or type, or copy alone: the kernel's name tells."""
# tensorflow/core/grappler/optimizers/generic_layout_optimizer_transposer.cc: NODE-PORT[-FANOUT]-TransposeNHWCToNCHW-...
_OF_THE_OPTIMISER: Final = re.compile(
    r"(?P<op>.+?)-\d+(?:-\d+)?-(?:Transpose|DataFormatVecPermute|DataFormatDimMap)[A-Z]+To[A-Z]+-LayoutOptimizer"
)
ORDER: Final[tuple[CauseKind, ...]] = tuple(cause for causes in CAUSE_GROUPS.values() for cause in causes)
KINDS: Final[tuple[KernelKind, ...]] = tuple(KERNEL_KINDS)
Place: TypeAlias = tuple[int | None, CauseKind, KernelKind | None]
"""A GPU, None where the source does not tell them apart, a cause, and a kind of kernels; None: all kinds together."""


class DividedTime(NamedTuple):
    """The window of one GPU, divided: `busy_ns` + `copy_ns` + `idle_ns` is its length."""

    parts_ns: FloatArray  # of each kernel its part of the window, not rounded; they add up to `busy_ns`
    busy_ns: int  # time in which at least one kernel ran
    copy_ns: int  # time in which copies or sets ran and no kernel
    idle_ns: int  # the rest


def divide(
    window: tuple[int, int], kernels: tuple[IntArray, IntArray], copies: tuple[IntArray, IntArray]
) -> DividedTime:
    """Divide a GPU's window among its kernels, copies and idleness.

    Args:
        window: start and end, ns.
        kernels: starts and durations of its kernels; what lies outside the window does not count.
        copies: likewise of copies and sets.
    """
    begin, end = window
    start, stop = (np.clip(times, begin, end) for times in (kernels[0], kernels[0] + np.maximum(kernels[1], 0)))
    parts = _shares(start, stop)
    one = np.zeros(len(start), np.int32)
    busy = int(union_by(one, start, stop - start, 1)[0])
    both = (np.concatenate([kernels[0], copies[0]]), np.concatenate([kernels[1], copies[1]]))
    used = int(union_by(np.zeros(len(both[0]), np.int32), *both, 1, window)[0])
    return DividedTime(parts, busy, used - busy, end - begin - used)


def _shares(start: IntArray, stop: IntArray) -> FloatArray:
    """Return of each interval the integral of 1 / n over it, where n is how many intervals hold a moment."""
    if not len(start):
        return np.zeros(0)
    times = np.concatenate([start, stop])
    change = np.concatenate([np.ones(len(start), np.int64), np.full(len(stop), -1, np.int64)])
    order = np.argsort(times, kind="stable")
    sorted_times, running = times[order], np.cumsum(change[order])
    length = np.diff(sorted_times).astype(np.float64)
    each = np.where(running[:-1] > 0, length / np.maximum(running[:-1], 1), 0.0)
    passed = np.concatenate([[0.0], np.cumsum(each)])
    at = passed[np.searchsorted(sorted_times, times)]  # equal times have no time between them
    shares: FloatArray = at[len(start) :] - at[: len(start)]
    return shares


def whole_ns(parts: FloatArray, total: int) -> IntArray:
    """Return parts in whole ns that add up to `total`: the largest remainders are rounded up.

    Args:
        parts: 0 or more; they add up to `total` but for errors of arithmetic.
        total: 0 or more.
    """
    floors = np.floor(parts).astype(np.int64)
    left = int(total - floors.sum())
    order = np.lexsort((np.arange(len(parts)), floors - parts))
    if 0 < left <= len(parts):
        floors[order[:left]] += 1
    elif left and len(parts):
        floors[int(np.argmax(parts))] += left
    return floors


class Split(NamedTuple):
    """The window of each GPU, divided."""

    # parts in whole ns; those of all kinds of a GPU and cause add up to that of no kind, these to the window
    causes: Mapping[Place, int]
    ops: Mapping[OpIdentity, int]  # op -> its parts on all GPUs, whole ns
    window_ns: int  # length of the window; where the profiler reports longer steps than it recorded, of those


def split_of(profile: Profile, kernels: Sequence[Kernel], launched: Launched | None) -> Split | None:
    """Divide the window of each GPU that ran kernels among causes and ops; None where no clock tells when they ran.

    A kernel that a step outside the window launched counts with what its op has in the window, else as `other_step`.

    Args:
        profile: for its window, copies and devices.
        kernels: with their causes.
        launched: launches with their class.
    """
    window = profile.metadata.window
    if launched is None or window.start_ns is None or window.end_ns is None or window.end_ns <= window.start_ns:
        return None
    groups, launches, memory = launched.groups, launched.groups.launches, profile.require("memory_ops")
    ops, code = _by_group(profile, kernels, launched)
    device, start, length = (launches.numbers(name) for name in ("device", "start_ns", "duration_ns"))
    reported = profile.require("devices").values("window_ns")
    window_ns = max(window.end_ns - window.start_ns, *(int(ns) for ns in reported if ns is not None))
    times, causes = np.zeros(len(launches)), dict[Place, int]()
    for gpu in distinct_numbers(device).tolist():
        mine, copied = np.flatnonzero(device == gpu), memory.numbers("device") == gpu
        copies = memory.numbers("start_ns")[copied], memory.numbers("duration_ns")[copied]
        divided = divide((window.start_ns, window.end_ns), (start[mine], length[mine]), copies)
        times[mine] = divided.parts_ns
        most = len(ORDER) * len(KINDS)
        spent: FloatArray = np.bincount(code[groups.of_launch[mine]], divided.parts_ns, most).astype(np.float64)
        parts = whole_ns(spent, divided.busy_ns).reshape(len(ORDER), len(KINDS))
        for at, part in zip(*(axis.tolist() for axis in np.nonzero(parts)), strict=True):
            causes[gpu, ORDER[at], KINDS[part]] = int(parts[at, part])
        totals = dict(zip(ORDER, parts.sum(axis=1).tolist(), strict=True))
        totals |= {"copy": divided.copy_ns, "idle": window_ns - divided.busy_ns - divided.copy_ns}
        causes |= {(gpu, cause, None): ns for cause, ns in totals.items() if ns > 0}
    of_ops = defaultdict[OpIdentity, float](float)
    for op, ns in zip(ops, np.bincount(groups.of_launch, weights=times, minlength=len(groups)).tolist(), strict=True):
        of_ops[op] += ns
    return Split(causes, {op: round(ns) for op, ns in of_ops.items() if op[0] != NO_OP}, window_ns)


def off_of_steps(profile: Profile, kernels: Sequence[Kernel], launched: Launched) -> FloatArray:
    """Return of each row of `iterations` the time of its kernels that could use Tensor Cores and do not, ns.

    NaN where a kernel of the step is none that counts, so that nobody judged it.
    """
    numbers = profile.require("iterations").numbers("iteration").astype(np.int64)
    cause = _by_group(profile, kernels, launched)[1] // len(KINDS)
    groups, launches = launched.groups, launched.groups.launches
    of_launch, step = cause[groups.of_launch], launches.numbers("iteration")
    row = positions_in(np.nan_to_num(step, nan=-1.0).astype(np.int64), numbers)
    off = np.isin(of_launch, [ORDER.index(one) for one in OFF_CAUSES])
    spent: FloatArray = sum_by(np.where(off, row, -1), launches.numbers("duration_ns"), len(numbers)).astype(np.float64)
    spent[row[(of_launch == ORDER.index("other_step")) & (row >= 0)]] = np.nan
    return spent


def _by_group(profile: Profile, kernels: Sequence[Kernel], launched: Launched) -> tuple[list[OpIdentity], IntArray]:
    """Return op of each group of launches, and the places of its cause in `ORDER` and kind in `KINDS` as one number."""
    details, groups = profile.require("op_details"), launched.groups
    causes = {(one.device, one.name, one.op): one.cause for one in kernels}
    known = [*zip(details.names("op").tolist(), details.names("op_type").tolist(), strict=True), (None, None)]
    ops = [(name or NO_OP, op_type) for name, op_type in (known[op] for op in groups.op.tolist())]
    places = zip(groups.device.tolist(), (groups.names[kernel] for kernel in groups.kernel.tolist()), ops, strict=True)
    cause_of = np.array([ORDER.index(causes.get(place, "other_step")) for place in places], np.int64)
    kinds = {one.name: one.kind for one in kernels}
    kind_of_name = np.array([KINDS.index(kinds.get(name) or kind_of(name)) for name in groups.names], np.int64)
    return ops, cause_of * len(KINDS) + kind_of_name[groups.kernel]


def build_causes(
    profile: Profile, kernels: Sequence[Kernel], split: Split | None, places: Mapping[OpIdentity, Row]
) -> tuple[Table, Table]:
    """Return the tables `causes` and `kinds`.

    Args:
        profile: for its devices and steps.
        kernels: with their causes, at least one.
        split: the window of each GPU; None where only sums are known.
        places: op -> its row of `ops`.
    """
    members = defaultdict[Place, list[Kernel]](list)
    totals = defaultdict[int | None, float](float)
    for kernel in kernels:
        members[kernel.device, kernel.cause, None].append(kernel)
        members[kernel.device, kernel.cause, kernel.kind].append(kernel)
        totals[kernel.device] += kernel.ns or 0
    rows: dict[Place, Row] = {place: _summed(each, places) for place, each in members.items()}
    if split is not None:
        for place in split.causes:
            rows.setdefault(place, {})
        for row in profile.require("devices").rows():
            copied: Place = (None if row["device"] is None else int(row["device"]), "copy", None)
            if copied in rows:
                rows[copied]["sum_ns"] = row["memory_ns"]
    steps = profile.kernel_steps
    for (device, cause, kind), row in rows.items():
        spent = row["sum_ns"] if split is None else split.causes.get((device, cause, kind), 0)
        total = totals[device] if split is None else split.window_ns
        row |= {
            "device": device,
            "group": GROUP_OF[cause],
            "cause": cause,
            "split_ns": None if split is None else spent,
            "share_pct": 100.0 * float(spent) / total if spent is not None and total else None,
            "step_ns": float(spent) / steps if spent is not None and steps else None,
        }
    of_kinds: list[Row] = [{**row, "kind": place[2]} for place, row in rows.items() if place[2] is not None]
    of_kinds.sort(key=lambda row: (*_order(row), str(row["kind"])))
    of_causes = sorted((row for place, row in rows.items() if place[2] is None), key=_order)
    return Table.from_rows(CAUSES_OF_TIME, of_causes), Table.from_rows(KINDS_OF_KERNELS, of_kinds)


def _order(row: Row) -> tuple[float, int, float, str]:
    device = -1.0 if row["device"] is None else float(row["device"])
    spent = row["split_ns"] if row["split_ns"] is not None else row.get("sum_ns")
    return device, [*CAUSE_GROUPS].index(row["group"]), -float(spent or 0), str(row["cause"])  # type: ignore[arg-type]


def _summed(kernels: Sequence[Kernel], places: Mapping[OpIdentity, Row]) -> Row:
    """Return the sums over kernels of one cause, with the costliest op and its costliest kernel."""
    spent = defaultdict[OpIdentity, int](int)
    for kernel in kernels:
        if kernel.op[0] != NO_OP:
            spent[kernel.op] += kernel.ns or 0
    costliest = min(spent, key=lambda op: (-spent[op], op[0], str(op[1])), default=None)
    own = [one for one in kernels if one.op == costliest] or kernels
    place = places.get(costliest, {}) if costliest is not None else {}
    calls, times = [one.calls for one in kernels], [one.ns for one in kernels]
    return {
        "launches": None if None in calls else sum(count or 0 for count in calls),
        "ops": len(spent),
        "sum_ns": None if None in times else sum(ns or 0 for ns in times),
        "kernel": min(own, key=lambda one: (-(one.ns or 0), one.name)).name,
        **{name: place.get(name) for name in ("op", "op_type", "layer", "pass")},
        "source": place.get("source") or place.get("called_from"),
    }


def around_ns(kernels: Kernels, rows: Mapping[OpIdentity, Row]) -> dict[OpIdentity, int]:
    """Return the time of layout changes and casts beside each op that could use Tensor Cores and has kernel time.

    They are kernels of such an op itself, kernels of an op that TensorFlow's layout optimiser put beside it and named
    after it, and kernels of transposes and casts in its layer and pass, which several ops share by their kernel time.
    Each ns counts at most once over all ops. What belongs to no such op, by name or by layer and pass, is left out.

    Args:
        kernels: with their causes.
        rows: op -> its row of `ops`.
    """
    capable = [key for key, row in rows.items() if row["tc_capable"] == "yes" and row["sum_ns"] is not None]
    around = dict.fromkeys(capable, 0)
    beside = defaultdict[Any, list[OpIdentity]](list)  # by name, and by layer and pass
    for key in sorted(capable, key=lambda key: (key[0], key[1] or "")):
        beside[key[0]].append(key)
        if rows[key]["layer"] is not None:
            beside[rows[key]["layer"], rows[key]["pass"]].append(key)
    shares = defaultdict[tuple[OpIdentity, ...], int](int)
    for op, members in kernels.items():
        if op in around:
            around[op] += sum(one.ns or 0 for one in members if one.cause == "layout")
        elif op in rows and rows[op]["tc_capable"] != "yes":
            moved = sum(one.ns or 0 for one in members if _moves(one))
            optimised = _OF_THE_OPTIMISER.fullmatch(op[0])
            place = rows[op]["layer"], rows[op]["pass"]
            owners = beside.get(optimised["op"] if optimised else op[0]) or beside.get(place)
            if moved and owners:
                shares[tuple(owners)] += moved
    for group, ns in shares.items():
        spent = np.array([float(rows[key]["sum_ns"] or 0) for key in group])
        weights = spent if spent.sum() > 0 else np.ones(len(group))
        for key, part in zip(group, whole_ns(ns * weights / weights.sum(), ns).tolist(), strict=True):
            around[key] += part
    return around


def _moves(kernel: Kernel) -> bool:
    """Return whether a kernel of an op that only moves does so: where the op may copy alone, its name tells."""
    op_type = kernel.op[1]
    return op_type in (*CASTS, *TRANSPOSES) or (op_type in COPYING and part_of(kernel.name) == "layout")
