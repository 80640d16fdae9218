"""Summarise how much of the kernel time runs on Tensor Cores, how much could, and what else the kernels are.

Fill the table of phases: how long a step of each takes, and what it multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.context import Context
from tcprobe.analysis.kernels.launches import LaunchGroups
from tcprobe.analysis.kernels.names import COMMUNICATES
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.analysis.ops.gemms import Gemms, build_gemms
from tcprobe.analysis.phases import graph_of, is_recorded, of_no_shapes, slow_steps, steps_by_phase
from tcprobe.analysis.summary.figures import (
    NO_KERNELS,
    Reason,
    SummaryInputs,
    figure,
    missing,
    time_by_name,
)
from tcprobe.analysis.summary.mfu import mfu_rows
from tcprobe.analysis.summary.rates import SPANNED, rate_rows
from tcprobe.analysis.summary.steps import StepTime, of_active, phase_step_time
from tcprobe.grouping import distinct_numbers, known_total, union_by
from tcprobe.probe.constants import SKIPPED_STEPS
from tcprobe.schema.columns import Names, Row, Table
from tcprobe.schema.kinds import FlopsGap
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import PHASES, SUMMARY

NO_OP_KERNELS: Final = Reason("the source has no kernel times per op", "no_kernels")
NO_OPS: Final = "the source names no ops"
WITHIN_OPS: Final = "as the profiler says: from the first to the last use of the GPU in each call of an op"
UPPER: Final = (
    "an upper bound of the Tensor Core share: one such kernel marks the whole op, and times of ops include copies"
)
BY_PROFILER: Final = "as the profiler says; by time of ops, copies included"
NOT_TOLD: Final = "whether some eligible ops use Tensor Cores is not said: a range"


def build_summary(inputs: SummaryInputs) -> Table:
    """Return the summary; a metric that was not measured is there as NA, with the reason."""
    rows = [
        *_tensor_core_rows(inputs),
        *_op_time_rows(inputs),
        *_time_rows(inputs),
        *_communication_rows(inputs),
        *_precision_rows(inputs),
        *rate_rows(inputs),
        *mfu_rows(inputs),
        *_size_rows(inputs),
    ]
    return Table.from_rows(SUMMARY, rows)


def _tensor_core_rows(inputs: SummaryInputs) -> Iterator[Row]:
    totals, why = inputs.totals, inputs.not_applicable
    if why or totals is None or totals.kernel_ns <= 0:
        lacking = why or _without_kernels(inputs)
        yield missing("tc_kernel_time_pct", lacking)
        yield missing("coverage_pct", lacking)
        yield missing("tc_capable_time_pct", why) if why else _efficiency(inputs)
        yield missing("capable_time_pct", lacking)
        return
    low, high = (100.0 * part / totals.kernel_ns for part in (totals.tc_ns, totals.tc_ns + totals.unknown_ns))
    yield _bounded("tc_kernel_time_pct", low, high, totals.basis)
    yield figure("coverage_pct", 100.0 - (high - low), totals.basis)
    yield _efficiency(inputs)
    if (times := capable_times(inputs)) is None:
        yield missing("capable_time_pct", NO_OPS if inputs.ops is None else NO_OP_KERNELS)
    else:
        share = 100.0 * min(times[0], totals.kernel_ns) / totals.kernel_ns
        yield figure("capable_time_pct", share, totals.basis)


def _without_kernels(inputs: SummaryInputs) -> Reason:
    """Return why there is no share of kernel time, with what bounds it where ops have times."""
    for row in _op_time_rows(inputs):
        if row["value"] is not None:
            bound = f"ops that use Tensor Cores took {row['value']:.1f} % of the ops' GPU time, an upper bound"
            return Reason(f"{NO_KERNELS.text}; {bound}", NO_KERNELS.kind)
    return NO_KERNELS


def _efficiency(inputs: SummaryInputs) -> Row:
    """Return the share of Tensor Core time in the kernel time of capable ops; as reported where no op has any."""
    name, reported = "tc_capable_time_pct", inputs.reported
    if (times := capable_times(inputs)) is None:
        if inputs.ops is not None:
            return missing(name, NO_OP_KERNELS)
        if reported.has_ops and reported.efficiency_pct is not None:
            return figure(name, reported.efficiency_pct, "reported", "as the profiler reports it: it names no ops")
        return missing(name, NO_OPS)
    spent, on_tc, unclear = times
    if spent == 0:
        return missing(name, "no op that could use Tensor Cores ran a kernel")
    basis = inputs.totals.basis if inputs.totals else "reported"
    return _bounded(name, 100.0 * on_tc / spent, 100.0 * (on_tc + unclear) / spent, basis)


def _bounded(name: str, low: float, high: float, basis: str) -> Row:
    """Return the lower bound with its range; where no kernel's class is known, the range alone."""
    if high - low >= 100.0:
        return figure(name, None, basis, "the class of no kernel is known", (low, high))
    why = "the class of some kernels is unknown: a range" if high > low else None
    return figure(name, low, basis, why, (low, high))


