"""`Condition`: what `--fail-if` asks of a run, or of two, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from tcprobe.schema.kinds import CAUSE_GROUPS

Relation = Literal["<", "<=", ">", ">=", "==", "!="]
RELATIONS: Final[tuple[Relation, ...]] = ("<=", ">=", "==", "!=", "<", ">")
"""As they are looked for in a text: the longer ones first."""
Outcome = Literal["met", "not met", "cannot tell"]
"""What became of a condition: it holds (the command fails), it does not, or what it asks of is not known."""

MetricUnit = Literal["ns", "pct", "bytes", "tflop_per_s", "count", "flops", "logged"]
COMPARED: Final[Mapping[str, MetricUnit]] = {
    "step_time_ns": "ns",
    "throughput": "logged",
    "wall_ns": "ns",
    "gpu_busy_pct": "pct",
    "idle_ns": "ns",
    "idle_pct": "pct",
    "peak_memory_bytes": "bytes",
    "tc_kernel_time_pct": "pct",
    "tc_capable_time_pct": "pct",
    "coverage_pct": "pct",
    "kernel_time_ns": "ns",
    "tc_time_ns": "ns",
    "communication_kernel_time_ns": "ns",
    "memory_time_ns": "ns",
    "kernels": "count",
    "copies": "count",
    **{f"cause_{group}_ns": "ns" for group in CAUSE_GROUPS},
    "achieved_tflop_per_s": "tflop_per_s",
    "peak_pct": "pct",
    "mfu_pct": "pct",
    "hfu_pct": "pct",
    "flops_per_step": "flops",
    "bad_size_count": "count",
}
"""Figures that `Comparison.figures` may hold, and their units: of these a condition may ask the change."""
OF_ONE_RUN: Final[Mapping[str, MetricUnit]] = {
    "mean_step_time_ns": "ns",
    "epoch_end_ns": "ns",
    "epoch_ends": "count",
    "short_step_ns": "ns",
    "long_step_ns": "ns",
    "retrace_ns": "ns",
    "retraces": "count",
    "window_ns": "ns",
    "iterations_in_window": "count",
    "capable_time_pct": "pct",
    "communication_kernel_time_pct": "pct",
    "communication_exposed_ns": "ns",
    "ops_using_tc_time_pct": "pct",
    "ops_eligible_not_using_time_pct": "pct",
    "ops_idle_ns": "ns",
    "ops_idle_pct": "pct",
    "gemm_layers": "count",
    "mfu_peak_tflop_per_s": "tflop_per_s",
}
"""Figures of `summary` that are not compared; ``precision_P_time_pct`` of each precision P is another."""
LOGGED: Final = "logged."
"""What stands before the name of a figure that the workload logged: of it a condition takes the run's last value."""
SPREADS: Final = frozenset(
    {"step_time_ns", "mean_step_time_ns", "short_step_ns", "long_step_ns", "epoch_end_ns", "retrace_ns", "throughput"}
    | {"flops_per_step"}
)
"""Figures whose `low` and `high`, where they have a value, are how far single steps lie from it: nothing is unknown."""


class Condition(Struct, frozen=True):
    """One condition under which a command fails: ``step_time>+5%``, ``tc_kernel_time_pct<30``."""

    text: str  # as typed
    # name of a figure of `summary` with its unit (what was typed may leave that out), or `LOGGED` and a logged name
    metric: str
    relation: Relation  # between the figure, or its change, and the limit
    # in the unit of the figure; of a change in percent of the first run's figure, or in the figure's unit
    limit: float
    change: bool = False  # whether it asks of the change from the first run rather than of the figure itself
    percent: bool = False  # whether `limit` is a percentage of the first run's figure; only of a change


class Verdict(Struct, frozen=True):
    """What became of a condition."""

    condition: Condition  # the condition
    outcome: Outcome  # `met` makes the command end with exit code 1, `cannot tell` with 2
    # number of the run that it was held against, from 0; 1 and later are held against run 0 where it asks of a change
    run: int
    value: float | None = None  # the figure, or the change in the unit of the limit; None where unknown
    # low, high: range of the figure where kernels of unknown class, or the spread of steps, make it one.
    low: float | None = None
    high: float | None = None
    # why it cannot be told: the reason of the missing figure, a `comparison.Why`, or ``of zero``: there is no
    # percentage of 0. Of what is not met ``within noise``: but for the noise of steps it would be.
    why: str | None = None
    unit: MetricUnit = "count"  # of `value`, `low` and `high`; ``pct`` of a change in percent, too
