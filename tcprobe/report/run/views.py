"""The views of a report: which columns of which table are shown, under which headings, in which order."""

from __future__ import annotations

import shlex
from typing import Final

from tcprobe import formatting as f
from tcprobe.probe.constants import WINDOW_STEPS
from tcprobe.report.document import Cell, ColumnHead
from tcprobe.report.fields import Field, cell_of, field_of, name_of, number_of, sentence_of, source_of
from tcprobe.report.run.causes import cause_label, cause_of_op
from tcprobe.report.run.ranks import RANK_VIEW
from tcprobe.report.run.time_views import (
    CHAIN_VIEW,
    COPY_VIEW,
    GAP_VIEW,
    GRADIENT_VIEW,
    MESSAGE_VIEW,
    RANGE_TIME_VIEW,
    WAIT_VIEW,
    View,
    rate_text,
)
from tcprobe.report.run.words import kind_label, phase_steps
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import NO_STEPS
from tcprobe.schema.op import Part
from tcprobe.schema.tables import RANGE_BUCKETS

_FLOPS_GAPS: Final = {
    "not_recorded": "it began when nothing was recorded any more",
    "no_product": "no product was recorded in it",
    "several_sizes": "it runs in several sizes, and how often in each was not seen",
    "unknown_product": "no product is of known size and number",
}


def _source_of(rank: int) -> Field:
    return source_of(rank, _line)


def _line(row: Row) -> Value:
    """Return where the layer was constructed; of what belongs to no layer, where it was called."""
    return row.get("called_from") if row["source"] is None and row["layer"] is None else row["source"]


def _tc_share(row: Row) -> Cell:
    """Return the share of Tensor Core kernels; a range if some kernels are unclassified."""
    return _share_range(row["tc_kernel_time_pct"], row["unknown_ns"], row["sum_ns"])


def _capable_share(row: Row) -> Cell:
    """Return the same share within capable ops."""
    return _share_range(row["tc_capable_time_pct"], row["capable_unknown_ns"], row["capable_ns"])


def _share_range(low: Value, unknown: Value, total: Value) -> Cell:
    high = (
        min(100.0, float(low) + 100 * float(unknown) / float(total)) if low is not None and unknown and total else low
    )
    return Cell(f.percents(low, high), low, "pct")


def _repeated(row: Row) -> Cell:
    """Return how often a product runs in a step."""
    calls = row["calls_per_step"]
    if calls is None:
        return Cell("unknown", None)
    text = f.count(calls) if float(calls).is_integer() else f.full_number(float(calls), 3)
    return Cell(f.at_least(text, row["at_least"] is True), calls)


def _flops(row: Row) -> Cell:
    """Return the FLOPs of a step, or of a layer in it."""
    return Cell(f.at_least(f.flops(row["flops"]), row["at_least"] is True), row["flops"], "flops")


def _steps(row: Row) -> Cell:
    return Cell(f.NA if row["steps"] == 1 else f.count(row["steps"]), row["steps"])


def _range_name(row: Row) -> Cell:
    """Return domain and name of a range, or why there is none."""
    if row["name"] is None:
        return Cell(f"({row['bucket']})", row["bucket"])
    domain = "" if row["domain"] is None else f"{row['domain']}:"
    return Cell(f"{domain}{row['name']}", row["name"])


def _parts(parts: Value) -> str:
    """Return the parts of a step, each with how often it calls them."""
    each = [(p.name or f"part {p.key}", p.calls_per_step) for p in Part.all_of(parts)]
    return ", ".join(n + (f" x {f.full_number(c)}" if c not in (None, 1) else "") for n, c in each) or f.NA


def _phase_time(row: Row) -> str:
    """Return the median length of a step, with the range of most of them."""
    low, high = f.duration(row["step_low_ns"]), f.duration(row["step_high_ns"])
    span = f" ({low} to {high})" if low != high and f.NA not in (low, high) else ""
    return f"{f.duration(row['step_ns'])}{span}"


def _phase_profiled(row: Row) -> Cell:
    """Return whether a phase was profiled, and how to profile it; a window longer than the phase needs an end too."""
    start, last, profiled = row["iter_start"], row["last_step"], row["profiled"]
    if start is None or last is None:
        return Cell(f.any_text(profiled), profiled)
    stop = f" --iter-stop {last}" if int(last) - int(start) + 1 < WINDOW_STEPS else ""
    return Cell(f"no, its kernels are unknown: --iter-start {start}{stop}", profiled)