def capable_times(inputs: SummaryInputs) -> tuple[float, float, float] | None:
    """Return kernel time, Tensor Core time and time of unknown class of the capable ops, in ns; None where unknown."""
    if inputs.ops is None:
        return None
    table = inputs.ops.table
    mine = table.names("tc_capable").among("yes")
    spent, on_tc, unclear = (float(table.numbers(name)[mine].sum()) for name in ("sum_ns", "tc_ns", "unknown_ns"))
    known = np.isfinite(table.numbers("sum_ns")).any() and not np.isnan([spent, on_tc, unclear]).any()
    return (spent, on_tc, unclear) if known else None


def _op_time_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the shares of the ops' GPU time with and without Tensor Cores, by the profiler's own verdicts.

    Of a source that times ops but no kernels (DLProf's detail report alone): nothing where any op has kernel times,
    which say it exactly, and where Tensor Cores do not apply.
    """
    table = inputs.ops.table if inputs.ops else None
    if table is None or inputs.not_applicable or np.nansum(table.numbers("sum_ns")) > 0:
        return
    spent = np.nan_to_num(table.numbers("union_ns"))
    total = float(spent.sum())
    if total <= 0:
        return
    capable = table.names("tc_capable").among("yes")
    unclear = capable & np.isnan(table.numbers("tc_ns"))
    using = unclear & table.names("tc_blocker_kind").among("none")
    on, range_pct, off = (
        100.0 * float(spent[rows].sum()) / total for rows in (using, unclear & ~using, capable & ~unclear)
    )
    for name, share, remark in (
        ("ops_using_tc_time_pct", on, UPPER),
        ("ops_eligible_not_using_time_pct", off, BY_PROFILER),
    ):
        if range_pct > 0:
            yield figure(name, None, "reported", f"{remark}; {NOT_TOLD}", (share, share + range_pct))
        else:
            yield figure(name, share, "reported", remark)
    times = inputs.reported.op_times
    if times is not None and sum(times) > 0:
        yield figure("ops_idle_ns", times[1], "reported", WITHIN_OPS)
        yield figure("ops_idle_pct", 100.0 * times[1] / sum(times), "reported", WITHIN_OPS)


def _time_rows(inputs: SummaryInputs) -> Iterator[Row]:
    totals, blocked = inputs.totals, inputs.not_applicable
    yield _busy(inputs)
    why = blocked if not inputs.context.measured else NO_KERNELS
    if totals is None:
        yield missing("kernel_time_ns", why)
    else:
        yield figure("kernel_time_ns", totals.kernel_ns, "reported" if totals.basis == "reported" else "measured")
    if totals is None or blocked:
        yield missing("tc_time_ns", blocked or why)
    else:
        yield figure("tc_time_ns", totals.tc_ns, totals.basis, None, (totals.tc_ns, totals.tc_ns + totals.unknown_ns))
    yield _memory(inputs)
    if totals is None or totals.launches is None:
        yield missing("kernels", "the source does not count launches" if totals else why)
    else:
        yield figure("kernels", totals.launches, "measured")


def _busy(inputs: SummaryInputs) -> Row:
    """Return how long kernels ran, the mean over the GPUs that ran some; of a whole capture, what it is a share of."""
    shares, profile = of_active(inputs.profile, "gpu_busy_pct"), inputs.profile
    if count := len(shares):
        why = [] if count == 1 else [f"mean of {count} active devices"]
        if profile.metadata.window.basis == "whole capture":
            known = profile.waiting is not None and profile.waiting.length in ("marked step", "reported")
            why.append("of the one step" if known else SPANNED)
        elif (profile.counted_steps or 0) > 1:
            why.append("of all counted steps together")
        return figure("gpu_busy_pct", float(shares.mean()), "measured", "; ".join(why) or None)
    return _reported(inputs, "gpu_busy_pct", inputs.reported.gpu_busy_pct, "no start times of kernels")


def _memory(inputs: SummaryInputs) -> Row:
    spent = known_total(inputs.profile.require("devices").numbers("memory_ns"))
    if spent is None:
        return _reported(inputs, "memory_time_ns", inputs.reported.memory_ns, "the source has no copies and sets")
    steps = inputs.profile.require("iterations")
    of_steps = float(np.nansum(steps.numbers("memory_ns")[steps.numbers("in_window")])) if len(steps) else spent
    return figure("memory_time_ns", spent, "measured", None if of_steps == spent else "those of no step included")


def _reported(inputs: SummaryInputs, metric: str, value: float | None, why: str) -> Row:
    """Return a time of the GPU as the profiler reports it; where it does not, why it is missing."""
    if value is not None:
        return figure(metric, value, "reported")
    return missing(metric, why if inputs.context.measured else inputs.without_time)


def _communication_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the figures of kernels that move data between GPUs; none where no kernel of the window does."""
    kernels, totals = inputs.kernels, inputs.totals
    if totals is None or not len(kernels) or totals.kernel_ns <= 0:
        return
    spent = float(kernels.numbers("sum_ns")[_communicating(kernels.names("kernel"))].sum())
    if not spent > 0:
        return
    yield figure("communication_kernel_time_pct", 100.0 * spent / totals.kernel_ns, "name")
    yield figure("communication_kernel_time_ns", spent, "name")
    if inputs.launched is None:
        yield missing("communication_exposed_ns", "the source does not say when kernels ran")
    else:
        yield figure("communication_exposed_ns", _exposed_ns(inputs.launched.groups), "name")


def _communicating(names: Names) -> NDArray[np.bool_]:
    return names.among(*(name for name in names.names if by_name(name).rule in COMMUNICATES))


def _exposed_ns(groups: LaunchGroups) -> float:
    """Return how long counted communication ran while no other kernel did on its GPU, summed over GPUs."""
    moves = _communicating(Names(groups.kernel.astype(np.int32), groups.names))
    exposed = 0
    for device in distinct_numbers(groups.device[moves & groups.counted]).tolist():
        here = (groups.device == device) & (~moves | groups.counted)
        times = []
        for chosen in (here, here & ~moves):
            rows = np.flatnonzero(chosen[groups.of_launch])
            start, length = (groups.launches.numbers(name)[rows] for name in ("start_ns", "duration_ns"))
            times.append(int(union_by(np.zeros(len(rows), np.int32), start, length, 1)[0]))
        exposed += times[0] - times[1]
    return float(exposed)


def _precision_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the share of kernel time of each precision that occurs, the largest first."""
    kernels, totals = inputs.kernels, inputs.totals
    if totals is None or not len(kernels) or totals.kernel_ns <= 0:
        return
    times = time_by_name(kernels.names("precision"), kernels.numbers("sum_ns"))
    spent = {name or "unknown": time for name, time in times.items()}
    for name in sorted(spent, key=lambda n: (-spent[n], n)):
        share = 100.0 * spent[name] / totals.kernel_ns
        yield figure(f"precision_{name}_time_pct", share, "name" if name != "unknown" else "measured")


def precision_shares(kernels: Table, capable: frozenset[str]) -> dict[str, float]:
    """Return precision -> share in percent of the kernel time of capable op types; empty where none is known."""
    could = kernels.names("uses_tc").among("yes") | kernels.names("op_type").among(*capable)
    mine = could & ~np.isnan(kernels.numbers("sum_ns"))
    spent = time_by_name(kernels.names("precision").take(mine), kernels.numbers("sum_ns")[mine])
    spent.pop(None, None)
    total = sum(spent.values())
    return {str(name): 100.0 * time / total for name, time in spent.items()} if total else {}


def _size_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield how many sizes are bad, and how many layers multiply: a range where some may not, or have no shapes."""
    bad, name, gemms = inputs.profile.table("bad_sizes"), "gemm_layers", inputs.gemms.table
    why = None if bad is not None else "no shapes of the graph were recorded"
    basis = "graph" if len(inputs.profile.require("graph_ops")) else "shape"
    yield figure("bad_size_count", None if bad is None else float(len(bad)), basis, why)
    pairs = set(zip(gemms.values("layer"), gemms.values("executes"), strict=True))
    sure, maybe = (
        {layer for layer, runs in pairs if runs in kinds} - {None} for kinds in (("yes",), ("yes", "unknown"))
    )
    low, high = float(len(sure)), float(len(maybe))
    if not pairs or (not maybe and basis != "graph"):
        yield missing(name, why or ("the source names no layers" if pairs else "no matrix multiplication is known"))
    elif unseen := inputs.gemms.unseen:
        yield figure(name, None, basis, f"and those of {unseen} more products with unknown shapes", (low, None))
    elif low < high:
        yield figure(name, None, basis, "whether some of them execute is not known: a range", (low, high))
    else:
        yield figure(name, low, basis)


class _Work(NamedTuple):
    """What a step of a phase multiplies: FLOPs that surely execute, whether there may be more, and in how many ops."""

    flops: int | None = None
    at_least: bool = False
    products: int | None = None
    varies: bool = False  # the functions were traced for several sizes


def phase_table(inputs: SummaryInputs, graph: Table | None) -> Table:
    """Return `phases` whole; the phase of the window has the very figures of the summary.

    Args:
        inputs: with the products and the step time of the window's phase.
        graph: the ops of all parts of training; None where the probe recorded none.
    """
    profile = inputs.profile
    phases, slow, of_phase = profile.require("phases"), slow_steps(profile), steps_by_phase(profile)
    rows = []
    for index, row in enumerate(phases.rows()):
        if row["in_window"]:
            step, work = inputs.step, _work(inputs.gemms, profile)
        else:
            step = phase_step_time(profile, of_phase[index], slow)
            work = _Work() if graph is None else _elsewhere(profile, graph, index, inputs.context)
        lacking = work.flops is not None and not is_recorded(phases, index)
        work = work._replace(at_least=work.at_least or lacking)
        told = {"flops_gap": _gap(work, is_recorded(phases, index)), "iter_start": _iter_start(row)}
        made = {"flops": work.flops, "at_least": work.at_least, "products": work.products}
        rows.append({**row, **_timed(step), **made, **told})
    return Table.from_rows(PHASES, rows)


def _elsewhere(profile: Profile, graph: Table, index: int, context: Context) -> _Work:
    """Return what a step of a phase multiplies that was not profiled: what its functions hold."""
    mine = graph_of(of_no_shapes(graph), profile.require("phases"), index)
    if not len(mine):
        return _Work()
    there = profile.with_tables(mine)
    gemms = build_gemms(there, None, context)
    work = _work(gemms, there)
    return work._replace(flops=None, varies=True) if _varies(mine, gemms.graph_rows) else work


def _varies(graph: Table, kept: Sequence[int]) -> bool:
    """Return whether traces that were left out, as repeating those that are `kept`, have products of other sizes."""
    columns = [graph.values(name) for name in ("op", "part", "input_shapes")]
    shapes = {(columns[0][row], columns[1][row]): columns[2][row] for row in kept}
    left = set(range(len(graph))).difference(kept)
    each = ((columns[2][row], shapes.get((columns[0][row], columns[1][row]))) for row in left)
    return any(one != other and other is not None and "null" not in f"{one}{other}" for one, other in each)


def _work(gemms: Gemms, profile: Profile) -> _Work:
    each = list(zip(gemms.step_flops, gemms.table.values("executes"), gemms.ops, strict=True))
    if not each:
        return _Work()
    may = [(flops, executes, op) for flops, executes, op in each if executes != "no"]
    surely = [flops for flops, executes, _ in may if executes == "yes" and flops is not None]
    bounds = profile.require("graph_ops").numbers("at_least") == 1
    looped = bool(bounds[[row for row in gemms.graph_rows if row in gemms.records]].any())
    at_least = bool(surely) and (len(surely) < len(may) or looped)
    return _Work(sum(surely) if surely else None, at_least, len({op for _, _, op in may}))


def _gap(work: _Work, recorded: bool) -> FlopsGap | None:
    """Return why the FLOPs of a step of a phase are not known; None where they are."""
    if work.flops is not None:
        return None
    if work.varies:
        return "several_sizes"
    if work.products:
        return "unknown_product"
    return "no_product" if recorded else "not_recorded"


def _timed(step: StepTime | None) -> Row:
    if step is None:
        return {}
    low, high = map(round, step.spread) if step.spread else (None, None)
    times = {"step_ns": round(step.ns), "step_low_ns": low, "step_high_ns": high}
    return {**times, "timed_steps": step.count, "timed": step.kind}


def _iter_start(row: Row) -> int | None:
    """Return from which step on to profile a phase: past its first ones, which trace."""
    if row["profiled"] is not False:
        return None
    first, last = int(row["first_step"] or 0), int(row["last_step"] or 0)
    return min(first + SKIPPED_STEPS, last)
