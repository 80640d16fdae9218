"""Summarise model FLOPs utilisation: the time that a step's products take at the GPUs' dense peak over its length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from tcprobe.analysis.context import Context
from tcprobe.analysis.summary.figures import NOT_NVIDIA, Reason, SummaryInputs, figure, missing
from tcprobe.analysis.summary.rates import (
    LOST,
    NO_STEP,
    TUNED,
    Peak,
    changing_flops,
    flops_per_step,
    not_of_steps,
    peak_of,
)
from tcprobe.rules.words import listed
from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import PRODUCTS

MFU: Final = "mfu_pct"
HFU: Final = "hfu_pct"
GPU_UNKNOWN: Final = Reason("which GPU ran is not known, or several models ran", "gpu_unknown")
MAY_REPEAT: Final = "whether some of these products are recomputed is not known, which would not count"
SLOWED: Final = "of a step under the profiler, which slows it"
BOTH: Final = "of the mean step: there are two kinds"
OF_SHAPES: Final = "of the mean step: shapes change"
REPEATED: Final = "recomputed products included"
NO_BOUND: Final = Reason("not all FLOPs are known, and those known may be recomputed", "flops_bound")
MIXED: Final = ": the FLOPs over the sum of their times at each dtype's own"
SPREAD_UNKNOWN: Final = "on how many of the GPUs some products ran is not known"


class _Product(NamedTuple):
    """One product of a step: how long it takes one GPU at its peak, and how many executions there are."""

    flops: float  # of its executions in a step, on one GPU
    peak: Peak  # of one GPU for its dtype
    low: int  # GPUs that surely execute it
    high: int  # GPUs that execute it at most
    recomputed: bool | None  # None where nothing tells

    @property
    def ideal_ns(self) -> float:
        """Return the time that these take one GPU at the peak."""
        return 1e9 * self.flops / self.peak.flop_per_s


class _Work(NamedTuple):
    """The products of a step that have FLOPs."""

    products: Sequence[_Product]
    gpus: int  # that ran
    more: bool  # whether there may be more products, or more executions of these

    def ideal_ns(self, recomputed: bool) -> tuple[float, float]:
        """Return the least and most time that they take one GPU at its peak, with what is recomputed or without."""
        low = [p.low * p.ideal_ns for p in self.products if recomputed or p.recomputed is False]
        high = [p.high * p.ideal_ns for p in self.products if recomputed or p.recomputed is not True]
        return sum(low), sum(high)

    def peak_tflop_per_s(self) -> float:
        """Return the peak of one GPU; where dtypes have several, the FLOPs over the sum of their times at each."""
        rates = {p.peak.flop_per_s for p in self.products}
        if len(rates) == 1:
            return rates.pop() / 1e12
        return sum(p.flops * p.high for p in self.products) / sum(p.ideal_ns * p.high for p in self.products) / 1e3


def mfu_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield MFU and the peak that it is held against; HFU too where products are, or may be, recomputed."""
    flops, step = flops_per_step(inputs), inputs.step
    work = _lacking(inputs, flops) or _work(inputs)
    if isinstance(work, Reason) or step is None:
        yield missing(MFU, work if isinstance(work, Reason) else NO_STEP)
        return
    peak, dtypes = work.peak_tflop_per_s(), sorted({p.peak.dtype for p in work.products})
    counted = "1 GPU" if work.gpus == 1 else f"{work.gpus} GPUs"
    bound = flops["value"] is None and flops["reason"]
    spread = SPREAD_UNKNOWN if any(p.low not in (0, p.high) for p in work.products) else None
    remarks: list[object] = [f"against {peak:.4g} TFLOP/s in {listed(dtypes)} of {counted}", SLOWED * step.profiled]
    changing = changing_flops(inputs) is not None
    remarks += [BOTH if step.kinds is not None else OF_SHAPES * changing, bound, spread]
    length = step.ns if step.kinds is None else step.kinds.mean_ns
    if changing and step.kinds is None and step.mean_ns is not None:
        length = step.mean_ns
    basis, available = str(flops["basis"]), length * work.gpus
    unclear = any(p.recomputed is None for p in work.products)
    yield _share(MFU, work, False, available, basis, [*remarks, MAY_REPEAT if unclear else None])
    if any(p.recomputed is not False for p in work.products):
        yield _share(HFU, work, True, available, basis, [REPEATED, *remarks])
    mean = f"dense, of {inputs.context.name}{MIXED * (len(dtypes) > 1)}"
    yield figure("mfu_peak_tflop_per_s", peak, basis, mean, text=listed(dtypes))


