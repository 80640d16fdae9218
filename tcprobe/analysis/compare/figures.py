"""Hold the headline figures of several runs side by side, each as it is or as that of one step, and how they differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.compare.noise import ratio_interval
from tcprobe.analysis.compare.runs import Run
from tcprobe.analysis.iterations import counted
from tcprobe.analysis.summary.rates import logged_throughput
from tcprobe.analysis.summary.steps import spread_of, step_lengths
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.comparison import (
    FEWEST_STEPS,
    SPREADS,
    Change,
    ComparedFigure,
    DifferenceKind,
    Interval,
    Side,
    StepsCompared,
    Why,
)
from tcprobe.schema.kinds import CAUSE_GROUPS, GROUP_OF, CauseGroup
from tcprobe.schema.profile import Profile

NOT_RECORDED: Final = "the run does not record it"
COMMUNICATION: Final = "communication_kernel_time_ns"
"""`summary` has it only where there is some."""
OF_KERNELS: Final[frozenset[CauseGroup]] = frozenset({"well", "slowly", "used", "off", "never", "layout"})
"""Parts that kernels of unknown cause may belong to."""
WASTED: Final[frozenset[CauseGroup]] = frozenset({"slowly", "off", "layout", "copy", "idle"})
"""Parts of a step's bar of which less is better; of the others more may mean that another part became less."""
SAME: Final = 1e-9
"""Relative difference up to which two figures are the same: sums in another order differ by as much."""


class _Figure(NamedTuple):
    """A figure: its unit, whether less of it is better, and whether it is a sum over the window."""

    metric: str
    unit: str
    less_is_better: bool | None = None
    summed: bool = False


_STEP: Final = _Figure("step_time_ns", "ns", True)
_THROUGHPUT: Final = _Figure("throughput", "", False)
_FIRST: Final = (
    _Figure("wall_ns", "ns", True),
    _Figure("gpu_busy_pct", "pct"),
    _Figure("idle_ns", "ns", True),
    _Figure("idle_pct", "pct", True),
    _Figure("peak_memory_bytes", "bytes", True),
    _Figure("tc_kernel_time_pct", "pct", False),
    _Figure("tc_capable_time_pct", "pct", False),
    _Figure("coverage_pct", "pct", False),
    _Figure("kernel_time_ns", "ns", True, True),
    _Figure("tc_time_ns", "ns", None, True),
    _Figure(COMMUNICATION, "ns", True, True),
    _Figure("memory_time_ns", "ns", True, True),
    _Figure("kernels", "count", None, True),
    _Figure("copies", "count", None, True),
)
_LAST: Final = (
    _Figure("achieved_tflop_per_s", "tflop_per_s", False),
    _Figure("peak_pct", "pct", False),
    _Figure("mfu_pct", "pct", False),
    _Figure("hfu_pct", "pct", False),
    _Figure("flops_per_step", "count"),
    _Figure("bad_size_count", "count", True),
)


def figures_of(runs: Sequence[Run]) -> tuple[ComparedFigure, ...]:
    """Return the figures that some run has, most important first; sums over the window are of one step where known."""
    figures = (
        _step(runs),
        _throughput(runs),
        *(_plain(runs, one) for one in _FIRST),
        *_causes(runs),
        *(_plain(runs, one) for one in _LAST),
    )
    return tuple(one for one in figures if any(_ends(s) is not None for s in one.sides))


def _compared(figure: _Figure, sides: Sequence[Side], change: Callable[[int], Change]) -> ComparedFigure:
    """Return a figure with how that of each later run differs from the first."""
    changes = tuple(change(number) for number in range(1, len(sides)))
    return ComparedFigure(figure.metric, figure.unit, tuple(sides), changes, figure.less_is_better)


def _plain(runs: Sequence[Run], figure: _Figure) -> ComparedFigure:
    """Return a figure that differs by what it is; how long a GPU waits in a step is none of a whole capture."""
    sides = [_side(run, figure) for run in runs]
    captured = [run.profile.waiting is not None and run.profile.waiting.length == "capture" for run in runs]

    def change(number: int) -> Change:
        plain = change_of(*(_settled(figure, sides[at]) for at in (0, number)))
        apart = figure.metric in ("idle_ns", "idle_pct") and captured[0] != captured[number]
        return Change("cannot tell", why="steps differ") if apart and plain.difference != "not known" else plain

    return _compared(figure, sides, change)


def _side(run: Run, figure: _Figure) -> Side:
    """Return a figure of one run with its range, that of a step where it is a sum."""
    share = run.share if figure.summed else 1.0
    row, find = run.profile.figure(figure.metric), _RECORDED.get(figure.metric)
    if row is None and find is not None:
        value = find(run.profile)
        return Side(None, reason=NOT_RECORDED) if value is None else Side(value * share)
    if row is None:
        named = figure.metric == COMMUNICATION and len(run.profile.require("kernels"))
        return Side(0.0) if named else Side(None, reason=NOT_RECORDED)
    return Side.of(row, share)


