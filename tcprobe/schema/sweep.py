"""A sweep: one workload under combinations of settings, what was measured of each, and what each change gives."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from tcprobe.schema.columns import FloatArray
from tcprobe.schema.comparison import DifferenceKind, Side, StepsCompared
from tcprobe.schema.finding import Range

FactorKind = Literal[
    "option",  # an option of tcprobe
    "argument",  # an argument of the workload
    "environment",  # a variable of its environment
    "constant",  # a literal at the top of its script
]
RunState = Literal[
    "whole",  # it ended well
    "failed",  # it ended badly, or lacks what there was no room for
    "interrupted",  # it was cut off
    "missing",  # it was not run
]
Measure = Literal[
    "step_time",  # the length of a step
    "throughput",  # what the workload logs, where steps do other work
]
"""What speed is told by, in all rows of a sweep alike."""
WhySpeed = Literal[
    "no repeats",  # effects are told from noise by runs of the same combination, and there are too few
    "few steps",  # as of `compare`
    "one figure",  # likewise
    "not measured",  # one of the two has no figure
]


GainKind = Literal[
    "beside",  # one change of a combination, which has its others too: against the combination without it
    "alone",  # one change of the fastest combination, without its others: against the baseline
    "mean",  # one change, in the mean over all settings of the others in which both were run
    "pair",  # two changes, beyond the product of what each gives, likewise
]


class Factor(Struct, frozen=True):
    """What is varied."""

    name: str  # as in tables and in --exclude: ``precision``, ``sizes``
    kind: FactorKind
    key: str  # as it is handed on: ``precision``, ``--sizes``, a variable, a constant
    values: tuple[str, ...]  # in the order given; of an argument without values ``on`` and ``off``
    switch: bool = False  # whether it is an argument without values


class Change(NamedTuple):
    """Another value of a factor than that of the baseline."""

    factor: str
    value: str
    instead_of: str


class Combination(Struct, frozen=True):
    """One value of each factor."""

    number: int  # from 1, in the product of all factors: what is left out has a number too
    values: tuple[str, ...]


class PlannedRun(Struct, frozen=True):
    """One run of a combination."""

    folder: str  # name of its run folder in that of the sweep
    combination: int  # number
    repeat: int  # from 1


class Plan(Struct, frozen=True):
    """What is to be run."""

    workload: str  # its short name
    factors: tuple[Factor, ...]
    combinations: tuple[Combination, ...]  # those that run, at least one
    runs: tuple[PlannedRun, ...]  # in their order: all combinations once, then again
    baseline: int  # number of the combination that the others are held against
    excluded: int = 0  # combinations that --exclude leaves out
    limited: int = 0  # combinations that --limit leaves out

    def combination(self, number: int) -> Combination:
        """Return the combination of this number."""
        return next(one for one in self.combinations if one.number == number)


class RunFigures(Struct, frozen=True):
    """What is kept of the report of one run."""

    steps: dict[StepsCompared, FloatArray]  # lengths of single steps, ns, in order
    rates: dict[StepsCompared, FloatArray]  # throughput that was logged in the same steps
    step: Side  # ns
    throughput: Side
    unit: str | None  # of the throughput
    tc_pct: Side  # share of kernel time on Tensor Cores
    busy_pct: Side  # share of the window in which a kernel ran
    peak_bytes: float | None  # of the memory of a GPU
    flops: float | None  # of the products of a step; None where only a bound is known
    gpu_used: bool | None
    gpus: tuple[str, ...]  # names of the GPUs that ran kernels
    predicted: Range | None  # ns of the products of a step on `target`, of a run without a GPU
    target: str | None
    batch: int | None  # that it would take there; None: that of the run
    logged: dict[str, dict[int | None, float]]  # name -> step -> value; None: before the first step


class SweepRun(Struct, frozen=True):
    """One run of a sweep, and what it gave."""

    planned: PlannedRun
    state: RunState
    why: str = ""  # how it ended, or why there are no figures; empty where there are
    figures: RunFigures | None = None


class Speedup(Struct, frozen=True):
    """How many times as fast something is as something else, with its 95 % interval."""

    difference: DifferenceKind  # faster, slower, within noise, cannot tell, not known
    # ratio, low, high: above 1 where it is faster; None where unknown.
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    why: WhySpeed | None = None  # what keeps the difference from being told


class Gain(Struct, frozen=True):
    """What changes give."""

    kind: GainKind
    changes: tuple[Change, ...]  # one, of a pair two
    speedup: Speedup
    combination: int | None = None  # number, of ``beside`` and ``alone``
    contexts: int = 1  # over how many settings of the other factors it is the mean


class LastValue(Struct, frozen=True):
    """The last value that was logged under a name: the median of the runs; not finite where that of one is not."""

    value: float
    since: int | None = None  # step since which it is not finite


class SweepRow(Struct, frozen=True):
    """One combination: the medians of its runs, or of their steps."""

    combination: Combination
    runs: int  # that have figures
    step: Side  # ns; low and high: percentiles 10 and 90 of the steps
    throughput: Side
    tc_pct: Side
    busy_pct: Side
    peak_bytes: float | None  # the most of its runs
    predicted: Range | None
    last: dict[str, LastValue]
    speedup: Speedup  # over the baseline


class Curve(Struct, frozen=True):
    """What one run logged under one name."""

    name: str
    run: int  # in `SweepResult.runs`
    steps: tuple[int, ...]
    values: tuple[float, ...]


class Stray(Struct, frozen=True):
    """A run whose losses leave those of the others."""

    run: int  # in `SweepResult.runs`
    name: str  # as logged
    kind: Literal["not finite", "apart"]
    step: int | None  # since which; None: before the first step
    value: float  # the last one


class SweepResult(Struct, frozen=True):
    """A sweep as far as it was run."""

    folder: str
    plan: Plan
    runs: tuple[SweepRun, ...]  # in the order of the plan
    rows: tuple[SweepRow, ...]  # of all combinations, in their order
    measure: Measure
    unit: str | None  # of the throughput, where all runs log the same
    other_work: bool  # whether steps multiply over 1 % more or less than those of the baseline
    steps: StepsCompared | None  # which steps are timed; None where single figures stand for them
    gpu_used: bool | None
    gpus: tuple[str, ...]
    target: str | None  # GPU that is predicted for, of runs without one
    # numbers of the fastest combination whose losses stay finite, and of those that noise does not tell from it
    fastest: tuple[int, ...]
    gains: tuple[Gain, ...] = ()
    curves: tuple[Curve, ...] = ()
    strays: tuple[Stray, ...] = ()