def _lacking(inputs: SummaryInputs, flops: Row) -> Reason | None:
    """Return why there is no MFU, whatever the products are; None where there may be one."""
    context, step = inputs.context, inputs.step
    if not context.measured:
        return inputs.without_kernels
    if not context.nvidia:
        return NOT_NVIDIA
    if flops["value"] is None and flops["low"] is None:
        return NO_STEP if flops["reason_kind"] == "no_step" else Reason(str(flops["reason"]), "no_flops")
    if step is None or not step.ns > 0:
        return NO_STEP
    if inputs.profile.tuning is not None and step.profiled:
        return Reason(TUNED, "tuned")
    return GPU_UNKNOWN if context.gpu is None else None


def _work(inputs: SummaryInputs) -> _Work | Reason:
    """Return the products of a step; why there is no figure of them where a peak is unknown."""
    gemms, context = inputs.gemms, replace(inputs.context, tf32_allowed=_tf32_used(inputs))
    columns = (gemms.table.values(name) for name in ("dtype", "executes", "at_least"))
    rows = [
        row
        for row in zip(gemms.step_flops, gemms.gpus, gemms.recomputed, *columns, strict=True)
        if row[4] != "no" and row[0] != 0
    ]
    gpus, products = _gpus(inputs), []
    for flops, ran_on, recomputed, dtype, executes, _ in rows:
        if flops is None:
            continue
        peak = peak_of(dtype, context)
        if peak is None:
            what = f"for {dtype}" if dtype else "for products of unknown dtype"
            return Reason(f"no dense peak of {_name(context)} {what} is known", "no_peak")
        least, most = (1, gpus) if ran_on is None else (ran_on, ran_on)
        low = least if executes == "yes" else 0
        products.append(_Product(flops, peak, low, most, recomputed))
    if not products:
        return Reason("no product of a step has FLOPs", "no_flops")
    lost = not gemms.graph_rows and not_of_steps(inputs.profile) == LOST
    return _Work(products, gpus, gemms.unseen > 0 or lost or any(row[0] is None or row[5] for row in rows))


def _tf32_used(inputs: SummaryInputs) -> bool | None:
    """Return whether float32 is multiplied in TF32: as the run asked, else as the names of its kernels tell."""
    if inputs.context.tf32_allowed is not None or not len(inputs.kernels):
        return inputs.context.tf32_allowed
    mine = inputs.kernels.names("kind").among(*PRODUCTS)
    used = {*inputs.kernels.names("precision").take(mine).tolist()}
    return True if "tf32" in used else False if "fp32" in used else None


def _gpus(inputs: SummaryInputs) -> int:
    """Return how many GPUs ran kernels; all that are listed where none is said to be active."""
    devices = inputs.profile.require("devices")
    return int(devices.names("state").among("active").sum()) or max(len(devices), 1)


def _share(
    metric: str, work: _Work, recomputed: bool, available_ns: float, basis: str, remarks: Sequence[object]
) -> Row:
    """Return what the products' time at the peak is of the time of all GPUs: a figure, a range or a bound."""
    low, high = (100.0 * ns / available_ns for ns in work.ideal_ns(recomputed))
    why = "; ".join(str(one) for one in remarks if one)
    if low == high and not work.more:
        return figure(metric, high, basis, why)
    if work.more and not low:
        return missing(metric, NO_BOUND)
    return figure(metric, None, basis, why, (low or None, None if work.more else high))


def _name(context: Context) -> str:
    return context.name or "this GPU"
