"""`Comparison`: two or more runs side by side, the first of which the others are held against.

`Condition`: what `--fail-if` asks of a run, or of two, and what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import CAUSE_GROUPS, KernelKind
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.records import text_of

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


DifferenceKind = Literal[
    "faster",  # it takes less time, and noise does not explain it
    "slower",  # it takes more time, and noise does not explain it
    "more",  # the figure is larger
    "less",  # the figure is smaller
    "same",  # the figure is the same
    "within noise",  # steps vary as much by themselves
    "cannot tell",  # too few steps, or a clock that tells one length alone
    "not known",  # one of the two is not known
]
"""What became of a figure. Only times of steps can be real or noise; of other figures the change is what it is."""
FEWEST_STEPS: Final = 8
"""Under this many steps of either run nothing is said of whether their lengths differ."""
OTHER_WORK_PCT: Final = 1.0
"""Percent by which the FLOPs of a step may differ before the steps do other work: padding one layer is less."""
Why = Literal[
    "few steps",  # of one of the runs fewer than `FEWEST_STEPS` steps are known
    "no steps",  # of one of the runs no step's length is known
    "ranges overlap",  # the figures are ranges that overlap, for the class of some kernels is unknown
    "steps differ",  # the figures are of other kinds of steps: under the profiler and outside it, or of no step at all
    "one figure",  # of one of the runs a single length is known: that of one marked step, or the mean of its profiler
    "no ratio",  # some steps of one of the runs have a length, or a throughput, of 0
]
"""What keeps a difference from being told."""
StepsCompared = Literal["outside the profiler", "under the profiler"]


class Interval(Struct, frozen=True):
    """A change with its 95 % confidence interval, in percent of the first run's figure.

    It tells whether the steps of these two runs differ, not whether two other runs would.
    """

    # low_pct, likely_pct, high_pct: the change of the median of `samples`.
    low_pct: float
    likely_pct: float
    high_pct: float
    # how many steps (of throughput: logged figures) of the first run and of the other one
    samples: tuple[int, int] = (0, 0)
    # where these steps stand: outside the profiler, or under it on both sides
    steps: StepsCompared = "outside the profiler"
    # how alike successive samples are, 0-1 (lag-1 correlation of their ranks); it widens the interval
    likeness: float = 0.0


class Change(Struct, frozen=True):
    """How a figure of one run differs from that of the first."""

    difference: DifferenceKind  # what became of it
    delta: float | None = None  # in the figure's unit; None where unknown
    pct: float | None = None  # of the first run's figure; None where that is 0 or unknown
    interval: Interval | None = None  # of the median step, by bootstrap; None of other figures
    why: Why | None = None  # what keeps the difference from being told
    # where that is ``few steps``: of how many steps of the first run and of this one the length is known
    steps: tuple[int, int] | None = None


class Side(Struct, frozen=True):
    """A figure of one run: value, and range where it is one; `reason` says why it is missing."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is a figure, or a bound of it."""
        return (self.value, self.low, self.high) != (None, None, None)

    @classmethod
    def of(cls, row: Row, share: float = 1.0) -> Side:
        """Return a row of `summary`, or a share of its figure."""
        ends = (None if row[at] is None else float(row[at] or 0) * share for at in ("value", "low", "high"))
        value, low, high = ends
        return cls(value, low, high, text_of(row["reason"]))


class ComparedFigure(Struct, frozen=True):
    """One figure of all runs."""

    # as in `summary` (``step_time_ns``), or ``wall_ns``, ``peak_memory_bytes``, ``copies``, ``cause_GROUP_ns`` for each
    # group of `CAUSE_GROUPS` (the mean over GPUs). Sums over the window (``kernel_time_ns``, ``tc_time_ns``,
    # ``memory_time_ns``, ``kernels``, ``copies``, ``communication_kernel_time_ns``, causes) are of one step, unless
    # `Comparison.per_step` is False.
    metric: str
    unit: str  # ns, pct, bytes, count, tflop_per_s, or the unit that the workload logged
    sides: tuple[Side, ...]  # of each run
    changes: tuple[Change, ...]  # of each run but the first
    # True of times, False of throughput and shares of Tensor Cores; None where neither
    less_is_better: bool | None = None


