"""Find tiny kernels, and the kernel that takes most of the time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcprobe.analysis.iterations import counted
from tcprobe.analysis.kernels.names import COMMUNICATES
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.analysis.subject.places import Place, costliest_op
from tcprobe.rules.run.facts import TINY_NS, TinyKernels, TopKernel
from tcprobe.schema.columns import FloatArray, Names
from tcprobe.schema.kinds import CauseKind
from tcprobe.schema.profile import Profile


def tiny_kernels(profile: Profile) -> TinyKernels | None:
    """Return the launches of the window; None where neither launches nor calls of kernels are known."""
    launches = profile.require("launches")
    if len(launches):
        mine = counted(profile.metadata.window, launches.numbers("iteration"))
        spent = launches.numbers("duration_ns")[mine]
        short, graphs = spent < TINY_NS, ~np.isnan(launches.numbers("cuda_graph")[mine])
        tiny = TinyKernels(
            len(spent), float(short.sum()), float(spent[short].sum()), bool(2 * graphs.sum() > len(spent))
        )
        return tiny if len(spent) else None
    kernels = profile.require("kernels")
    calls, sums = kernels.numbers("calls"), kernels.numbers("sum_ns")
    if not len(kernels) or np.isnan(calls).any() or np.isnan(sums).any() or not calls.sum() > 0:
        return None
    short = sums < TINY_NS * calls
    return TinyKernels(float(calls.sum()), float(calls[short].sum()), float(sums[short].sum()))


def top_kernel(profile: Profile) -> TopKernel | None:
    """Return the kernel, by its name alone, that takes most of the time of all.

    None where no time is known, or where another vendor's GPU ran: nothing that tcprobe knows of kernels holds there.
    """
    kernels, devices = profile.require("kernels"), profile.require("devices")
    if not set(devices.take(devices.names("state").among("active")).names("vendor").tolist()) <= {None, "Nvidia"}:
        return None
    names, spent = kernels.names("kernel"), np.nan_to_num(kernels.numbers("sum_ns"))
    total = float(spent.sum())
    if not total > 0:
        return None
    place = _most(names, spent)
    mine = (names.ids == place) & (spent > 0)
    table, spent = kernels.take(mine), spent[mine]
    found = costliest_op(profile, table, spent)
    cause = _heaviest(table.names("cause"), spent) or _from_blocker(found, _heaviest(table.names("uses_tc"), spent))
    return TopKernel(
        names.names[place],
        float(spent.sum()),
        100.0 * float(spent.sum()) / total,
        cause,
        _heaviest(table.names("uses_tc"), spent) or "unknown",
        found.where,
        found.op_type,
        by_name(names.names[place]).rule in COMMUNICATES,
        100.0 * float(spent[table.names("op").ids < 0].sum()) / float(spent.sum()),
    )


def small_ns(profile: Profile) -> float:
    """Return the kernel time of products that are too small to fill the GPU, as far as causes are known."""
    kernels = profile.require("kernels")
    spent = kernels.numbers("sum_ns")[kernels.names("cause").among("tc_small")]
    return float(np.nansum(spent))


def _most(names: Names, spent: FloatArray) -> int:
    """Return the place of the name with the largest sum; of equal ones the first by name."""
    sums = np.bincount(names.ids + 1, weights=spent, minlength=len(names.names) + 1)[1:]
    return min(range(len(sums)), key=lambda n: (-float(sums[n]), names.names[n]))


def _heaviest(names: Names, spent: FloatArray) -> Any:
    """Return the value with the largest time; None where that is of rows without a value."""
    sums = dict[str | None, float]()
    for value, ns in zip(names.tolist(), spent.tolist(), strict=True):
        sums[value] = sums.get(value, 0.0) + ns
    return min(sums, key=lambda value: (-sums[value], value or "")) if sums else None


def _from_blocker(place: Place, uses_tc: Any) -> CauseKind | None:
    """Return why its time is spent as it is, where no cause is recorded: by what keeps its op off the Tensor Cores."""
    op = place.row
    if uses_tc == "yes":
        return "none"
    if op is None:
        return "op_unknown" if place.where.op is None else None
    if op["tc_capable"] == "no":
        return "type"
    if uses_tc == "unknown":
        return "kernels_unknown"
    blocker: Any = op["tc_blocker_kind"]
    return None if blocker == "none" else blocker
