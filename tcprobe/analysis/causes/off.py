"""List the ops that could use Tensor Cores and do not, by what they cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.kinds import NOT_BLOCKED
from tcprobe.schema.profile import OffTensorCores, Profile
from tcprobe.schema.sizes import bounded_rows


def off_tensor_cores(profile: Profile) -> OffTensorCores | None:
    """Return the ops that could use Tensor Cores and do not, with what each costs; None where there is none."""
    ops = profile.require("ops")
    total = _sum(profile.require("kernels").numbers("sum_ns")) or _sum(ops.numbers("sum_ns"))
    if total > 0:
        off = ops.numbers("sum_ns") - np.nan_to_num(ops.numbers("tc_ns")) - np.nan_to_num(ops.numbers("unknown_ns"))
        capable = ops.names("tc_capable").among("yes")
        return _weighed(ops, off, total, capable & (np.nan_to_num(off) > 0), measured=True)
    gemms = profile.require("gemms")
    runs = ~gemms.names("executes").among("no")
    flops = gemms.numbers("flops") * gemms.numbers("calls_per_step")
    found = _weighed(gemms, flops, _sum(flops[runs]), runs, measured=False)
    return found and replace(found, bounded=bool(np.any(runs & bounded_rows(gemms))))


def _weighed(
    table: Table, weight: FloatArray, total: float, mask: NDArray[np.bool_], measured: bool
) -> OffTensorCores | None:
    mask = mask & ~table.names("tc_blocker_kind").among(*NOT_BLOCKED)
    if not mask.any():
        return None
    weight, kept = np.nan_to_num(weight[mask]), table.take(mask)
    order = np.argsort(-weight, kind="stable")
    return OffTensorCores(kept.take(order), weight[order], total, measured)


def _sum(values: FloatArray) -> float:
    return float(np.nansum(values))
