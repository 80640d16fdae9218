"""The views of a report: which columns of which table are shown, under which headings, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from tcprobe.probe.constants import WINDOW_STEPS
from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead
from tcprobe.report.run.base import Field, View
from tcprobe.report.run.window import OF_AN_EXECUTION, phase_steps
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.op import Part
from tcprobe.schema.tables import RANGE_BUCKETS
from tcprobe.schema.waits import HOST_WORK, HostWork


def _field(head: ColumnHead, column: str, show: Callable[[Value], str] = f.any_text, unit: str = "") -> Field:
    return Field(head, lambda row: Cell(show(row[column]), row[column], unit))


def _name(text: str, column: str, rank: int = 0, least: int = 24) -> Field:
    return _field(ColumnHead(text, rank=rank, least=least), column)


def _source(rank: int) -> Field:
    return Field(
        ColumnHead("source", rank=rank, least=20, path=True), lambda row: Cell(f.any_text(_line(row)), _line(row))
    )


def _line(row: Row) -> Value:
    """Return where the layer was constructed; of what belongs to no layer, where it was called."""
    return row.get("called_from") if row["source"] is None and row["layer"] is None else row["source"]


def _sentence(text: str, column: str, rank: int = 0) -> Field:
    return _field(ColumnHead(text, rank=rank, wraps=True), column)


def _word(text: str, column: str, rank: int = 0) -> Field:
    return _field(ColumnHead(text, rank=rank), column)


def _number(text: str, column: str, unit: str, rank: int = 0) -> Field:
    return _field(ColumnHead(text, right=True, rank=rank), column, f.FORMATTERS[unit], unit)


def _time(text: str, column: str, rank: int = 0) -> Field:
    return _number(text, column, "ns", rank)


def _share(text: str, column: str, rank: int = 0) -> Field:
    return _number(text, column, "pct", rank)


def _count(text: str, column: str, rank: int = 0) -> Field:
    return _field(ColumnHead(text, right=True, rank=rank), column, f.count)


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

KERNEL_VIEW = View(
    "kernel",
    "kernels",
    "Kernels",
    (
        _name("kernel", "kernel", least=40),
        _word("uses TC", "uses_tc"),
        _time("time", "sum_ns"),
        _share("share", "share_pct"),
        _count("calls", "calls", 1),
        _time("mean", "mean_ns", 3),
        _time("min", "min_ns", 6),
        _time("max", "max_ns", 6),
        _word("precision", "precision", 4),
        _name("op", "op", 2),
        _word("op capable", "op_capable", 5),
        _word("basis", "basis", 7),
        _name("evidence", "evidence", 8),
        _count("registers", "registers", 9),
        _number("static shared", "static_shared_bytes", "bytes", 10),
        _number("dynamic shared", "dynamic_shared_bytes", "bytes", 10),
        _word("block", "block", 9),
        _word("grid", "grid", 9),
        _share("occupancy", "occupancy_pct", 9),
        _count("GPU", "device", 3),
    ),
)
OP_VIEW = View(
    "op",
    "ops",
    "Ops",
    (
        _name("op", "op", least=30),
        _word("type", "op_type", 2),
        _word("can use TC", "tc_capable", 2),
        _sentence("kept off by", "tc_blocker"),
        _time("kernel time", "sum_ns"),
        _share("share", "share_pct"),
        _time("GPU time", "union_ns", 6),
        _time("on TC", "tc_ns", 3),
        _time("unknown", "unknown_ns", 5),
        _time("host time", "host_ns", 4),
        _count("calls", "calls", 4),
        _count("kernels", "launches", 6),
        _word("pass", "pass", 5),
        _name("layer", "layer", 6),
        _word("dtype", "dtype", 4),
        _field(ColumnHead("shapes", rank=7, least=30), "shapes", f.shapes),
        _number("FLOP/call", "flops", "flops", 5),
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
        _time("kernel time", "sum_ns"),
        _share("share", "share_pct"),
        _count("kernels", "launches", 4),
        _time("on TC", "tc_ns", 2),
        _time("unknown", "unknown_ns", 5),
        _time("GPU time", "union_ns", 6),
        _count("calls", "calls", 3),
        _time("with inner ranges", "inclusive_sum_ns", 1),
        _time("GPU time with inner", "inclusive_union_ns", 6),
        _count("kernels with inner", "inclusive_launches", 7),
        _word("marks", "kind", 5),
    ),
    order=("sum_ns", "inclusive_sum_ns"),
    kept=("bucket", RANGE_BUCKETS[1:]),
)
LAYER_VIEW = View(
    "layer",
    "layers",
    "Layers",
    (
        _name("layer", "layer"),
        _word("class", "layer_class", 3),
        _time("kernel time", "sum_ns"),
        _share("share", "share_pct", 1),
        Field(ColumnHead("capable on TC", right=True), _capable_share),
        _time("forward", "forward_ns", 4),
        _time("input grad", "dgrad_ns", 4),
        _time("weight grad", "wgrad_ns", 4),
        _time("on TC", "tc_ns", 3),
        _time("unknown", "unknown_ns", 5),
        _time("host time", "host_ns", 4),
        _count("kernels", "launches", 6),
        _count("GEMMs", "gemms", 5),
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
        _count("iteration", "iteration"),
        _word("counted", "in_window"),
        Field(ColumnHead("steps", right=True, rank=6), _steps),
        _time("duration", "duration_ns"),
        _time("kernel time", "sum_ns", 1),
        _time("on TC", "tc_ns", 3),
        _time("unknown", "unknown_ns", 4),
        _time("kernels ran", "union_ns", 4),
        _time("copies", "memory_ns", 5),
        _count("kernels", "launches", 6),
        _TC_SHARE,
        _word("# TC, = not TC, ? unknown", "bar", 2),
    ),
    order=(),
)
DEVICE_VIEW = View(
    "device",
    "devices",
    "GPUs",
    (
        _count("GPU", "device"),
        _name("name", "name"),
        _word("name is", "name_basis", 4),
        _word("state", "state"),
        _word("Tensor Cores", "tensor_cores", 1),
        _word("compute", "compute_capability", 5),
        _count("SMs", "sm_count", 6),
        _number("memory", "memory_bytes", "bytes", 6),
        _share("busy", "gpu_busy_pct"),
        _time("kernel time", "sum_ns"),
        _TC_SHARE,
        _time("on TC", "tc_ns", 3),
        _time("unknown", "unknown_ns", 4),
        _time("copies", "memory_ns", 4),
        _count("kernels", "launches", 2),
        _number("peak memory", "peak_memory_bytes", "bytes", 3),
    ),
)
GAP_VIEW = View(
    "gap",
    "gaps",
    "Longest gaps",
    (
        _time("start", "start_ns"),
        _time("length", "duration_ns"),
        _share("of the window", "share_pct"),
        _field(ColumnHead("the host did"), "host_work", _work),
        _name("evidence", "host_op", 2),
        _time("of it", "host_ns", 3),
        _name("after", "after", 4),
        _name("before", "before", 1),
        _count("step", "iteration", 5),
        _count("GPU", "device", 6),
    ),
    order=("duration_ns",),
)
HOST_OP_VIEW = View(
    "host op",
    "host_ops",
    "Ops by host time",
    (
        _name("op", "op"),
        _word("type", "op_type"),
        _time("host time", "sum_ns"),
        _share("share", "share_pct"),
        _count("calls", "calls", 1),
        _time("mean", "mean_ns", 2),
        _time("min", "min_ns", 4),
        _time("max", "max_ns", 4),
    ),
)
GEMM_VIEW = View(
    "gemm",
    "gemms",
    "Matrix multiplications of a step",
    (
        _name("layer", "layer"),
        _word("pass", "pass"),
        _word("type", "op_type", 4),
        _count("M", "m"),
        _count("N", "n"),
        _count("K", "k"),
        _count("batch", "batch", 3),
        _word("dtype", "dtype", 1),
        _number("FLOP/call", "flops", "flops", 1),
        Field(ColumnHead("calls/step", right=True, rank=1), _repeated, "calls/execution", usual="1"),
        _sentence("kept off by", "tc_blocker", 1),
        _time("kernel time", "kernel_ns", 2),
        _source(2),
        _name("op", "op", 5),
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
        _count("products", "products", 2),
        Field(ColumnHead("profiled", wraps=True), _of_phases("profiled", _phase_profiled)),
    ),
    order=(),
)
ADVICE_VIEW = View(
    "advice",
    "advice",
    "What to do",
    (
        _count("rank", "rank"),
        _word("code", "code"),
        _word("name", "name", 2),
        replace(_share("of the step", "step_pct"), without_step="of the time captured"),
        _time("at most", "at_most_ns", 1),
        _time("likely", "saving_ns", 1),
        _time("kernel time", "kernel_ns", 3),
        _share("concerns", "share_pct", 2),
        _word("of", "share_of", 2),
        _sentence("what and why", "text"),
        _source(4),
    ),
    order=(),
)
_BY = (KERNEL_VIEW, OP_VIEW, RANGE_VIEW, LAYER_VIEW, ITERATION_VIEW, DEVICE_VIEW, PHASE_VIEW, GAP_VIEW, ADVICE_VIEW)
BY = {view.by: view for view in _BY}
