"""Summarise how much of the kernel time runs on Tensor Cores, and how much could."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tcprobe.analysis.grouping import known_total
from tcprobe.analysis.summary.communication import communication_rows
from tcprobe.analysis.summary.figures import (
    NO_KERNELS,
    NO_OP_KERNELS,
    NO_OPS,
    Reason,
    SummaryInputs,
    Totals,
    figure,
    not_applicable,
    time_by_name,
    without_time,
)
from tcprobe.analysis.summary.ops_only import op_time_rows
from tcprobe.analysis.summary.rates import SPANNED, rate_rows
from tcprobe.analysis.summary.reported import Reported
from tcprobe.analysis.summary.waiting import of_active
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.tables import SUMMARY


def build_summary(inputs: SummaryInputs) -> Table:
    """Return the summary; a metric that was not measured is there as NA, with the reason."""
    reported = Reported(inputs.profile)
    totals = Totals.of(inputs.kernels, reported.kernel_times)
    rows = [
        *_tensor_core_rows(inputs, totals, reported),
        *op_time_rows(inputs),
        *_time_rows(inputs, totals, reported),
        *communication_rows(inputs, totals),
        *_precision_rows(inputs, totals),
        *rate_rows(inputs, reported),
        *_size_rows(inputs),
    ]
    return Table.from_rows(SUMMARY, rows)


def _tensor_core_rows(inputs: SummaryInputs, totals: Totals | None, reported: Reported) -> Iterator[Row]:
    blocked = not_applicable(inputs.context)
    if blocked or totals is None or totals.kernel_ns <= 0:
        why = blocked or _without_kernels(inputs)
        yield figure("tc_kernel_time_pct", None, None, why)
        yield figure("coverage_pct", None, None, why)
        yield _efficiency(inputs, reported) if not blocked else figure("tc_capable_time_pct", None, None, why)
        yield figure("capable_time_pct", None, None, why)
        return
    low, high = (100.0 * part / totals.kernel_ns for part in (totals.tc_ns, totals.tc_ns + totals.unknown_ns))
    yield _bounded("tc_kernel_time_pct", low, high, totals.basis)
    yield figure("coverage_pct", 100.0 - (high - low), totals.basis)
    yield _efficiency(inputs, reported)
    yield _capable(inputs, totals)


def _without_kernels(inputs: SummaryInputs) -> Reason:
    """Return why there is no share of kernel time, with what bounds it where ops have times."""
    using = next((row for row in op_time_rows(inputs) if row["value"] is not None), None)
    if using is None:
        return NO_KERNELS
    share = float(using["value"] or 0)
    bound = f"ops that use Tensor Cores took {share:.1f} % of the ops' GPU time, an upper bound"
    return Reason(f"{NO_KERNELS.text}; {bound}", NO_KERNELS.kind)


def _efficiency(inputs: SummaryInputs, reported: Reported) -> Row:
    """Return the share of Tensor Core time in the kernel time of capable ops; as reported where no op has any."""
    name = "tc_capable_time_pct"
    spent, on_tc, unclear = capable_times(inputs)
    if spent is None or on_tc is None or unclear is None:
        if reported.has_ops and reported.efficiency_pct is not None and inputs.ops is None:
            return figure(name, reported.efficiency_pct, "reported", "as the profiler reports it: it names no ops")
        if inputs.ops is None:
            return figure(name, None, None, NO_OPS)
        return figure(name, None, None, NO_OP_KERNELS)
    if spent == 0:
        return figure(name, None, None, "no op that could use Tensor Cores ran a kernel")
    low, high = 100.0 * on_tc / spent, 100.0 * (on_tc + unclear) / spent
    return _bounded(name, low, high, _basis(inputs))


def _basis(inputs: SummaryInputs) -> str:
    totals = Totals.of(inputs.kernels, None)
    return totals.basis if totals else "reported"


def _bounded(name: str, low: float, high: float, basis: str) -> Row:
    """Return the lower bound with its range; where no kernel's class is known, the range alone."""
    if high - low >= 100.0:
        return figure(name, None, basis, "the class of no kernel is known", (low, high))
    return figure(
        name, low, basis, "the class of some kernels is unknown: a range" if high > low else None, (low, high)
    )


def capable_times(inputs: SummaryInputs) -> tuple[float | None, float | None, float | None]:
    """Return kernel time, Tensor Core time and time of unknown class of the capable ops, in ns; None where unknown."""
    if inputs.ops is None:
        return None, None, None
    table = inputs.ops.table
    mine = table.names("tc_capable").among("yes")
    figures = [table.numbers(c)[mine] for c in ("sum_ns", "tc_ns", "unknown_ns")]
    if not np.isfinite(table.numbers("sum_ns")).any() or any(np.isnan(f).any() for f in figures):
        return None, None, None
    spent, on_tc, unclear = (float(f.sum()) for f in figures)
    return spent, on_tc, unclear


def _capable(inputs: SummaryInputs, totals: Totals) -> Row:
    name = "capable_time_pct"
    spent, _, _ = capable_times(inputs)
    if spent is None:
        return figure(name, None, None, NO_OPS if inputs.ops is None else NO_OP_KERNELS)
    share = 100.0 * min(spent, totals.kernel_ns) / totals.kernel_ns
    return figure(name, share, totals.basis)


