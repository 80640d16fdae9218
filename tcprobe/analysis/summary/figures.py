"""Make the rows of the summary, and hold what they are computed from."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from tcprobe.analysis.context import Context
from tcprobe.analysis.kernels.launches import Launched
from tcprobe.analysis.ops.gemms import Gemms
from tcprobe.analysis.ops.table import Ops
from tcprobe.analysis.summary.reported import KernelTimes, Reported
from tcprobe.analysis.summary.steps import StepTime
from tcprobe.schema.columns import FloatArray, Names, Row, Table
from tcprobe.schema.kinds import ReasonKind
from tcprobe.schema.profile import Profile


class Reason(NamedTuple):
    """Why a figure is missing: in words, and as a kind where it holds for all Tensor Core figures."""

    text: str
    kind: ReasonKind | None = None


NO_GPU: Final = Reason("no GPU: Tensor Core use was not measured", "no_gpu")
NO_GPU_TIME: Final = Reason("no GPU: its time was not measured", "no_gpu")
NO_RECORD: Final = Reason(
    "no kernel was recorded, and whether a GPU was used is unknown: Tensor Core use was not measured", "no_record"
)
NO_KERNELS: Final = Reason("the source has no kernel times", "no_kernels")
NOT_NVIDIA: Final = Reason("not an NVIDIA GPU", "not_nvidia")


class Totals(NamedTuple):
    """Kernel time of the window in ns, by class."""

    kernel_ns: float
    tc_ns: float
    unknown_ns: float
    launches: float | None
    basis: str  # on which the verdicts of most of the time rest

    @classmethod
    def of(cls, kernels: Table, times: KernelTimes | None) -> Totals | None:
        """Sum the kernels table; without one take the profiler's own sums; None where neither has any."""
        spent = kernels.numbers("sum_ns")
        if not len(kernels) or np.isnan(spent).any():
            return None if times is None else cls(times.total, times.on_tc, 0.0, None, "reported")
        on_tc, unclear = (float(spent[kernels.names("uses_tc").among(v)].sum()) for v in ("yes", "unknown"))
        bases = {basis: time for basis, time in time_by_name(kernels.names("basis"), spent).items() if basis}
        basis = min(bases, key=lambda name: (-bases[name], name), default="name")
        calls = float(kernels.numbers("calls").sum())  # NaN where one is not known
        return cls(float(spent.sum()), on_tc, unclear, None if np.isnan(calls) else calls, basis)


class SummaryInputs(Struct, frozen=True, dict=True):
    """What the summary is computed from."""

    profile: Profile  # with devices, iterations and bad_sizes built
    context: Context  # the GPU
    kernels: Table  # of the window; empty where there are none
    ops: Ops | None  # None where there are none
    gemms: Gemms  # of the graph
    step: StepTime | None = None  # length of a step; None if unknown
    launched: Launched | None = None  # launches with their class; None where the source has sums only

    @cached_property
    def reported(self) -> Reported:
        """The profiler's own figures."""
        return Reported(self.profile)

    @cached_property
    def totals(self) -> Totals | None:
        """Kernel time of the window, by the profiler's own sums where there is no other; None where there is none."""
        return Totals.of(self.kernels, self.reported.kernel_times)

    @cached_property
    def not_applicable(self) -> Reason | None:
        """Why Tensor Core figures do not apply to this GPU; None where they do."""
        return not_applicable(self.context)

    @property
    def without_kernels(self) -> Reason:
        """Why there are no Tensor Core figures of a run without a kernel."""
        return without_kernels(self.context)

    @property
    def without_time(self) -> Reason:
        """Why there are no times of a GPU of a run without a kernel."""
        return NO_GPU_TIME if self.context.gpu_used is False else NO_KERNELS


def time_by_name(names: Names, spent: FloatArray) -> dict[str | None, float]:
    """Return the time of the rows of each name that occurs; None is that of NA."""
    count, time = (np.bincount(names.ids + 1, weights=w, minlength=len(names.names) + 1) for w in (None, spent))
    times: dict[str | None, float] = {}
    for name, rows, ns in zip((None, *names.names), count.tolist(), time.tolist(), strict=True):
        if rows:
            times[name] = times.get(name, 0.0) + ns
    return times


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


def missing(metric: str, reason: str | Reason | None) -> Row:
    """Return the row of a figure that is not there."""
    return figure(metric, None, None, reason)


def without_kernels(context: Context) -> Reason:
    """Return why there are no Tensor Core figures of a run without a kernel."""
    return NO_GPU if context.gpu_used is False else NO_RECORD


def not_applicable(context: Context) -> Reason | None:
    """Return why Tensor Core figures do not apply to this GPU; None where they do."""
    if not context.measured:
        return without_kernels(context)
    if not context.nvidia:
        return NOT_NVIDIA
    if context.tensor_cores == "no":
        return Reason(f"not applicable: {context.name or 'this GPU'} has no Tensor Cores", "no_tensor_cores")
    return None
