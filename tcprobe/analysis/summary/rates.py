"""Summarise step time, throughput, FLOPs, and the share of the GPU's peak that they reach.

Summarise what a step spends on the update of the weights, where the optimizers are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tcprobe.analysis.context import Context
from tcprobe.analysis.ops.gemms import Gemms
from tcprobe.analysis.phases import calls_by_shapes, functions_of, in_phase, may_compile, slow_steps
from tcprobe.analysis.summary.figures import Reason, SummaryInputs, figure, missing
from tcprobe.analysis.summary.reported import ITERATIONS
from tcprobe.analysis.summary.steps import TwoKinds, spread_of, window_steps
from tcprobe.schema.columns import FloatArray, Row, Value
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of

LOOKS: Final = ("IsFinite", "All")
"""Types of the ops by which a dynamic loss scale looks at gradients."""
_BRANCH: Final = r"cond(?:_\d+)?/(?:then|else)/_\d+/"  # into which it puts the update


def update_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the time a step of the ops that update weights, the work of a dynamic loss scale among them.

    They are those in the scope that an optimizer gives its ops, by its name; of a dynamic scale also those that look
    at gradients, and the branch that holds the update. Kernel time of the counted steps; without a GPU the CPU's, of an
    update in all that was profiled, which the reason says.
    Nothing where the probe saw no optimizer, no such op ran or the number of steps is unknown.
    """
    policy, times = inputs.profile.metadata.policy, float(inputs.profile.counted_steps or 0)
    names = sorted({one.optimizer for one in policy.loss_scales if one.optimizer}) if policy is not None else []
    if policy is None or not names or inputs.ops is None:
        return
    ops = inputs.profile.require("ops")
    dynamic = any(one.kind == "dynamic" for one in policy.loss_scales)
    scope = re.compile("|".join((*(rf"(?:^|/){re.escape(n)}(?:_\d+)?/" for n in names), *([_BRANCH] * dynamic))))
    paths = ops.names("op")
    mine = paths.among(*filter(scope.search, paths.names)) & (ops.names("layer").ids < 0)
    mine |= ops.names("op_type").among(*LOOKS) & dynamic
    of = "with a dynamic loss scale's own" if dynamic else "without a dynamic loss scale"
    for column in ("sum_ns", "host_ns"):
        spent = ops.numbers(column)[mine]
        if not np.nansum(spent) > 0:
            continue
        why = f"{int((spent > 0).sum()):,} ops, {of}"
        if column == "host_ns":  # of all that was profiled, also of steps that do not count
            times, why = float(np.nanmax(ops.numbers("calls")[mine])), f"{why}: the CPU's time"
        if times:
            yield figure("update_ns", float(np.nansum(spent)) / times, "measured", why)
        return


MIXED_PEAK: Final = "several dtypes, or a GPU or dtype without a known peak"
WARM_UP: Final = "no step after warm-up has a known length"
NO_STEP: Final = Reason("no step is marked", "no_step")
LOST: Final = "the profiler lost events: FLOPs of whole steps would stand over the time of what is left"
UNPLACED: Final = "no kernel belongs to a marked step, and the whole capture includes warm-up"
TUNED: Final = "the kernels that autotuning tried are counted with the one that it chose"
STRAY: Final = "kernels outside the marked step are counted with its own"
ONCE: Final = "each op counts once a step"
COUNTED: Final = "each op counts as often as it runs in a step"
IN_LOOPS: Final = "may run more often than is counted, for the data decides"
THROUGHPUT: Final = "throughput"
BEYOND: Final = 1e300  # two figures as large cannot be added for a median; no script's throughput is
NO_CLOCK: Final = "the source does not say when things ran"
MEAN: Final = "mean of the counted steps, whose shapes change"
COMPILED: Final = "what XLA compiled of it counts as far as its optimised modules hold it"
SPANNED: Final = "from the first to the last GPU activity"
OF_STEP: Final = "the one marked step"
ENDS: Final = "far longer than the others and rare: taken for validation, a checkpoint"


