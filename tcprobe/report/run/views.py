"""The views of a report: which columns of which table are shown, under which headings, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from tcprobe.probe.constants import WINDOW_STEPS
from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead
from tcprobe.report.run.base import (
    Field,
    View,
    count_of,
    field_of,
    name_of,
    number_of,
    sentence_of,
    share_of,
    time_of,
    word_of,
)
from tcprobe.report.run.causes.words import cause_label, cause_of_op
from tcprobe.report.run.window import OF_AN_EXECUTION, phase_steps
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.op import Part
from tcprobe.schema.tables import RANGE_BUCKETS
from tcprobe.schema.waits import HOST_WORK, HostWork


def _source(rank: int) -> Field:
    return Field(
        ColumnHead("source", rank=rank, least=20, path=True), lambda row: Cell(f.any_text(_line(row)), _line(row))
    )


def _line(row: Row) -> Value:
    """Return where the layer was constructed; of what belongs to no layer, where it was called."""
    return row.get("called_from") if row["source"] is None and row["layer"] is None else row["source"]


def _tc_share(row: Row) -> Cell:
    """Return the share of Tensor Core kernels; a range if some kernels are unclassified."""
    return _share_range(row["tc_kernel_time_pct"], row["unknown_ns"], row["sum_ns"])


def _share_range(low: Value, unknown: Value, total: Value) -> Cell:
    if low is None or not unknown or not total:
        return Cell(f.percent(low), low, "pct")
    high = min(100.0, float(low) + 100 * float(unknown) / float(total))
    return Cell(f.percents(low, high), low, "pct")


def _capable_share(row: Row) -> Cell:
    """Return the same share within capable ops."""
    return _share_range(row["tc_capable_time_pct"], row["capable_unknown_ns"], row["capable_ns"])


def _repeated(row: Row) -> Cell:
    """Return how often a product runs in a step."""
    calls = row["calls_per_step"]
    return Cell("unknown" if calls is None else f.at_least(_times(calls), row["at_least"] is True), calls)


def _times(calls: Value) -> str:
    whole = calls is not None and float(calls).is_integer()
    return f.count(calls) if whole else f.any_text(calls)


def _rate(value: Value) -> str:
    return f.NA if value is None else f.full_number(float(value), 3)


def _flops(row: Row) -> Cell:
    """Return the FLOPs of a step, or of a layer in it."""
    return Cell(f.at_least(f.flops(row["flops"]), row["at_least"] is True), row["flops"], "flops")


def _work(value: Value) -> str:
    """Return what the host did, in words."""
    return HOST_WORK.get(cast(HostWork, value), f.NA)


def _steps(row: Row) -> Cell:
    return Cell(f.NA if row["steps"] == 1 else f.count(row["steps"]), row["steps"])


def _of_phases(column: str, show: Callable[[Row], str]) -> Callable[[Row], Cell]:
    return lambda row: Cell(show(row), row[column])


def _range_name(row: Row) -> Cell:
    """Return domain and name of a range, or why there is none."""
    if row["name"] is None:
        return Cell(f"({row['bucket']})", row["bucket"])
    domain = "" if row["domain"] is None else f"{row['domain']}:"
    return Cell(f"{domain}{row['name']}", row["name"])


def _parts(row: Row) -> str:
    """Return the parts of a step, each with how often it calls them."""
    each = [(p.name or f"part {p.key}", p.calls_per_step) for p in Part.all_of(row["parts"])]
    return ", ".join(n + (f" x {f.full_number(c)}" if c not in (None, 1) else "") for n, c in each) or f.NA


def _phase_time(row: Row) -> str:
    """Return the median length of a step, with the range of most of them."""
    spread = sorted({f.duration(row["step_low_ns"]), f.duration(row["step_high_ns"])} - {f.NA})
    span = f" ({f.duration(row['step_low_ns'])} to {f.duration(row['step_high_ns'])})" if len(spread) > 1 else ""
    return f"{f.duration(row['step_ns'])}{span}"


def _phase_profiled(row: Row) -> str:
    """Return whether a phase was profiled, and how to profile it; a window longer than the phase needs an end too."""
    start, last = row["iter_start"], row["last_step"]
    if start is None or last is None:
        return f.any_text(row["profiled"])
    stop = f" --iter-stop {last}" if int(last) - int(start) + 1 < WINDOW_STEPS else ""
    return f"no, its kernels are unknown: --iter-start {start}{stop}"


_FLOPS_OF_A_STEP = Field(ColumnHead("FLOP/step", right=True, rank=2), _flops, OF_AN_EXECUTION)
_TC_SHARE = Field(ColumnHead("TC share", right=True), _tc_share)

_CAUSE_OF_OP = Field(ColumnHead("why", wraps=True), lambda row: Cell(cause_of_op(row), row["cause"]))
_RATES = (
    field_of(ColumnHead("TFLOP/s", right=True, rank=3), "achieved_tflop_per_s", _rate),
    share_of("of peak", "peak_pct", 2),
    word_of("limit", "limit", 6),
)

KERNEL_VIEW = View(
    "kernel",
    "kernels",
    "Kernels",
    (
        name_of("kernel", "kernel", least=40),
        word_of("uses TC", "uses_tc"),
        time_of("time", "sum_ns"),
        share_of("share", "share_pct"),
        count_of("calls", "calls", 1),
        time_of("mean", "mean_ns", 3),
        time_of("min", "min_ns", 6),
        time_of("max", "max_ns", 6),
        Field(ColumnHead("why", rank=4, least=24), lambda row: Cell(cause_label(row["cause"]), row["cause"])),
        word_of("precision", "precision", 4),
        name_of("op", "op", 2),
        word_of("op capable", "op_capable", 5),
        word_of("basis", "basis", 7),
        name_of("evidence", "evidence", 8),
        count_of("registers", "registers", 9),
        number_of("static shared", "static_shared_bytes", "bytes", 10),
        number_of("dynamic shared", "dynamic_shared_bytes", "bytes", 10),
        word_of("block", "block", 9),
        word_of("grid", "grid", 9),
        share_of("occupancy", "occupancy_pct", 9),
        count_of("GPU", "device", 3),
    ),
)
OP_VIEW = View(
    "op",
    "ops",
    "Ops",
    (
        name_of("op", "op", least=30),
        word_of("type", "op_type", 2),
        word_of("can use TC", "tc_capable", 3),
        _CAUSE_OF_OP,
        sentence_of("kept off by", "tc_blocker", 8),
        time_of("kernel time", "sum_ns"),
        share_of("share", "share_pct"),
        time_of("GPU time", "union_ns", 6),
        *_RATES,
        time_of("on TC", "tc_ns", 4),
        time_of("unknown", "unknown_ns", 5),
        time_of("around", "around_ns", 6),
        time_of("host time", "host_ns", 4),
        count_of("calls", "calls", 4),
        count_of("kernels", "launches", 6),
        word_of("pass", "pass", 5),
        name_of("layer", "layer", 6),
        word_of("dtype", "dtype", 4),
        field_of(ColumnHead("shapes", rank=7, least=30), "shapes", f.shapes),
        number_of("FLOP/call", "flops", "flops", 5),
        _source(3),
    ),
    order=("sum_ns", "union_ns", "host_ns"),
)
RANGE_VIEW = View(
    "range",
    "range_kernels",
    "Kernel time by NVTX range",
    (
        Field(ColumnHead("range", least=24), _range_name),
        time_of("kernel time", "sum_ns"),
        share_of("share", "share_pct"),
        count_of("kernels", "launches", 4),
        time_of("on TC", "tc_ns", 2),
        time_of("unknown", "unknown_ns", 5),
        time_of("GPU time", "union_ns", 6),
        count_of("calls", "calls", 3),
        time_of("with inner ranges", "inclusive_sum_ns", 1),
        time_of("GPU time with inner", "inclusive_union_ns", 6),
        count_of("kernels with inner", "inclusive_launches", 7),
        word_of("marks", "kind", 5),
    ),
    order=("sum_ns", "inclusive_sum_ns"),
    kept=("bucket", RANGE_BUCKETS[1:]),
)
LAYER_VIEW = View(
    "layer",
    "layers",
    "Layers",
    (
        name_of("layer", "layer"),
        word_of("class", "layer_class", 3),
        time_of("kernel time", "sum_ns"),
        share_of("share", "share_pct", 1),
        Field(ColumnHead("capable on TC", right=True), _capable_share),
        Field(ColumnHead("why", rank=2, least=24), lambda row: Cell(cause_label(row["cause"]), row["cause"])),
        *_RATES,
        time_of("forward", "forward_ns", 4),
        time_of("input grad", "dgrad_ns", 4),
        time_of("weight grad", "wgrad_ns", 4),
        time_of("on TC", "tc_ns", 3),
        time_of("unknown", "unknown_ns", 5),
        time_of("host time", "host_ns", 4),
        count_of("kernels", "launches", 6),
        count_of("GEMMs", "gemms", 5),
        _FLOPS_OF_A_STEP,
        _source(1),
    ),
    order=("sum_ns", "flops", "host_ns"),
)
ITERATION_VIEW = View(
    "iteration",
    "iterations",
    "Iterations",
    (
        count_of("iteration", "iteration"),
        word_of("counted", "in_window"),
        Field(ColumnHead("steps", right=True, rank=6), _steps),
        time_of("duration", "duration_ns"),
        time_of("kernel time", "sum_ns", 1),
        time_of("on TC", "tc_ns", 3),
        time_of("unknown", "unknown_ns", 4),
        time_of("kernels ran", "union_ns", 4),
        time_of("copies", "memory_ns", 5),
        count_of("kernels", "launches", 6),
        _TC_SHARE,
        word_of("# TC, = not TC, ? unknown", "bar", 2),
    ),
    order=(),
)
DEVICE_VIEW = View(
    "device",
    "devices",
    "GPUs",
    (
        count_of("GPU", "device"),
        name_of("name", "name"),
        word_of("name is", "name_basis", 4),
        word_of("state", "state"),
        word_of("Tensor Cores", "tensor_cores", 1),
        word_of("compute", "compute_capability", 5),
        count_of("SMs", "sm_count", 6),
        number_of("memory", "memory_bytes", "bytes", 6),
        share_of("busy", "gpu_busy_pct"),
        time_of("kernel time", "sum_ns"),
        _TC_SHARE,
        time_of("on TC", "tc_ns", 3),
        time_of("unknown", "unknown_ns", 4),
        time_of("copies", "memory_ns", 4),
        count_of("kernels", "launches", 2),
        number_of("peak memory", "peak_memory_bytes", "bytes", 3),
    ),
)
GAP_VIEW = View(
    "gap",
    "gaps",
    "Longest gaps",
    (
        time_of("start", "start_ns"),
        time_of("length", "duration_ns"),
        share_of("of the window", "share_pct"),
        field_of(ColumnHead("the host did"), "host_work", _work),
        name_of("evidence", "host_op", 2),
        time_of("of it", "host_ns", 3),
        name_of("after", "after", 4),
        name_of("before", "before", 1),
        count_of("step", "iteration", 5),
        count_of("GPU", "device", 6),
    ),
    order=("duration_ns",),
)
HOST_OP_VIEW = View(
    "host op",
    "host_ops",
    "Ops by host time",
    (
        name_of("op", "op"),
        word_of("type", "op_type"),
        time_of("host time", "sum_ns"),
        share_of("share", "share_pct"),
        count_of("calls", "calls", 1),
        time_of("mean", "mean_ns", 2),
        time_of("min", "min_ns", 4),
        time_of("max", "max_ns", 4),
    ),
)
GEMM_VIEW = View(
    "gemm",
    "gemms",
    "Matrix multiplications of a step",
    (
        name_of("layer", "layer"),
        word_of("pass", "pass"),
        word_of("type", "op_type", 4),
        count_of("M", "m"),
        count_of("N", "n"),
        count_of("K", "k"),
        count_of("batch", "batch", 3),
        word_of("dtype", "dtype", 1),
        number_of("FLOP/call", "flops", "flops", 1),
        Field(ColumnHead("calls/step", right=True, rank=1), _repeated, "calls/execution", usual="1"),
        sentence_of("kept off by", "tc_blocker", 1),
        time_of("kernel time", "kernel_ns", 2),
        *_RATES,
        _source(2),
        name_of("op", "op", 5),
    ),
    order=("flops",),
    without_step="Matrix multiplications",
)
PHASE_VIEW = View(
    "phase",
    "phases",
    "Phases of the run",
    (
        Field(ColumnHead("phase", right=True), _of_phases("phase", lambda row: str(int(row["phase"] or 0) + 1))),
        Field(ColumnHead("steps", right=True), _of_phases("steps", phase_steps)),
        Field(ColumnHead("a step calls", wraps=True), _of_phases("parts", _parts)),
        Field(ColumnHead("step time", right=True), lambda row: Cell(_phase_time(row), row["step_ns"], "ns")),
        Field(ColumnHead("FLOP/step", right=True), _flops),
        count_of("products", "products", 2),
        Field(ColumnHead("profiled", wraps=True), _of_phases("profiled", _phase_profiled)),
    ),
    order=(),
)
CAUSE_VIEW = View(
    "cause",
    "causes",
    "Causes of time",
    (
        count_of("GPU", "device"),
        word_of("part", "group"),
        word_of("cause", "cause"),
        share_of("share", "share_pct"),
        replace(time_of("a step", "step_ns"), of_capture="time"),
        time_of("of the window", "split_ns", 2),
        time_of("kernel time", "sum_ns", 1),
        count_of("kernels", "launches", 3),
        count_of("ops", "ops", 3),
        name_of("costliest op", "op", 2),
        name_of("layer", "layer", 1),
        word_of("pass", "pass", 4),
        name_of("its kernel", "kernel", 4),
        _source(2),
    ),
    order=(),
)
ADVICE_VIEW = View(
    "advice",
    "advice",
    "What to do",
    (
        count_of("rank", "rank"),
        word_of("code", "code"),
        word_of("name", "name", 2),
        replace(share_of("of the step", "step_pct"), of_capture="of the time captured"),
        time_of("at most", "at_most_ns", 1),
        time_of("likely", "saving_ns", 1),
        time_of("kernel time", "kernel_ns", 3),
        share_of("concerns", "share_pct", 2),
        word_of("of", "share_of", 2),
        sentence_of("what and why", "text"),
        _source(4),
    ),
    order=(),
)
_BY = (
    *(KERNEL_VIEW, OP_VIEW, RANGE_VIEW, LAYER_VIEW, ITERATION_VIEW, DEVICE_VIEW, PHASE_VIEW, GAP_VIEW, CAUSE_VIEW),
    ADVICE_VIEW,
)
BY = {view.by: view for view in _BY}