def _settled(figure: _Figure, side: Side) -> Side:
    """Return a figure without the range of the single steps that it is the mean of."""
    return Side(side.value) if figure.metric in SPREADS and side.value is not None else side


def _wall(profile: Profile) -> float | None:
    """Return how long the whole run took, imports and compilation included; None for a bare profile."""
    return _number(profile.metadata.run.get("wall_ns"))


def peak_memory(profile: Profile) -> float | None:
    """Return the peak of the memory in use on a GPU, of the GPU with most; None where it is not recorded."""
    recorded = _number(profile.metadata.run.get("peak_gpu_memory_bytes"))
    values = profile.require("devices").values("peak_memory_bytes")
    return max((float(value) for value in (*values, recorded) if value is not None), default=None)


def copies(profile: Profile) -> float | None:
    """Return how many copies and sets the counted steps made; None where the source has no such table."""
    table = profile.table("memory_ops")
    return None if table is None else int(counted(profile.metadata.window, table.numbers("iteration")).sum())


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


_RECORDED: Final = {"wall_ns": _wall, "peak_memory_bytes": peak_memory, "copies": copies}
"""Figures that `summary` does not hold, but that of a baseline."""


def change_of(first: Side, other: Side) -> Change:
    """Return how a figure differs that is what it is; of ranges that overlap nothing can be told."""
    ends, others = _ends(first), _ends(other)
    if ends is None or others is None:
        return Change("not known")
    if _is_point(ends) and _is_point(others):
        delta = others[0] - ends[0]
        same = abs(delta) <= SAME * max(abs(ends[0]), abs(ends[0] + delta))
        return Change("same" if same else "more" if delta > 0 else "less", *_delta(first, other))
    if others[0] <= ends[1] and ends[0] <= others[1]:
        return Change("cannot tell", why="ranges overlap")
    return Change("more" if others[0] > ends[1] else "less")


def _ends(side: Side) -> tuple[float, float] | None:
    """Return the range of a figure; of a bound it is open at one end; None where nothing is known."""
    if side.low is None and side.high is None:
        return None if side.value is None else (side.value, side.value)
    return (-math.inf if side.low is None else side.low, math.inf if side.high is None else side.high)


def _is_point(ends: tuple[float, float]) -> bool:
    most = max(abs(ends[0]), abs(ends[1]))
    return math.isfinite(most) and ends[1] - ends[0] <= SAME * most


def _delta(first: Side, other: Side) -> tuple[float | None, float | None]:
    """Return by how much a figure differs, and by how many percent."""
    if first.value is None or other.value is None:
        return None, None
    delta = other.value - first.value
    if abs(delta) <= SAME * max(abs(first.value), abs(other.value)):
        delta = 0.0
    return delta, 100.0 * delta / first.value if first.value else None


def _step(runs: Sequence[Run]) -> ComparedFigure:
    """Return the length of a step: of the steps that can be compared; where there are none, the headline of each.

    Those are of the kind that most runs have `FEWEST_STEPS` of, the first run among them: steps outside the profiler
    rather than under it, which slows them; never the ones with the others.
    """
    lengths = [step_lengths(run.profile) for run in runs]
    enough = {kind: [len(one[kind]) >= FEWEST_STEPS for one in lengths] for kind in lengths[0]}
    usable = [kind for kind, runs_with in enough.items() if runs_with[0] and any(runs_with[1:])]
    kind = max(usable, key=lambda kind: sum(enough[kind]), default=None)
    used = [one[kind] if kind and len(one[kind]) >= FEWEST_STEPS else np.zeros(0) for one in lengths]
    most = [max(map(len, one.values())) for one in lengths]
    sides = [
        Side(float(np.median(each)), *spread_of(each), f"median of {len(each)} steps {kind}")
        if len(each)
        else _side(run, _STEP)
        for run, each in zip(runs, used, strict=True)
    ]

    def change(number: int) -> Change:
        delta, pct = _delta(sides[0], sides[number])
        if delta is None:
            return Change("not known", why="no steps")
        if kind is None or not len(used[number]):
            pair = [_lacking(runs[n].profile, most[n]) for n in (0, number) if not len(used[n])]
            why: Why = min((one for one in pair if one is not None), key=str, default="steps differ")
            few = (most[0], most[number]) if why == "few steps" else None
            return Change("cannot tell", delta, pct, why=why, steps=few)
        return _judged(delta, pct, ratio_interval(used[0], used[number]), ("faster", "slower"), kind)

    return _compared(_STEP, sides, change)