def rate_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the figures per step and per second."""
    yield _iterations(inputs)
    yield from _step_time(inputs)
    yield _window(inputs)
    yield from _waiting(inputs)
    if len(inputs.profile.require("metrics")):
        yield _throughput(inputs)
    yield flops_per_step(inputs)
    yield from update_rows(inputs)
    yield from _achieved(inputs)


def _iterations(inputs: SummaryInputs) -> Row:
    name = "iterations_in_window"
    if len(inputs.profile.require("iterations")):
        return figure(name, float(inputs.profile.marked_steps or 0), "measured")
    reported = inputs.reported.get(ITERATIONS)
    return figure(name, reported, "reported") if reported else missing(name, "the source marks no steps")


def _step_time(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the length of a step, of which steps and how many, and what is known of those that hold an epoch's end."""
    step, profile = inputs.step, inputs.profile
    if step is None:
        why = NO_STEP.text if profile.metadata.window.first is None else "no two steps were marked"
        yield missing("step_time_ns", WARM_UP if len(profile.require("steps")) else why)
        return
    yield figure("step_time_ns", step.ns, step.basis, step.why, step.spread or (None, None))
    if (ends := step.ends) is not None:
        lengths, count = ends.lengths_ns, len(ends.lengths_ns)
        other = f"{', a compilation by XLA for other sizes' if may_compile(profile) else ''} or another pause"
        bounds = (float(lengths.min()), float(lengths.max()))
        yield figure("mean_step_time_ns", ends.mean_ns, "measured", f"mean of {ends.steps} steps, epoch ends included")
        yield figure("epoch_end_ns", float(np.median(lengths)), "measured", f"median length of {count}", bounds)
        yield figure("epoch_ends", float(count), "measured", f"among {ends.steps} steps; {ENDS}{other}")
    if (again := step.retraced_ns) is not None:
        bounds = (float(again.min()), float(again.max()))
        names = functions_of(profile, slow_steps(profile).retraced)
        yield figure("retrace_ns", float(np.median(again)), "measured", f"median length of {len(again)}", bounds)
        yield figure("retraces", float(len(again)), "measured", f"far longer than the others; traced again: {names}")
    if step.kinds is not None:
        yield from _kinds(step.kinds, ends is None)


def _kinds(kinds: TwoKinds, alone: bool) -> Iterator[Row]:
    """Yield the lengths of two kinds of steps, and the mean of both unless (not `alone`) that with epoch ends is it."""
    short, long = kinds.short_ns, kinds.long_ns
    for name, lengths in (("short_step_ns", short), ("long_step_ns", long)):
        share = f"median length of {len(lengths)} of {len(short) + len(long)} steps, which are of two kinds"
        if kinds.traced and name == "long_step_ns":
            share += f"; traced again: {kinds.traced}"
        yield figure(name, float(np.median(lengths)), "measured", share, spread_of(lengths))
    if alone:
        why = f"mean of {len(short) + len(long)} steps, both kinds included"
        yield figure("mean_step_time_ns", kinds.mean_ns, "measured", why)


def _window(inputs: SummaryInputs) -> Row:
    """Return the length of the window; of a whole capture, what it spans."""
    window, waiting = inputs.profile.metadata.window, inputs.profile.waiting
    span, length = window.length_ns, waiting.length if waiting else None
    captured = window.basis == "whole capture"
    if waiting is not None and length == "reported" and captured and waiting.step_ns > (span or 0.0):
        return figure("window_ns", waiting.step_ns * (window_steps(inputs.profile) or 1.0), "reported")
    if span is not None:
        why = (OF_STEP if length == "marked step" else SPANNED) if captured else None
        return figure("window_ns", float(span), "measured", why)
    if waiting is not None and length == "capture":
        return figure("window_ns", waiting.step_ns, "reported")
    return missing("window_ns", NO_CLOCK)


