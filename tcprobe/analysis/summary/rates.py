"""Summarise step time, throughput, FLOPs, and the share of the GPU's peak that they reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.phases import in_phase
from tcprobe.analysis.summary.figures import Reason, SummaryInputs, figure, without_kernels, without_time
from tcprobe.analysis.summary.reported import Reported
from tcprobe.analysis.summary.step_time import spread_of
from tcprobe.analysis.summary.timed import ideal_ns, timed_ops
from tcprobe.analysis.summary.waiting import ITERATIONS, window_steps
from tcprobe.schema.columns import FloatArray, Row
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import Waiting

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
COMPILED: Final = "what XLA compiled of it counts as far as its optimised modules hold it"
SPANNED: Final = "from the first to the last GPU activity"
OF_STEP: Final = "the one marked step"


def rate_rows(inputs: SummaryInputs, reported: Reported) -> Iterator[Row]:
    """Yield the figures per step and per second."""
    yield _iterations(inputs, reported)
    yield _step_time(inputs)
    yield from _epoch_ends(inputs)
    yield from _waiting(inputs)
    if len(inputs.profile.require("metrics")):
        yield _throughput(inputs)
    yield _flops_per_step(inputs)
    yield from _achieved(inputs)


def _iterations(inputs: SummaryInputs, reported: Reported) -> Row:
    table = inputs.profile.require("iterations")
    if len(table):
        return figure("iterations_in_window", float(inputs.profile.marked_steps or 0), "measured")
    told = reported.get(ITERATIONS)
    if told:
        return figure("iterations_in_window", told, "reported")
    return figure("iterations_in_window", None, None, "the source marks no steps")


def _step_time(inputs: SummaryInputs) -> Row:
    """Return the length of a step; the reason says of which steps, and how many."""
    step = inputs.step
    if step is None:
        held = "no two steps were marked" if inputs.profile.metadata.window.first is not None else NO_STEP.text
        held = WARM_UP if len(inputs.profile.require("steps")) else held
        return figure("step_time_ns", None, None, held)
    return figure("step_time_ns", step.ns, step.basis, step.why, step.spread or (None, None))


def _epoch_ends(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield how many steps hold an epoch's end, how long these take, and what a step takes with them; none: nothing."""
    step = inputs.step
    if step is None or step.ends is None:
        return
    lengths, count = step.ends.lengths_ns, float(len(step.ends.lengths_ns))
    why = "far longer than the others, or at equal distances: taken for validation, a checkpoint or another pause"
    yield figure(
        "mean_step_time_ns", step.ends.mean_ns, "measured", f"mean of {step.ends.steps} steps, epoch ends included"
    )
    bounds = (float(lengths.min()), float(lengths.max()))
    yield figure("epoch_end_ns", float(np.median(lengths)), "measured", f"median length of {count:.0f}", bounds)
    yield figure("epoch_ends", count, "measured", f"among {step.ends.steps} steps; {why}")