def _time_rows(inputs: SummaryInputs, totals: Totals | None, reported: Reported) -> Iterator[Row]:
    yield _busy(inputs, reported)
    blocked = not_applicable(inputs.context)
    why = None if totals else (blocked if not inputs.context.measured else NO_KERNELS)
    basis = ("reported" if totals.basis == "reported" else "measured") if totals else None
    yield figure("kernel_time_ns", totals.kernel_ns if totals else None, basis, why)
    if totals is None or blocked:
        yield figure("tc_time_ns", None, None, blocked or why)
    else:
        yield figure("tc_time_ns", totals.tc_ns, totals.basis, None, (totals.tc_ns, totals.tc_ns + totals.unknown_ns))
    yield _memory(inputs, reported)
    counted = totals.launches if totals else None
    missing = None if counted is not None else (why or "the source does not count launches")
    yield figure("kernels", counted, "measured", missing)


def _busy(inputs: SummaryInputs, reported: Reported) -> Row:
    shares = of_active(inputs.profile, "gpu_busy_pct")
    if count := len(shares):
        why = None if count == 1 else f"mean of {count} active devices"
        if inputs.profile.metadata.window.basis == "whole capture":
            why = "; ".join(filter(None, (why, _whole(inputs))))
        return figure("gpu_busy_pct", float(shares.mean()), "measured", why)
    if reported.gpu_busy_pct is not None:
        return figure("gpu_busy_pct", reported.gpu_busy_pct, "reported")
    return figure("gpu_busy_pct", None, None, _untimed(inputs, "no start times of kernels"))


def _whole(inputs: SummaryInputs) -> str:
    """Return what a share of the whole capture is a share of."""
    known = inputs.profile.waiting is not None and inputs.profile.waiting.length in ("marked step", "reported")
    return "of the one step" if known else SPANNED


def _memory(inputs: SummaryInputs, reported: Reported) -> Row:
    spent = known_total(inputs.profile.require("devices").numbers("memory_ns"))
    if spent is not None:
        steps = inputs.profile.require("iterations")
        of_steps = float(np.nansum(steps.numbers("memory_ns")[steps.numbers("in_window")])) if len(steps) else spent
        return figure("memory_time_ns", spent, "measured", None if of_steps == spent else "those of no step included")
    if reported.memory_ns is not None:
        return figure("memory_time_ns", reported.memory_ns, "reported")
    return figure("memory_time_ns", None, None, _untimed(inputs, "the source has no copies and sets"))


def _untimed(inputs: SummaryInputs, why: str) -> str | Reason:
    """Return why a time of a GPU is missing: `why` where one ran."""
    return why if inputs.context.measured else without_time(inputs.context)


def _precision_rows(inputs: SummaryInputs, totals: Totals | None) -> Iterator[Row]:
    """Yield the share of kernel time of each precision that occurs, the largest first."""
    kernels = inputs.kernels
    if totals is None or not len(kernels) or totals.kernel_ns <= 0:
        return
    told = time_by_name(kernels.names("precision"), kernels.numbers("sum_ns"))
    spent = {name or "unknown": time for name, time in told.items()}
    for name in sorted(spent, key=lambda n: (-spent[n], n)):
        share = 100.0 * spent[name] / totals.kernel_ns
        yield figure(f"precision_{name}_time_pct", share, "name" if name != "unknown" else "measured")


def precision_shares(kernels: Table, capable: frozenset[str]) -> dict[str, float]:
    """Return precision -> share in percent of the kernel time of capable op types; empty where none is known."""
    could = kernels.names("uses_tc").among("yes") | kernels.names("op_type").among(*capable)
    mine = could & ~np.isnan(kernels.numbers("sum_ns"))
    spent = time_by_name(kernels.names("precision").take(mine), kernels.numbers("sum_ns")[mine])
    spent.pop(None, None)
    whole = sum(spent.values())
    return {str(name): 100.0 * time / whole for name, time in spent.items()} if whole else {}


def _size_rows(inputs: SummaryInputs) -> Iterator[Row]:
    bad = inputs.profile.table("bad_sizes")
    why = None if bad is not None else "no shapes of the graph were recorded"
    basis = "graph" if len(inputs.profile.require("graph_ops")) else "shape"
    yield figure("bad_size_count", None if bad is None else float(len(bad)), basis, why)
    yield _gemm_layers(inputs, basis, why)


def _gemm_layers(inputs: SummaryInputs, basis: str, why: str | None) -> Row:
    """Return how many layers multiply matrices: a range where some may not execute, or have unknown shapes."""
    name, gemms = "gemm_layers", inputs.gemms.table
    pairs = list(zip(gemms.values("layer"), gemms.values("executes"), strict=True))
    sure, maybe = (
        {layer for layer, runs in pairs if runs in kinds} - {None} for kinds in (("yes",), ("yes", "unknown"))
    )
    if not pairs or (not maybe and basis != "graph"):
        lacking = "the source names no layers" if pairs else "no matrix multiplication is known"
        return figure(name, None, None, why or lacking)
    low, high = float(len(sure)), float(len(maybe))
    if unseen := inputs.gemms.unseen:
        return figure(name, None, basis, f"and those of {unseen} more products with unknown shapes", (low, None))
    if low < high:
        return figure(name, None, basis, "whether some of them execute is not known: a range", (low, high))
    return figure(name, low, basis)
