"""Summarise step time, throughput, FLOPs, and the share of the GPU's peak that they reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.summary.figures import Reason, SummaryInputs, figure, without_kernels
from tcprobe.analysis.summary.reported import Reported
from tcprobe.schema.columns import FloatArray, Row, Value
from tcprobe.schema.profile import Profile

UNDER_PROFILER: Final = "steps under the profiler, which slows them"
RATE_KINDS: Final = {
    "measured": "steps outside the profiled window",
    "after": "steps after the profiled window, none before it was left to measure",
    "profiled": UNDER_PROFILER,
}
MIXED_PEAK: Final = "several dtypes, or a GPU or dtype without a known peak"
NO_STEP: Final = Reason("no step is marked", "no_step")
LOST: Final = "the profiler lost events: FLOPs of whole steps would stand over the time of what is left"
UNPLACED: Final = "no kernel belongs to a marked step, and the whole capture includes warm-up"
STRAY: Final = "kernels outside the marked step are counted with its own"
ONCE: Final = "each op counts once a step"
THROUGHPUT: Final = "throughput"


def rate_rows(inputs: SummaryInputs, reported: Reported) -> Iterator[Row]:
    """Yield the figures per step and per second."""
    yield _iterations(inputs, reported)
    yield _step_time(inputs, reported)
    if len(inputs.profile.require("metrics")):
        yield _throughput(inputs)
    yield _flops_per_step(inputs)
    yield from _achieved(inputs)


def _iterations(inputs: SummaryInputs, reported: Reported) -> Row:
    table = inputs.profile.require("iterations")
    if len(table):
        return figure("iterations_in_window", _marked_steps(inputs.profile) or 0.0, "measured")
    told = reported.get("iterations / aggregated iterations")
    if told:
        return figure("iterations_in_window", told, "reported")
    return figure("iterations_in_window", None, None, "the source marks no steps")


def _step_time(inputs: SummaryInputs, reported: Reported) -> Row:
    """Return the median of steps that no profiler slowed, else of those there are; the reason says which, how many."""
    steps = inputs.profile.require("steps")
    kinds, lengths = steps.names("kind"), steps.numbers("duration_ns")
    table = inputs.profile.require("iterations")
    each = table.numbers("duration_ns") / table.numbers("steps")
    marked = each[table.numbers("in_window")] if len(table) else np.zeros(0)
    for found, which in (
        *((lengths[kinds.among(kind)], which) for kind, which in RATE_KINDS.items()),
        (marked, UNDER_PROFILER),
    ):
        if count := len(known := found[~np.isnan(found)]):
            why = f"median of {count} {which}" if count > 1 else f"1 of the {which}"
            return figure("step_time_ns", float(np.median(known)), "measured", why, _spread(known))
    told = reported.get("iterations / average iteration time (ns)")
    if told:
        return figure("step_time_ns", told, "reported", f"mean of {UNDER_PROFILER}")
    return figure("step_time_ns", None, None, "no two steps were marked")


def _spread(values: FloatArray) -> tuple[float, float]:
    """Return percentiles 10 and 90, interpolated: a step that stalled moves them less than it moves the extremes."""
    low, high = np.percentile(values, [10, 90])
    return float(low), float(high)


def _throughput(inputs: SummaryInputs) -> Row:
    """Return the median of what the script logged during measured steps."""
    metrics, steps = inputs.profile.require("metrics"), inputs.profile.require("steps")
    named = np.array([str(n).lower() == THROUGHPUT for n in metrics.values("name")], dtype=np.bool_)
    if not named.any():
        return figure(THROUGHPUT, None, None, "the script logged none under that name")
    values, units = metrics.numbers("value")[named], metrics.names("unit").take(named).tolist()
    quiet = steps.numbers("step")[steps.names("kind").among("measured", "after")]
    inside = np.isin(metrics.numbers("step")[named], quiet) & np.isfinite(values)
    why = None if inside.any() else "of all steps, warm-up and profiled ones included"
    chosen = values[inside] if inside.any() else values[np.isfinite(values)]
    unit = units[0] if len(set(units)) == 1 else None
    if not len(chosen):
        return figure(THROUGHPUT, None, None, "the script logged no finite number")
    return figure(THROUGHPUT, float(np.median(chosen)), "reported", why, _spread(chosen), unit)


def _flops_per_step(inputs: SummaryInputs) -> Row:
    runs = inputs.gemms.table.values("executes")
    steps = [f for f, e in zip(inputs.gemms.step_flops, runs, strict=True) if e != "no"]
    if not steps:
        return figure("flops_per_step", None, None, "no matrix multiplication with shapes was recorded")
    if not inputs.gemms.traced and _marked_steps(inputs.profile) is None:
        return figure("flops_per_step", None, None, NO_STEP)
    known = [f for f in steps if f is not None]
    sure = sum(f or 0 for f, e in zip(inputs.gemms.step_flops, runs, strict=True) if e == "yes")
    unseen, basis = inputs.gemms.unseen, "graph" if inputs.gemms.graph_rows else "shape"
    if len(known) < len(steps) or unseen:
        lacking, whole = len(steps) - len(known) + unseen, len(steps) + unseen
        if not sum(known):
            return figure("flops_per_step", None, None, f"all {whole} matrix multiplications have {_unknown(inputs)}")
        why = f"{lacking} of {whole} matrix multiplications have {_unknown(inputs)}: a lower bound"
        return figure("flops_per_step", None, basis, why, (float(sure), None))
    if sure < sum(known):
        unsure = sum(e == "unknown" for e in runs)
        why = f"whether {unsure} of {len(steps)} matrix multiplications execute is not known{_why_not(inputs)}: a range"
        return figure("flops_per_step", None, basis, why, (float(sure), float(sum(known))))
    return figure("flops_per_step", float(sum(known)), basis)


def _unknown(inputs: SummaryInputs) -> str:
    """Return what is unknown of the multiplications whose FLOPs in a step are: shapes, or how often they run."""
    rows = zip(inputs.gemms.table.values("flops"), inputs.gemms.step_flops, strict=True)
    looped = any(once is not None and step is None for once, step in rows)
    return "unknown shapes, or run in loops of unknown length" if looped else "unknown shapes"


def _why_not(inputs: SummaryInputs) -> str:
    return " (XLA compiled the step)" if inputs.profile.metadata.xla else ""


def _achieved(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield FLOP/s of the ops whose kernels were timed, and the share of the peak that they reach."""
    rate, peak = "achieved_tflop_per_s", "peak_pct"
    if not inputs.context.measured:
        yield figure(rate, None, None, without_kernels(inputs.context))
        yield figure(peak, None, None, without_kernels(inputs.context))
        return
    timed = _timed(inputs)
    steps = counted_steps(inputs.profile)
    why = not_of_steps(inputs.profile)
    if why or not timed or steps is None:
        lacking = why or (NO_STEP if steps is None else "no op has both shapes and kernel time")
        yield figure(rate, None, None, lacking)
        yield figure(peak, None, None, lacking)
        return
    spent = sum(time for _, _, time in timed)
    yield figure(rate, steps * sum(f for f, _, _ in timed) / spent / 1e3, "shape", ONCE)
    ideal = [_ideal_ns(flops, dtype, inputs) for flops, dtype, _ in timed]
    if None in ideal:
        yield figure(peak, None, None, MIXED_PEAK)
    else:
        share = 100.0 * steps * sum(i for i in ideal if i is not None) / spent
        why = f"{ONCE}; against {inputs.context.name}'s dense peak for the dtype of each op"
        yield figure(peak, share, "shape", why)