_TC_SHARE = cell_of("TC share", _tc_share, right=True)

_RATES = (
    field_of("TFLOP/s", "achieved_tflop_per_s", 3, rate_text, right=True),
    number_of("of peak", "peak_pct", 2),
    field_of("limit", "limit", 6),
)

KERNEL_VIEW = View(
    "kernels",
    "Kernels",
    (
        name_of("kernel", "kernel", least=40),
        field_of("uses TC", "uses_tc"),
        field_of("kind", "kind", 4, kind_label),
        number_of("time", "sum_ns"),
        number_of("share", "share_pct"),
        number_of("calls", "calls", 1),
        number_of("mean", "mean_ns", 3),
        number_of("min", "min_ns", 6),
        number_of("max", "max_ns", 6),
        field_of("why", "cause", 4, cause_label, least=24),
        field_of("precision", "precision", 4),
        name_of("op", "op", 2),
        field_of("op capable", "op_capable", 5),
        field_of("basis", "basis", 7),
        sentence_of("evidence", "evidence", 8),
        number_of("registers", "registers", 9),
        number_of("static shared", "static_shared_bytes", 10),
        number_of("dynamic shared", "dynamic_shared_bytes", 10),
        field_of("block", "block", 9),
        field_of("grid", "grid", 9),
        number_of("occupancy", "occupancy_pct", 9),
        field_of("tile", "tile", 9),
        number_of("alignment", "alignment", 9),
        number_of("memory, of its peak, at least", "memory_pct", 5),
        field_of("waves", "waves", 8, rate_text, right=True),
        number_of("last wave empty, at most", "tail_ns", 8),
        number_of("GPU", "device", 3),
    ),
)
OP_VIEW = View(
    "ops",
    "Ops",
    (
        name_of("op", "op", least=30),
        field_of("type", "op_type", 2),
        field_of("can use TC", "tc_capable", 3),
        cell_of("why", lambda row: Cell(cause_of_op(row), row["cause"]), wraps=True),
        sentence_of("kept off by", "tc_blocker", 8),
        number_of("kernel time", "sum_ns"),
        number_of("share", "share_pct"),
        number_of("GPU time", "union_ns", 6),
        *_RATES,
        number_of("on TC", "tc_ns", 4),
        number_of("unknown", "unknown_ns", 5),
        number_of("around", "around_ns", 6),
        number_of("host time", "host_ns", 4),
        number_of("calls", "calls", 4),
        number_of("kernels", "launches", 6),
        field_of("pass", "pass", 5),
        name_of("layer", "layer", 6),
        field_of("dtype", "dtype", 4),
        field_of("shapes", "shapes", 7, f.shapes, least=30),
        number_of("FLOP/call", "flops", 5),
        _source_of(3),
    ),
    order=("sum_ns", "union_ns", "host_ns"),
)
RANGE_VIEW = View(
    "range_kernels",
    "Kernel time by NVTX range",
    (
        cell_of("range", _range_name, least=24),
        number_of("kernel time", "sum_ns"),
        number_of("share", "share_pct"),
        number_of("kernels", "launches", 4),
        number_of("on TC", "tc_ns", 2),
        number_of("unknown", "unknown_ns", 5),
        number_of("GPU time", "union_ns", 6),
        number_of("calls", "calls", 3),
        number_of("with inner ranges", "inclusive_sum_ns", 1),
        number_of("GPU time with inner", "inclusive_union_ns", 6),
        number_of("kernels with inner", "inclusive_launches", 7),
        field_of("marks", "kind", 5),
    ),
    order=("sum_ns", "inclusive_sum_ns"),
    kept=("bucket", RANGE_BUCKETS[1:]),
)
LAYER_VIEW = View(
    "layers",
    "Layers",
    (
        name_of("layer", "layer"),
        field_of("class", "layer_class", 3),
        number_of("kernel time", "sum_ns"),
        number_of("share", "share_pct", 1),
        cell_of("capable on TC", _capable_share, right=True),
        field_of("why", "cause", 2, cause_label, least=24),
        *_RATES,
        number_of("forward", "forward_ns", 4),
        number_of("input grad", "dgrad_ns", 4),
        number_of("weight grad", "wgrad_ns", 4),
        number_of("on TC", "tc_ns", 3),
        number_of("unknown", "unknown_ns", 5),
        number_of("host time", "host_ns", 4),
        number_of("kernels", "launches", 6),
        number_of("GEMMs", "gemms", 5),
        cell_of("FLOP/step", _flops, 2, right=True),
        _source_of(1),
    ),
    order=("sum_ns", "flops", "host_ns"),
)
ITERATION_VIEW = View(
    "iterations",
    "Iterations",
    (
        number_of("iteration", "iteration"),
        field_of("counted", "in_window"),
        cell_of("steps", _steps, 6, right=True),
        number_of("duration", "duration_ns"),
        number_of("kernel time", "sum_ns", 1),
        number_of("on TC", "tc_ns", 3),
        number_of("could use TC", "off_ns", 5),
        number_of("unknown", "unknown_ns", 4),
        number_of("kernels ran", "union_ns", 4),
        number_of("copies", "memory_ns", 5),
        number_of("copies alone", "copy_ns", 6),
        number_of("kernels", "launches", 6),
        _TC_SHARE,
        field_of("# TC, = not TC, ? unknown", "bar", 2),
    ),
    order=(),
)
STEP_RANGE_VIEW = View(
    "step_ranges",
    "How sure: ranges that may be steps",
    (
        cell_of("to count them as steps", lambda row: f"--step-range {shlex.quote(str(row['pattern']))}", least=24),
        number_of("ranges", "calls"),
        number_of("each", "median_ns"),
        number_of("kernels in each", "kernels", 2),
        number_of("of the kernels", "share_pct", 1),
        cell_of("why not", lambda row: NO_STEPS[row["why_not"]] if row["why_not"] else "they count", wraps=True),
        name_of("domain", "domain", 4),
        number_of("thread", "thread", 5),
    ),
    order=(),
)
STRETCH_VIEW = View(
    "stretches",
    "Phases by how busy the GPU is",
    (
        number_of("GPU", "device"),
        number_of("start", "start_ns"),
        number_of("end", "end_ns"),
        number_of("kernels", "launches", 1),
        number_of("busy", "busy_pct"),
    ),
    order=(),
)
UNIT_VIEW = View(
    "units",
    "What repeats",
    (
        number_of("GPU", "device"),
        number_of("process", "process", 5),
        number_of("kernels in a unit", "kernels"),
        number_of("repeats", "repeats"),
        number_of("a unit takes", "unit_ns"),
        number_of("kernel time of it", "kernel_ns", 1),
        number_of("of the launches", "share_pct", 2),
        field_of("is a step", "is_step"),
        field_of("by", "basis", 3),
        number_of("start", "start_ns", 4),
        number_of("end", "end_ns", 4),
    ),
    order=(),
)
DEVICE_VIEW = View(
    "devices",
    "GPUs",
    (
        number_of("GPU", "device"),
        name_of("name", "name"),
        field_of("name is", "name_basis", 4),
        field_of("state", "state"),
        field_of("Tensor Cores", "tensor_cores", 1),
        field_of("compute", "compute_capability", 5),
        number_of("SMs", "sm_count", 6),
        number_of("memory", "memory_bytes", 6),
        number_of("busy", "gpu_busy_pct"),
        number_of("kernel time", "sum_ns"),
        _TC_SHARE,
        number_of("on TC", "tc_ns", 3),
        number_of("unknown", "unknown_ns", 4),
        number_of("copies", "memory_ns", 4),
        number_of("kernels", "launches", 2),
        number_of("peak memory", "peak_memory_bytes", 3),
        number_of("SM clock, MHz", "sm_clock_mhz", 2),
        number_of("memory clock, MHz", "memory_clock_mhz", 5),
        number_of("W", "power_w", 4),
        number_of("degrees C", "temperature_c", 4),
        field_of("held down by", "held_down_by", 3),
        number_of("others on it", "other_processes", 5),
    ),
)
HOST_OP_VIEW = View(
    "host_ops",
    "Ops by host time",
    (
        name_of("op", "op"),
        field_of("type", "op_type"),
        number_of("host time", "sum_ns"),
        number_of("share", "share_pct"),
        number_of("calls", "calls", 1),
        number_of("mean", "mean_ns", 2),
        number_of("min", "min_ns", 4),
        number_of("max", "max_ns", 4),
    ),
)
GEMM_VIEW = View(
    "gemms",
    "Matrix multiplications of a step",
    (
        name_of("layer", "layer"),
        field_of("pass", "pass"),
        field_of("type", "op_type", 4),
        number_of("M", "m"),
        number_of("N", "n"),
        number_of("K", "k"),
        number_of("batch", "batch", 3),
        field_of("dtype", "dtype", 1),
        number_of("FLOP/call", "flops", 1),
        Field(ColumnHead("calls/step", right=True, rank=1), _repeated, usual="1"),
        sentence_of("kept off by", "tc_blocker", 1),
        number_of("kernel time", "kernel_ns", 2),
        *_RATES,
        _source_of(2),
        name_of("op", "op", 5),
    ),
    order=("flops",),
)
PHASE_VIEW = View(
    "phases",
    "Phases of the run",
    (
        field_of("phase", "phase", show=lambda phase: str(int(phase or 0) + 1), right=True),
        cell_of("steps", lambda row: Cell(phase_steps(row), row["steps"]), right=True),
        field_of("a step calls", "parts", show=_parts, wraps=True),
        cell_of("step time", lambda row: Cell(_phase_time(row), row["step_ns"], "ns"), right=True),
        cell_of("FLOP/step", _flops, right=True),
        field_of("FLOP unknown for", "flops_gap", 1, show=lambda gap: _FLOPS_GAPS.get(str(gap), f.NA), wraps=True),
        number_of("products", "products", 2),
        cell_of("profiled", _phase_profiled, wraps=True),
    ),
    order=(),
)
CAUSE_VIEW = View(
    "causes",
    "Causes of time",
    (
        number_of("GPU", "device"),
        field_of("part", "group"),
        field_of("cause", "cause"),
        number_of("share", "share_pct"),
        number_of("a step", "step_ns"),
        number_of("of the window", "split_ns", 2),
        number_of("kernel time", "sum_ns", 1),
        number_of("kernels", "launches", 3),
        number_of("ops", "ops", 3),
        name_of("costliest op", "op", 2),
        name_of("layer", "layer", 1),
        field_of("pass", "pass", 4),
        name_of("its kernel", "kernel", 4),
        _source_of(2),
    ),
    order=(),
)
KIND_VIEW = View(
    "kinds",
    "Kinds of kernels",
    (CAUSE_VIEW.fields[0], field_of("kind", "kind", show=kind_label), *CAUSE_VIEW.fields[1:]),
    order=(),
)
ADVICE_VIEW = View(
    "advice",
    "What to do",
    (
        number_of("rank", "rank"),
        field_of("code", "code"),
        field_of("name", "name", 2),
        number_of("of the step", "step_pct"),
        number_of("at most", "at_most_ns", 1),
        number_of("likely", "saving_ns", 1),
        number_of("kernel time", "kernel_ns", 3),
        number_of("concerns", "share_pct", 2),
        field_of("of", "share_of", 2),
        sentence_of("what and why", "text"),
        _source_of(4),
    ),
    order=(),
)
BY: Final = {
    "rank": RANK_VIEW,
    "kernel": KERNEL_VIEW,
    "op": OP_VIEW,
    "range": RANGE_VIEW,
    "range-time": RANGE_TIME_VIEW,
    "layer": LAYER_VIEW,
    "iteration": ITERATION_VIEW,
    "unit": UNIT_VIEW,
    "device": DEVICE_VIEW,
    "phase": PHASE_VIEW,
    "wait": WAIT_VIEW,
    "gap": GAP_VIEW,
    "copy": COPY_VIEW,
    "cause": CAUSE_VIEW,
    "kind": KIND_VIEW,
    "advice": ADVICE_VIEW,
    "step-range": STEP_RANGE_VIEW,
    "stretch": STRETCH_VIEW,
    "chain": CHAIN_VIEW,
    "message": MESSAGE_VIEW,
    "gradient": GRADIENT_VIEW,
}
"""The views by their names after ``--by``."""
_FIRST: Final = (OP_VIEW, KERNEL_VIEW, LAYER_VIEW, KIND_VIEW, GEMM_VIEW, CAUSE_VIEW, WAIT_VIEW, GAP_VIEW, COPY_VIEW)
EVERY: Final = tuple({view.table: view for view in (*_FIRST, *BY.values(), HOST_OP_VIEW)}.values())
"""All views, those first that say most."""