def _waiting(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield how long the GPU waits in a step; the reason says what stands for a step."""
    waiting, step = inputs.profile.waiting, inputs.step
    if waiting is None:
        why = NO_CLOCK if inputs.context.measured else inputs.without_time
        yield from (missing(name, why) for name in ("idle_ns", "idle_pct"))
        return
    reported = waiting.length == "reported" or inputs.profile.metadata.window.length_ns is None
    if step is None:
        of = "of the capture: no step is known"
    elif waiting.length == "capture":
        of = "of the capture: no kernel's step is known"
    else:
        of = "of a step under the profiler" if step.profiled else "of a step outside the profiled window"
    for name, value in (("idle_ns", waiting.idle_ns), ("idle_pct", waiting.idle_pct)):
        yield figure(name, value, "reported" if reported else "measured", f"{of}; copies do not count as busy")


class Logged(NamedTuple):
    """What the script logged of its throughput, in the order of its steps; `quiet`: in steps outside the profiler."""

    values: FloatArray
    unit: str | None
    quiet: bool
    odd: int  # how many of the same steps are left out: NaN, infinite, or too large for any figure


def logged_throughput(profile: Profile) -> Logged | None:
    """Return the figures that the headline is the median of; None where the script logged none under that name."""
    metrics, steps = profile.require("metrics"), profile.require("steps")
    logged = metrics.take(np.array([str(n).lower() == THROUGHPUT for n in metrics.values("name")], dtype=np.bool_))
    if not len(logged):
        return None
    values, during, units = logged.numbers("value"), logged.numbers("step"), set(logged.values("unit"))
    typical = steps.names("kind").among("measured", "after") & in_phase(profile, steps.numbers("step"))
    finite = np.abs(values) < BEYOND
    inside = np.isin(during, steps.numbers("step")[typical])
    quiet = bool((inside & finite).any())
    pool = inside if quiet else in_phase(profile, during)
    chosen, odd = pool & finite, int(np.count_nonzero(pool & ~finite))
    order = np.lexsort((values[chosen], during[chosen]))
    unit = units.pop() if len(units) == 1 else None
    return Logged(values[chosen][order], text_of(unit), quiet, odd)


def _throughput(inputs: SummaryInputs) -> Row:
    """Return the median of what the script logged during measured steps."""
    logged = logged_throughput(inputs.profile)
    if logged is None:
        return missing(THROUGHPUT, "the script logged none under that name")
    if not len(logged.values):
        return missing(THROUGHPUT, "the script logged no finite number")
    which = [] if logged.quiet else ["of all steps, warm-up and profiled ones included"]
    if logged.odd:
        which.append(f"{logged.odd:,} of {logged.odd + len(logged.values):,} are left out: no finite numbers")
    why = "; ".join(which) or None
    return figure(THROUGHPUT, float(np.median(logged.values)), "reported", why, spread_of(logged.values), logged.unit)


def flops_per_step(inputs: SummaryInputs) -> Row:
    """Return the FLOPs of a step: a lower bound where some products have none, or a range where some may not run."""
    name, gemms = "flops_per_step", inputs.gemms
    columns = (gemms.step_flops, gemms.table.values("executes"), gemms.table.values("at_least"))
    rows = [row for row in zip(*columns, strict=True) if row[1] != "no"]
    if not rows:
        return missing(name, "no matrix multiplication with shapes was recorded")
    if not gemms.traced and inputs.profile.marked_steps is None:
        return missing(name, NO_STEP)
    total = sum(flops or 0 for flops, _, _ in rows)
    sure = sum(flops or 0 for flops, executes, _ in rows if executes == "yes")
    longer = sum(bool(at_least) for _, _, at_least in rows)
    lacking = sum(flops is None for flops, _, _ in rows) + gemms.unseen
    every, basis = len(rows) + gemms.unseen, "graph" if gemms.graph_rows else "shape"
    if lacking and not total:
        return missing(name, f"all {every} matrix multiplications have {_unknown(gemms)}")
    if lacking:
        also = f", {longer} {IN_LOOPS}" if longer else ""
        why = f"{lacking} of {every} matrix multiplications have {_unknown(gemms)}{also}: a lower bound"
        return figure(name, None, basis, why, (float(sure), None))
    if longer:
        why = f"{longer} of {every} matrix multiplications {IN_LOOPS}: a lower bound"
        return figure(name, None, basis, why, (float(sure), None))
    bases = gemms.table.names("executes_basis").names
    if sure < total:
        unsure = sum(executes == "unknown" for _, executes, _ in rows)
        why = ""  # what became of what XLA compiled, only its modules tell
        if "optimised HLO" in bases:
            why = " (XLA compiled the step)"
        elif inputs.profile.metadata.xla or "traced" in bases:
            why = " (XLA compiled them, and the profile does not hold its modules)"
        why = f"whether {unsure} of {every} matrix multiplications execute is not known{why}: a range"
        return figure(name, None, basis, why, (float(sure), float(total)))
    compiled = COMPILED if {"optimised HLO", "length 1"} & {*bases} else None
    if (changing := changing_flops(inputs)) is None:
        return figure(name, float(total), basis, compiled)
    low, mean, high = changing
    return figure(name, mean, basis, f"{MEAN}; {compiled}" if compiled else MEAN, (low, high))


def changing_flops(inputs: SummaryInputs) -> tuple[float, float, float] | None:
    """Return the FLOPs of the counted step with least, of the mean one, and of that with most.

    None where shapes do not change, or only outside the counted steps.
    """
    called = calls_by_shapes(inputs.profile.require("graph_ops"), inputs.profile.metadata.window)
    each = dict.fromkeys(sorted({step for steps in called.values() for step in steps}), 0.0)
    gemms, always = inputs.gemms, 0.0
    columns = (gemms.table.values("executes"), gemms.table.numbers("flops") * gemms.table.numbers("calls_per_step"))
    for row, executes, flops in zip(gemms.records, *columns, strict=True):
        if executes == "no" or np.isnan(flops):
            continue
        if row not in called:
            always += flops
        for step in called.get(row, ()):  # the mean over all of these steps is `flops`
            each[step] += flops * len(each) / len(called[row])
    if not each:
        return None
    amounts = (min(each.values()), sum(each.values()) / len(each), max(each.values()))
    least, mean, most = (float(round(always + amount)) for amount in amounts)
    return None if least == most else (least, mean, most)


def _unknown(gemms: Gemms) -> str:
    """Return what is unknown of the multiplications whose FLOPs in a step are: shapes, or how often they run."""
    rows = zip(gemms.table.values("flops"), gemms.step_flops, strict=True)
    looped = any(once is not None and step is None for once, step in rows)
    return "unknown shapes, or run an unknown number of times" if looped else "unknown shapes"


class _TimedOp(NamedTuple):
    """An op that has shapes and kernel time."""

    flops: float  # of a step, on all GPUs
    dtype: Value  # of its inputs
    ns: float  # kernel time within the window
    at_least: bool  # whether it may run more often than is counted


def _timed_ops(gemms: Gemms) -> list[_TimedOp]:
    """Return each op whose FLOPs in a step and kernel time are known."""
    parts: dict[int, list[tuple[int | None, _TimedOp]]] = {}
    columns = (gemms.table.values(name) for name in ("dtype", "kernel_ns", "at_least"))
    rows = zip(gemms.records, gemms.step_flops, gemms.gpus, *columns, strict=True)
    for record, flops, gpus, dtype, time, longer in rows:
        if time:
            op = _TimedOp(0.0, dtype, float(time), bool(longer))
            parts.setdefault(record, []).append((None if flops is None else flops * (gpus or 1), op))
    known = (each for each in parts.values() if all(flops is not None for flops, _ in each))
    return [each[0][1]._replace(flops=float(sum(flops or 0 for flops, _ in each))) for each in known]


class Peak(NamedTuple):
    """The dense peak of a GPU for one dtype."""

    dtype: str  # of its inputs; ``tf32`` where float32 is multiplied in that
    flop_per_s: float


def peak_of(dtype: Value, context: Context) -> Peak | None:
    """Return the GPU's dense peak; float32 is TF32 where the run allows it and the GPU has it. None where unknown."""
    gpu = context.gpu
    if gpu is None or dtype is None:
        return None
    names = ["tf32", "float32"] if dtype == "float32" and context.tf32_allowed is not False else [str(dtype)]
    return next((Peak(name, peak) for name in names if (peak := gpu.peak_flop_per_s(name))), None)


def ideal_ns(flops: float, dtype: Value, context: Context) -> float | None:
    """Return the time at the GPU's peak; None where that is unknown."""
    peak = peak_of(dtype, context)
    return None if peak is None else 1e9 * flops / peak.flop_per_s


def _achieved(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield FLOP/s of the ops whose kernels were timed, and the share of the peak that they reach."""
    rate, peak = "achieved_tflop_per_s", "peak_pct"
    timed, steps = _timed_ops(inputs.gemms), inputs.profile.counted_steps
    why = not_of_steps(inputs.profile) if inputs.context.measured else inputs.without_kernels
    if why or not timed or steps is None:
        lacking = why or (NO_STEP if steps is None else "no op has both shapes and kernel time")
        yield from (missing(name, lacking) for name in (rate, peak))
        return
    spent, bound = sum(op.ns for op in timed), any(op.at_least for op in timed)
    counted = ONCE if set(inputs.gemms.table.values("calls_per_step")) <= {1.0, None} else COUNTED
    yield _at_least(rate, steps * sum(op.flops for op in timed) / spent / 1e3, bound, counted)
    ideal = [ideal_ns(op.flops, op.dtype, inputs.context) for op in timed]
    if None in ideal:
        yield missing(peak, MIXED_PEAK)
    else:
        share = 100.0 * steps * sum(ns or 0.0 for ns in ideal) / spent
        against = f"{counted}; against {inputs.context.name}'s dense peak for the dtype of each op"
        yield _at_least(peak, share, bound, against)


def _at_least(metric: str, value: float, bound: bool, why: str) -> Row:
    """Return a rate, or its lower bound where some of its ops may run more often."""
    if bound:
        return figure(metric, None, "shape", f"{why}; some {IN_LOOPS}: a lower bound", (value, None))
    return figure(metric, value, "shape", why)


def not_of_steps(profile: Profile) -> str | None:
    """Return why the recorded time is not that of the counted steps; None where it is."""
    codes = {note.code for note in profile.metadata.notes}
    if codes & {"events-lost", "event-cap"}:
        return LOST
    if "steps-without-kernels" in codes:
        return UNPLACED
    if profile.tuning is not None:
        return TUNED
    return STRAY if profile.metadata.window.first is None and profile.marked_steps else None