def not_of_steps(profile: Profile) -> str | None:
    """Return why the recorded time is not that of the counted steps; None where it is."""
    codes = {note.code for note in profile.metadata.notes}
    if not codes.isdisjoint(("events-lost", "event-cap")):
        return LOST
    if "steps-without-kernels" in codes:
        return UNPLACED
    return STRAY if profile.metadata.window.first is None and _marked_steps(profile) else None


def _timed(inputs: SummaryInputs) -> list[tuple[float, Value, float]]:
    """Return (FLOPs of a step on all GPUs, dtype, kernel ns of the window) of each op that has both."""
    gemms = inputs.gemms
    found: dict[int, list[tuple[int | None, Value, Value]]] = {}
    columns = (
        gemms.step_flops,
        gemms.gpus,
        gemms.records,
        gemms.table.values("dtype"),
        gemms.table.values("kernel_ns"),
    )
    for flops, gpus, record, dtype, time in zip(*columns, strict=True):
        if time:
            found.setdefault(record, []).append((None if flops is None else flops * gpus, dtype, time))
    return [
        (float(sum(f for f, _, _ in parts if f is not None)), parts[0][1], float(parts[0][2] or 0))
        for parts in found.values()
        if all(f is not None for f, _, _ in parts)
    ]


def counted_steps(profile: Profile) -> float | None:
    """Return how many steps the counted kernels are of; None where that is not known."""
    return None if profile.metadata.window.first is None else _marked_steps(profile)


def _marked_steps(profile: Profile) -> float | None:
    """Return how many steps the window holds; None where the source marks none."""
    table = profile.require("iterations")
    counted = float(table.numbers("steps")[table.numbers("in_window")].sum()) if len(table) else 0.0
    return counted or None


def _ideal_ns(flops: float, dtype: Value, inputs: SummaryInputs) -> float | None:
    """Return the time at the GPU's peak; float32 is TF32 where the run allows it and the GPU has it."""
    gpu = inputs.context.gpu
    if gpu is None or dtype is None:
        return None
    names = ["tf32", "float32"] if dtype == "float32" and inputs.context.tf32_allowed is not False else [str(dtype)]
    peak = next((p for name in names if (p := gpu.peak_flop_per_s(name))), None)
    return None if not peak else 1e9 * flops / peak
