"""Make the rows of the summary, and hold what they are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.context import Context
from tcprobe.analysis.grouping import known_total
from tcprobe.analysis.kernels.launches import Launched
from tcprobe.analysis.ops.gemms import Gemms
from tcprobe.analysis.ops.table import Ops
from tcprobe.analysis.summary.reported import KernelTimes
from tcprobe.analysis.summary.step_time import StepTime
from tcprobe.schema.columns import FloatArray, Names, Row, Table
from tcprobe.schema.kinds import ReasonKind
from tcprobe.schema.profile import Profile


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a figure is missing: in words, and as a kind where it holds for all Tensor Core figures."""

    text: str
    kind: ReasonKind | None = None


NO_GPU: Final = Reason("no GPU: Tensor Core use was not measured", "no_gpu")
NO_GPU_TIME: Final = Reason("no GPU: its time was not measured", "no_gpu")
NO_RECORD: Final = Reason(
    "no kernel was recorded, and whether a GPU was used is unknown: Tensor Core use was not measured", "no_record"
)
NO_KERNELS: Final = Reason("the source has no kernel times", "no_kernels")
NO_OP_KERNELS: Final = Reason("the source has no kernel times per op", "no_kernels")
NO_OPS: Final = Reason("the source names no ops")
NOT_NVIDIA: Final = Reason("not an NVIDIA GPU", "not_nvidia")


@dataclass(frozen=True, slots=True)
class SummaryInputs:
    """What the summary is computed from.

    Attributes:
        profile: with devices, iterations and bad_sizes built.
        context: the GPU.
        kernels: of the window; empty where there are none.
        ops: None where there are none.
        gemms: of the graph.
        step: length of a step; None if unknown.
        launched: launches with their class; None where the source has sums only.
    """

    profile: Profile
    context: Context
    kernels: Table
    ops: Ops | None
    gemms: Gemms
    step: StepTime | None = None
    launched: Launched | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Kernel time of the window in ns, by class."""

    kernel_ns: float
    tc_ns: float
    unknown_ns: float
    launches: float | None
    basis: str

    @classmethod
    def of(cls, kernels: Table, times: KernelTimes | None) -> Totals | None:
        """Sum the kernels table; without one take the profiler's own sums; None where neither has any."""
        spent = kernels.numbers("sum_ns")
        if len(kernels) and not np.isnan(spent).any():
            verdict = kernels.names("uses_tc")
            on_tc, unclear = (float(spent[verdict.among(v)].sum()) for v in ("yes", "unknown"))
            calls = kernels.numbers("calls")
            return cls(
                float(spent.sum()),
                on_tc,
                unclear,
                None if np.isnan(calls).any() else known_total(calls),
                _basis(kernels),
            )
        return None if times is None else cls(times.total, times.on_tc, 0.0, None, "reported")


def _basis(kernels: Table) -> str:
    """Return the basis on which the verdicts of most kernel time rest."""
    told = time_by_name(kernels.names("basis"), kernels.numbers("sum_ns"))
    spent = {basis: time for basis, time in told.items() if basis is not None}
    return min(spent, key=lambda b: (-spent[b], b)) if spent else "name"


def time_by_name(names: Names, spent: FloatArray) -> dict[str | None, float]:
    """Return the time of the rows of each name that occurs; None is that of NA."""
    count, time = (np.bincount(names.ids + 1, weights=w, minlength=len(names.names) + 1) for w in (None, spent))
    found: dict[str | None, float] = {}
    for name, rows, ns in zip((None, *names.names), count.tolist(), time.tolist(), strict=True):
        if rows:
            found[name] = found.get(name, 0.0) + ns
    return found


def figure(
    metric: str,
    value: float | None,
    basis: str | None,
    reason: str | Reason | None = None,
    bounds: tuple[float | None, float | None] = (None, None),
    text: str | None = None,
) -> Row:
    """Return one row of the summary; the basis of a figure that is not there is NA, and a reason must stand."""
    known = value is not None or text is not None or bounds != (None, None)
    why = Reason(reason) if isinstance(reason, str) else reason
    return {
        "metric": metric, "value": value, "low": bounds[0], "high": bounds[1], "text": text,
        "basis": basis if known else None,
        "reason": why.text if why else None, "reason_kind": why.kind if why else None,
    }  # fmt: skip


def without_kernels(context: Context) -> Reason:
    """Return why there are no Tensor Core figures of a run without a kernel."""
    return NO_GPU if context.gpu_used is False else NO_RECORD


def without_time(context: Context) -> Reason:
    """Return why there are no times of a GPU of a run without a kernel."""
    return NO_GPU_TIME if context.gpu_used is False else NO_KERNELS


def not_applicable(context: Context) -> Reason | None:
    """Return why Tensor Core figures do not apply to this GPU; None where they do."""
    if not context.measured:
        return without_kernels(context)
    if not context.nvidia:
        return NOT_NVIDIA
    if context.tensor_cores == "no":
        return Reason(f"not applicable: {context.name or 'this GPU'} has no Tensor Cores", "no_tensor_cores")
    return None