class ComparedRow(Struct, frozen=True):
    """One layer, op or kernel of all runs: its time in a step of each."""

    name: str  # path of the layer or op, or name of the kernel
    # time in a step, ns, summed over GPUs; 0 where the run has it not, None where it is not known
    sides: tuple[float | None, ...]
    changes: tuple[float | None, ...]  # of each run but the first, in ns of a step
    launches: tuple[float | None, ...] = ()  # kernels in a step of each run; None where unknown
    # of each run: yes, no, unknown; None where it has it not. Of a layer: share on Tensor Cores is `tc_ns`.
    uses_tc: tuple[str | None, ...] = ()
    tc_ns: tuple[float | None, ...] = ()  # time in a step on Tensor Cores; None where unknown
    # layer, pass_, source: where it stands, where the runs agree.
    layer: str | None = None
    pass_: str | None = None
    source: str | None = None
    op_type: str | None = None  # of an op; None of layers and kernels


class Renamed(Struct, frozen=True):
    """An op that other kernels run now: the kernels that left and that came, all GPUs together."""

    op: str | None  # path of the op, or the layer where ops have no names; None of the run as a whole
    # before, after: names of kernels, costliest first.
    before: tuple[str, ...]
    after: tuple[str, ...]
    # before_ns, after_ns: their time in a step, summed over GPUs.
    before_ns: float
    after_ns: float
    run: int = 1  # number of the run, from 1; the kernels that left are of run 0


class ComparedRange(Struct, frozen=True):
    """The NVTX ranges of one name in all runs: how long one lasts on the host."""

    name: str
    domain: str | None  # None for the default one
    sides: tuple[float | None, ...]  # mean length in each run, ns; None where it has none
    changes: tuple[float | None, ...]  # of each run but the first, in ns
    calls: tuple[int | None, ...]  # how many in the capture of each run


class ComparedPlace(Struct, frozen=True):
    """One kernel of the unit that the runs repeat, by its place in it."""

    place: int  # from 0, where the unit of the first run begins
    kind: KernelKind  # what the first run's kernel does
    kernels: tuple[str | None, ...]  # name in each run; None where that repeats no such unit
    sides: tuple[float | None, ...]  # mean time of one launch in each run, ns
    changes: tuple[float | None, ...]  # of each run but the first, in ns


class Loss(Struct, frozen=True):
    """A figure that the workloads logged (a loss), side by side."""

    name: str  # as logged
    steps: tuple[int, ...]  # numbers of the steps that at least two runs logged it in, ascending
    # of each run, one for each of these steps; None where that run did not log it
    values: tuple[tuple[float | None, ...], ...]
    last: tuple[float | None, ...]  # the last value of each run, whatever its step; None where it logged none
    # step since which a run's values are what `last` is, where that is NaN or an infinity; else None
    since: tuple[int | None, ...]


class Comparison(Struct, frozen=True):
    """Runs side by side."""

    names: tuple[str, ...]  # what to call each run: its path as given, short where that stays clear
    profiles: tuple[Profile, ...]  # analysed, in the order given
    figures: tuple[ComparedFigure, ...]  # headline figures, most important first
    # layers, ops, kernels: times in a step, largest change first; empty where no run has them.
    layers: tuple[ComparedRow, ...] = ()
    ops: tuple[ComparedRow, ...] = ()
    kernels: tuple[ComparedRow, ...] = ()
    renamed: tuple[Renamed, ...] = ()  # ops whose kernels changed name
    ranges: tuple[ComparedRange, ...] = ()  # NVTX ranges that two runs have, what changed most first
    places: tuple[ComparedPlace, ...] = ()  # kernels by their place in a unit that the runs repeat, likewise
    losses: tuple[Loss, ...] = ()  # figures that the workloads logged, losses first
    # whether the times of `layers`, `ops` and `kernels` are of a step; False: of the whole capture, as one of the runs
    # marks no steps
    per_step: bool = True
    # (what, value of each run) of what differs between the runs: GPU, precision, profiler, versions, command; values
    # are text, None where unknown. Of the environment ``environment.NAME``.
    settings: tuple[tuple[str, tuple[str | None, ...]], ...] = ()
    # what limits the comparison: other GPUs, other profilers, other work in a step
    notes: tuple[Note, ...] = field(default_factory=tuple)
