"""Put the runs of a sweep together: a row for each combination, the fastest, what each change gives, the losses.

Keep of the report of a run what a sweep compares: a few arrays and figures, where a profile may hold millions.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final, TypeVar

import numpy as np

from tcprobe.analysis.compare.figures import NOT_RECORDED, peak_memory
from tcprobe.analysis.compare.rows import logged_series
from tcprobe.analysis.phases import slow_steps, steps_by_phase, window_phase
from tcprobe.analysis.summary.rates import BEYOND, THROUGHPUT
from tcprobe.analysis.summary.steps import spread_of, step_lengths, typical_steps
from tcprobe.analysis.sweep.speed import Measured, Speeds, curves_of, gains_of, last_values, strays_of
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.comparison import FEWEST_STEPS, OTHER_WORK_PCT, Side, StepsCompared
from tcprobe.schema.profile import Profile
from tcprobe.schema.sweep import (
    Combination,
    Measure,
    Plan,
    RunFigures,
    Speedup,
    SweepResult,
    SweepRow,
    SweepRun,
)

KINDS: Final[dict[str, StepsCompared]] = {
    "measured": "outside the profiler",
    "after": "outside the profiler",
    "profiled": "under the profiler",
}
"""The kinds of steps that are compared, as `step_lengths` has them; those of the first that there are count."""


def figures_of_run(profile: Profile) -> RunFigures:
    """Return what a sweep keeps of an analysed profile."""
    prediction, throughput = profile.predicted, profile.figure(THROUGHPUT)
    return RunFigures(
        steps=step_lengths(profile),
        rates=_rates(profile),
        step=_side(profile, "step_time_ns"),
        throughput=_side(profile, THROUGHPUT),
        unit=None if throughput is None or throughput["text"] is None else str(throughput["text"]),
        tc_pct=_side(profile, "tc_kernel_time_pct"),
        busy_pct=_side(profile, "gpu_busy_pct"),
        peak_bytes=peak_memory(profile),
        flops=_side(profile, "flops_per_step").value,
        gpu_used=profile.metadata.gpu_used,
        gpus=tuple(sorted({str(gpu["name"]) for gpu in profile.active_gpus if gpu["name"]})),
        predicted=None if prediction is None else prediction.steps[0].ns,
        target=None if prediction is None else prediction.gpu,
        batch=None if prediction is None else prediction.batch,
        logged=logged_series(profile.require("metrics")),
    )


def _side(profile: Profile, metric: str) -> Side:
    row = profile.figure(metric)
    return Side(None, reason=NOT_RECORDED) if row is None else Side.of(row)


def _rates(profile: Profile) -> dict[StepsCompared, FloatArray]:
    """Return the throughput that was logged in the steps whose lengths are compared."""
    metrics, steps = profile.require("metrics"), profile.require("steps")
    mine = metrics.take(np.array([str(n).lower() == THROUGHPUT for n in metrics.values("name")], dtype=np.bool_))
    values, during = mine.numbers("value"), mine.numbers("step")
    usable = (np.abs(values) < BEYOND) & (values > 0.0)
    phase = steps_by_phase(profile)[window_phase(profile) or 0]
    rates: dict[StepsCompared, FloatArray] = {}
    for kind, rows in typical_steps(profile, phase, slow_steps(profile).left_out):
        chosen = usable & np.isin(during, steps.numbers("step")[rows])
        if kind in KINDS and chosen.any():
            order = np.argsort(during[chosen], kind="stable")
            rates.setdefault(KINDS[kind], values[chosen][order])
    return rates


T = TypeVar("T")
UNLIKE_RATES: Final = 0.1
"""Of the work of a step, where throughput times length stands for it: the log has few digits."""


def result_of(folder: str, plan: Plan, runs: Sequence[SweepRun]) -> SweepResult:
    """Return what the runs of a sweep say together.

    Args:
        folder: path of the sweep.
        plan: what was to be run.
        runs: those of the plan, in its order.
    """
    measured = [(run.planned, run.figures) for run in runs if run.figures is not None]
    figures = [one for _, one in measured]
    kind, units = _kind(figures), {one.unit for one in figures}
    other_work = _other_work(plan, runs, kind)
    logged = other_work and len(units) == 1 and all(len(_samples(one, "throughput", kind)) for one in figures)
    measure: Measure = "throughput" if logged else "step_time"
    samples = [Measured(run.combination, run.repeat, _samples(one, measure, kind)) for run, one in measured]
    usable = [one for one in samples if len(one.samples)]
    speeds = Speeds(usable, measure) if usable else None
    curves, numbers = curves_of(runs), [run.planned.combination for run in runs]
    strays = tuple(strays_of(curves, numbers))
    diverged = {numbers[stray.run] for stray in strays if stray.kind == "not finite"}
    fastest = _fastest(speeds, diverged) if speeds else ()
    return SweepResult(
        folder,
        plan,
        tuple(runs),
        tuple(_row(plan, one, runs, kind, speeds) for one in plan.combinations),
        measure,
        str(next(iter(units))) if len(units) == 1 and None not in units else None,
        other_work,
        kind,
        gpu_used=_agreed(one.gpu_used for one in figures),
        gpus=tuple(sorted({gpu for one in figures for gpu in one.gpus})),
        target=_agreed(one.target for one in figures if one.target),
        fastest=fastest,
        gains=tuple(gains_of(plan, speeds, fastest[0])) if speeds else (),
        curves=curves,
        strays=strays,
    )


def _agreed(values: Iterable[T | None]) -> T | None:
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _kind(figures: Sequence[RunFigures]) -> StepsCompared | None:
    """Return which steps are timed in all rows: of the kind that most runs have enough of; None where none has any."""
    kinds: tuple[StepsCompared, ...] = ("outside the profiler", "under the profiler")
    enough = {kind: sum(len(one.steps[kind]) >= FEWEST_STEPS for one in figures) for kind in kinds}
    some = {kind: sum(len(one.steps[kind]) > 0 for one in figures) for kind in kinds}
    best = max(kinds, key=lambda kind: (enough[kind], some[kind]))
    return best if some[best] else None


def _samples(figures: RunFigures, measure: Measure, kind: StepsCompared | None) -> FloatArray:
    """Return the samples of one run: of its steps, or the one figure that is known where no run has steps."""
    arrays, side = (figures.steps, figures.step) if measure == "step_time" else (figures.rates, figures.throughput)
    found = arrays.get(kind, np.zeros(0)) if kind else np.zeros(0)
    if not len(found) and side.value is not None and (kind is None or measure == "throughput"):
        found = np.array([side.value])
    return found[np.isfinite(found) & (found > 0.0)]


def _other_work(plan: Plan, runs: Sequence[SweepRun], kind: StepsCompared | None) -> bool:
    """Return whether the steps of some run do other work than those of the baseline.

    FLOPs tell where all are known, else throughput times length.
    """
    known = [(run.planned.combination == plan.baseline, run.figures) for run in runs if run.figures]
    flops = [(base, one.flops) for base, one in known]
    limit = OTHER_WORK_PCT / 100.0
    if None in [value for _, value in flops]:
        pairs = [(b, _samples(one, "step_time", kind), _samples(one, "throughput", kind)) for b, one in known]
        if not all(len(steps) and len(rates) for _, steps, rates in pairs):
            return False
        flops = [(base, float(np.median(steps) * np.median(rates))) for base, steps, rates in pairs]
        limit = UNLIKE_RATES
    of_base = [value for base, value in flops if base and value]
    return bool(of_base) and any(abs((value or 0.0) / of_base[0] - 1.0) > limit for _, value in flops)


def _fastest(speeds: Speeds, diverged: Container[int]) -> tuple[int, ...]:
    """Return the fastest combination, and those that are not known to be slower; of those that train, if any does."""
    best, *others = [each for each in speeds.known if each not in diverged] or speeds.known
    return (best, *(other for other in others if speeds.over(best, other).difference != "faster"))


def _row(
    plan: Plan, one: Combination, runs: Sequence[SweepRun], kind: StepsCompared | None, speeds: Speeds | None
) -> SweepRow:
    mine = [run for run in runs if run.planned.combination == one.number and run.figures is not None]
    figures = [run.figures for run in mine if run.figures is not None]
    peaks = [each.peak_bytes for each in figures if each.peak_bytes is not None]
    return SweepRow(
        one,
        len(figures),
        step=_timed([_samples(each, "step_time", kind) for each in figures], [each.step for each in figures]),
        throughput=_timed(
            [_samples(each, "throughput", kind) for each in figures], [each.throughput for each in figures]
        ),
        tc_pct=_joined([each.tc_pct for each in figures]),
        busy_pct=_joined([each.busy_pct for each in figures]),
        peak_bytes=max(peaks, default=None),
        predicted=_agreed(each.predicted for each in figures),
        last=last_values(mine),
        speedup=speeds.over(one.number, plan.baseline) if speeds else Speedup("not known", why="not measured"),
    )


def _timed(samples: Sequence[FloatArray], sides: Sequence[Side]) -> Side:
    """Return the median of all steps, and where they lie; without steps what the reports say."""
    pooled = np.concatenate(samples) if samples else np.zeros(0)
    if len(pooled) > 1:
        return Side(float(np.median(pooled)), *spread_of(pooled))
    return sides[0] if len(sides) == 1 else _joined(sides)


def _joined(sides: Sequence[Side]) -> Side:
    """Return the median of what runs of a combination have, with the range of all."""
    values = [side.value for side in sides if side.value is not None]
    ends = [end for side in sides for end in (side.low, side.value, side.high) if end is not None]
    if not ends:
        return next(iter(sides), Side(None, reason="no run is whole"))
    alike = min(ends) == max(ends)
    value = float(np.median(values)) if values else None
    return Side(value) if alike else Side(value, min(ends), max(ends))
