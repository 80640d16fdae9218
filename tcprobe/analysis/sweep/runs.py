"""Keep of the report of a run what a sweep compares: a few arrays and figures, where a profile may hold millions."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.analysis.compare.figures import NOT_RECORDED, peak_memory
from tcprobe.analysis.compare.rows import logged_series
from tcprobe.analysis.phases import steps_by_phase, window_phase
from tcprobe.analysis.slow import slow_steps
from tcprobe.analysis.summary.rates import BEYOND, THROUGHPUT
from tcprobe.analysis.summary.steps import step_lengths, typical_steps
from tcprobe.schema.changes.comparison import Side, StepsCompared
from tcprobe.schema.changes.sweep import RunFigures
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Profile

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
    if row is None:
        return Side(None, reason=NOT_RECORDED)
    value, low, high = (None if row[key] is None else float(row[key] or 0) for key in ("value", "low", "high"))
    return Side(value, low, high, None if row["reason"] is None else str(row["reason"]))


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