def _lacking(profile: Profile, known: int) -> Why | None:
    """Return why steps of a run cannot be compared with any, of so many known ones; None where their kind differs."""
    if not known:
        return "no steps" if profile.value("step_time_ns") is None else "one figure"
    return "few steps" if known < FEWEST_STEPS else None


def _throughput(runs: Sequence[Run]) -> ComparedFigure:
    """Return the throughput, in the unit that all runs logged."""
    sides = [_side(run, _THROUGHPUT) for run in runs]
    rows = [run.profile.figure("throughput") for run in runs]
    units = {row["text"] for row in rows if row is not None and row["value"] is not None}
    unit = str(next(iter(units))) if len(units) == 1 and None not in units else ""

    def change(number: int) -> Change:
        if len(units) > 1:
            return Change("cannot tell", why="steps differ")
        delta, pct = _delta(sides[0], sides[number])
        if delta is None:
            return Change("not known")
        one, other = (logged_throughput(runs[n].profile) for n in (0, number))
        if one is None or other is None or not (one.quiet and other.quiet):
            return Change("cannot tell", delta, pct, why="steps differ")
        if min(len(one.values), len(other.values)) < FEWEST_STEPS:
            return Change("cannot tell", delta, pct, why="few steps")
        return _judged(delta, pct, ratio_interval(one.values, other.values, rounded=True), ("less", "more"))

    return _compared(_THROUGHPUT._replace(unit=unit), sides, change)


def _judged(
    delta: float,
    pct: float | None,
    interval: Interval | None,
    names: tuple[DifferenceKind, DifferenceKind],
    steps: StepsCompared = "outside the profiler",
) -> Change:
    """Return the change with what the interval says: below 0, above it, or neither."""
    if interval is None:
        return Change("cannot tell", delta, pct, why="no ratio")
    within = interval.low_pct <= 0.0 <= interval.high_pct
    difference = "within noise" if within else names[0] if interval.high_pct < 0.0 else names[1]
    return Change(difference, delta, pct, replace(interval, steps=steps))


def _causes(runs: Sequence[Run]) -> Iterator[ComparedFigure]:
    """Yield the time of each group of causes, the mean over the GPUs; their sum where a run does not tell them apart.

    Where all runs tell how long each cause takes of the window, that counts, else the summed time of kernels. Nothing
    can be told of a difference that kernels of unknown cause may explain, any part of whose time may be of the group.
    """
    tables = [run.profile.require("causes") for run in runs]
    known = [table for table in tables if len(table)]
    column = "sum_ns" if any(np.isnan(table.numbers("split_ns")).any() for table in known) else "split_ns"
    apart = all(None not in table.values("device") for table in known)
    times = [_by_group(table, column, apart) for table in tables]
    unknown = [each.get("unknown", 0.0) * run.share for run, each in zip(runs, times, strict=True)]
    for group in CAUSE_GROUPS if known else ():
        sides = [_cause_side(run, each, group) for run, each in zip(runs, times, strict=True)]
        if any(side.value for side in sides):
            more = [math.inf if math.isnan(ns) else ns for ns in unknown] if group in OF_KERNELS else [0.0] * len(runs)
            figure = _Figure(f"cause_{group}_ns", "ns", True if group in WASTED else None)
            yield _compared(figure, sides, partial(_cause_change, sides, more))


def _cause_change(sides: Sequence[Side], more: Sequence[float], number: int) -> Change:
    """Return how the time of a group differs, to whose time in each run so `more` may belong."""
    plain = change_of(sides[0], sides[number])
    first, other = (sides[n].value or 0.0 for n in (0, number))
    if plain.difference in ("more", "less") and other <= first + more[0] and first <= other + more[number]:
        return Change("cannot tell", why="ranges overlap")
    return plain


def _cause_side(run: Run, times: dict[CauseGroup, float], group: CauseGroup) -> Side:
    """Return the time of a group in one run: 0 where it has none, unknown where a part of it is, or no cause is."""
    unrecorded = group == "copy" and run.profile.table("memory_ops") is None and group not in times
    value = math.nan if not times or unrecorded else times.get(group, 0.0) * run.share
    return Side(None, reason=NOT_RECORDED) if math.isnan(value) else Side(value)


def _by_group(table: Table, column: str, mean: bool) -> dict[CauseGroup, float]:
    """Return the time of each group that occurs, the mean over the GPUs or their sum; NaN where a part is unknown."""
    groups: dict[CauseGroup, list[float]] = {}
    times: FloatArray = table.numbers(column)
    gpus = max(len(set(table.values("device"))), 1) if mean else 1
    for cause, time in zip(table.values("cause"), times.tolist(), strict=True):
        groups.setdefault(GROUP_OF[cause], []).append(time)  # type: ignore[index]
    return {group: sum(sorted(each)) / gpus for group, each in groups.items()}