def _waiting(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the length of the window, and how long the GPU waits in a step; the reason says what stands for a step."""
    span, waiting = inputs.profile.metadata.window.length_ns, inputs.profile.waiting
    yield _window(inputs, span)
    if waiting is None:
        why = NO_CLOCK if inputs.context.measured else without_time(inputs.context)
        yield from (figure(name, None, None, why) for name in ("idle_ns", "idle_pct"))
        return
    basis = "reported" if waiting.length == "reported" or span is None else "measured"
    why = f"{_whole(inputs, waiting)}; copies do not count as busy"
    yield figure("idle_ns", waiting.idle_ns, basis, why)
    yield figure("idle_pct", waiting.idle_pct, basis, why)


def _whole(inputs: SummaryInputs, waiting: Waiting) -> str:
    """Return what the waiting is a part of."""
    if waiting.length == "capture" or inputs.step is None:
        return (
            "of the capture: no step is known" if inputs.step is None else "of the capture: no kernel's step is known"
        )
    return "of a step under the profiler" if inputs.step.profiled else "of a step outside the profiled window"


def _window(inputs: SummaryInputs, span: int | None) -> Row:
    waiting, whole = inputs.profile.waiting, inputs.profile.metadata.window.basis == "whole capture"
    if waiting is not None and waiting.length == "reported" and whole and waiting.step_ns > (span or 0.0):
        return figure("window_ns", waiting.step_ns * (window_steps(inputs.profile) or 1.0), "reported")
    if span is not None:
        marked = waiting is not None and waiting.length == "marked step"
        return figure("window_ns", float(span), "measured", (OF_STEP if marked else SPANNED) if whole else None)
    if waiting is not None and waiting.length == "capture":
        return figure("window_ns", waiting.step_ns, "reported")
    return figure("window_ns", None, None, NO_CLOCK)


@dataclass(frozen=True, slots=True)
class Logged:
    """What the script logged of its throughput, in the order of its steps; `quiet`: in steps outside the profiler."""

    values: FloatArray
    unit: str | None
    quiet: bool


def logged_throughput(profile: Profile) -> Logged | None:
    """Return the figures that the headline is the median of; None where the script logged none under that name."""
    metrics, steps = profile.require("metrics"), profile.require("steps")
    named = np.array([str(n).lower() == THROUGHPUT for n in metrics.values("name")], dtype=np.bool_)
    if not named.any():
        return None
    values, units = metrics.numbers("value")[named], metrics.names("unit").take(named).tolist()
    during = metrics.numbers("step")[named]
    typical = steps.names("kind").among("measured", "after") & in_phase(profile, steps.numbers("step"))
    finite = np.abs(values) < BEYOND
    inside = np.isin(during, steps.numbers("step")[typical]) & finite
    quiet = bool(inside.any())
    chosen = inside if quiet else finite & in_phase(profile, during)
    order = np.lexsort((values[chosen], during[chosen]))
    return Logged(values[chosen][order], units[0] if len(set(units)) == 1 else None, quiet)


def _throughput(inputs: SummaryInputs) -> Row:
    """Return the median of what the script logged during measured steps."""
    logged = logged_throughput(inputs.profile)
    if logged is None:
        return figure(THROUGHPUT, None, None, "the script logged none under that name")
    if not len(logged.values):
        return figure(THROUGHPUT, None, None, "the script logged no finite number")
    why = None if logged.quiet else "of all steps, warm-up and profiled ones included"
    return figure(THROUGHPUT, float(np.median(logged.values)), "reported", why, spread_of(logged.values), logged.unit)


def _flops_per_step(inputs: SummaryInputs) -> Row:
    runs = inputs.gemms.table.values("executes")
    steps = [f for f, e in zip(inputs.gemms.step_flops, runs, strict=True) if e != "no"]
    if not steps:
        return figure("flops_per_step", None, None, "no matrix multiplication with shapes was recorded")
    if not inputs.gemms.traced and inputs.profile.marked_steps is None:
        return figure("flops_per_step", None, None, NO_STEP)
    known = [f for f in steps if f is not None]
    sure = sum(f or 0 for f, e in zip(inputs.gemms.step_flops, runs, strict=True) if e == "yes")
    longer = sum(bool(b) and e != "no" for b, e in zip(inputs.gemms.table.values("at_least"), runs, strict=True))
    unseen, basis = inputs.gemms.unseen, "graph" if inputs.gemms.graph_rows else "shape"
    if len(known) < len(steps) or unseen:
        lacking, whole = len(steps) - len(known) + unseen, len(steps) + unseen
        if not sum(known):
            return figure("flops_per_step", None, None, f"all {whole} matrix multiplications have {_unknown(inputs)}")
        also = f", {longer} {IN_LOOPS}" if longer else ""
        why = f"{lacking} of {whole} matrix multiplications have {_unknown(inputs)}{also}: a lower bound"
        return figure("flops_per_step", None, basis, why, (float(sure), None))
    if longer:
        why = f"{longer} of {len(steps)} matrix multiplications {IN_LOOPS}: a lower bound"
        return figure("flops_per_step", None, basis, why, (float(sure), None))
    if sure < sum(known):
        unsure = sum(e == "unknown" for e in runs)
        why = f"whether {unsure} of {len(steps)} matrix multiplications execute is not known{_why_not(inputs)}: a range"
        return figure("flops_per_step", None, basis, why, (float(sure), float(sum(known))))
    compiled = {"optimised HLO", "length 1"}.intersection(inputs.gemms.table.names("executes_basis").names)
    return figure("flops_per_step", float(sum(known)), basis, COMPILED if compiled else None)


def _unknown(inputs: SummaryInputs) -> str:
    """Return what is unknown of the multiplications whose FLOPs in a step are: shapes, or how often they run."""
    rows = zip(inputs.gemms.table.values("flops"), inputs.gemms.step_flops, strict=True)
    looped = any(once is not None and step is None for once, step in rows)
    return "unknown shapes, or run an unknown number of times" if looped else "unknown shapes"


def _why_not(inputs: SummaryInputs) -> str:
    """Say why that is not known: what became of what XLA compiled, only its modules tell."""
    bases = inputs.gemms.table.names("executes_basis").names
    if "optimised HLO" in bases:
        return " (XLA compiled the step)"
    compiled = inputs.profile.metadata.xla or "traced" in bases
    return " (XLA compiled them, and the profile does not hold its modules)" if compiled else ""


def _achieved(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield FLOP/s of the ops whose kernels were timed, and the share of the peak that they reach."""
    rate, peak = "achieved_tflop_per_s", "peak_pct"
    if not inputs.context.measured:
        yield figure(rate, None, None, without_kernels(inputs.context))
        yield figure(peak, None, None, without_kernels(inputs.context))
        return
    timed = timed_ops(inputs.gemms)
    steps = inputs.profile.counted_steps
    why = not_of_steps(inputs.profile)
    if why or not timed or steps is None:
        lacking = why or (NO_STEP if steps is None else "no op has both shapes and kernel time")
        yield figure(rate, None, None, lacking)
        yield figure(peak, None, None, lacking)
        return
    spent = sum(op.ns for op in timed)
    bound, counted = any(op.at_least for op in timed), _counted(inputs)
    yield _at_least(rate, steps * sum(op.flops for op in timed) / spent / 1e3, bound, counted)
    ideal = [ideal_ns(op.flops, op.dtype, inputs.context) for op in timed]
    if None in ideal:
        yield figure(peak, None, None, MIXED_PEAK)
    else:
        share = 100.0 * steps * sum(i for i in ideal if i is not None) / spent
        why = f"{counted}; against {inputs.context.name}'s dense peak for the dtype of each op"
        yield _at_least(peak, share, bound, why)


def _counted(inputs: SummaryInputs) -> str:
    """Return how often the ops of a rate count."""
    return ONCE if set(inputs.gemms.table.values("calls_per_step")) <= {1.0, None} else COUNTED


def _at_least(metric: str, value: float, bound: bool, why: str) -> Row:
    """Return a rate, or its lower bound where some of its ops may run more often."""
    if bound:
        return figure(metric, None, "shape", f"{why}; some {IN_LOOPS}: a lower bound", (value, None))
    return figure(metric, value, "shape", why)


def not_of_steps(profile: Profile) -> str | None:
    """Return why the recorded time is not that of the counted steps; None where it is."""
    codes = {note.code for note in profile.metadata.notes}
    if not codes.isdisjoint(("events-lost", "event-cap")):
        return LOST
    if "steps-without-kernels" in codes:
        return UNPLACED
    if profile.tuning is not None:
        return TUNED
    return STRAY if profile.metadata.window.first is None and profile.marked_steps else None
