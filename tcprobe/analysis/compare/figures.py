"""Hold the headline figures of several runs side by side: each as it is, or as that of one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from tcprobe.analysis.compare.basis import Run
from tcprobe.analysis.compare.changes import (
    Steps,
    change_of,
    comparable_steps,
    step_change,
    throughput_change,
)
from tcprobe.analysis.iterations import counted
from tcprobe.analysis.summary.step_time import spread_of
from tcprobe.schema.changes.comparison import Change, ComparedFigure, Side
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.kinds import CAUSE_GROUPS, GROUP_OF, CauseGroup

NOT_RECORDED: Final = "the run does not record it"
COMMUNICATION: Final = "communication_kernel_time_ns"
"""`summary` has it only where there is some."""
OF_KERNELS: Final[frozenset[CauseGroup]] = frozenset({"well", "slowly", "used", "off", "never", "layout"})
"""Parts that kernels of unknown cause may belong to."""
WASTED: Final[frozenset[CauseGroup]] = frozenset({"slowly", "off", "layout", "copy", "idle"})
"""Parts of a step's bar of which less is better; of the others more may mean that another part became less."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of `summary`: its unit, whether less of it is better, and whether it is a sum over the window."""

    metric: str
    unit: str
    less_is_better: bool | None = None
    summed: bool = False


_STEP: Final = _Figure("step_time_ns", "ns", True)
_THROUGHPUT: Final = _Figure("throughput", "", False)
_WAITING: Final = (_Figure("idle_ns", "ns", True), _Figure("idle_pct", "pct", True))
_KERNEL_TIME: Final = _Figure("kernel_time_ns", "ns", True, True)
_FIRST: Final = (_Figure("gpu_busy_pct", "pct"),)
_THEN: Final = (
    _Figure("tc_kernel_time_pct", "pct", False),
    _Figure("tc_capable_time_pct", "pct", False),
    _Figure("coverage_pct", "pct", False),
    _KERNEL_TIME,
    _Figure("tc_time_ns", "ns", None, True),
    _Figure(COMMUNICATION, "ns", True, True),
    _Figure("memory_time_ns", "ns", True, True),
    _Figure("kernels", "count", None, True),
)
_LAST: Final = (
    _Figure("achieved_tflop_per_s", "tflop_per_s", False),
    _Figure("peak_pct", "pct", False),
    _Figure("flops_per_step", "count"),
    _Figure("bad_size_count", "count", True),
)


def figures_of(runs: Sequence[Run]) -> tuple[ComparedFigure, ...]:
    """Return the figures that some run has, most important first; sums over the window are of one step where known."""
    found = (
        _step(runs),
        _throughput(runs),
        _own(runs, _Figure("wall_ns", "ns", True), wall_of),
        *(_of_summary(runs, one) for one in _FIRST),
        *(_waiting(runs, one) for one in _WAITING),
        _own(runs, _Figure("peak_memory_bytes", "bytes", True), peak_memory_of),
        *(_of_summary(runs, one) for one in _THEN),
        _own(runs, _Figure("copies", "count"), copies_of),
        *_causes(runs),
        *(_of_summary(runs, one) for one in _LAST),
    )
    known = (one for one in found if any(s.value is not None or s.low is not None for s in one.sides))
    return tuple(known)


def wall_of(run: Run) -> float | None:
    """Return how long the whole run took, imports and compilation included; None for a bare profile."""
    return _number(run.profile.metadata.run.get("wall_ns"))


def peak_memory_of(run: Run) -> float | None:
    """Return the peak of the memory in use on a GPU, of the GPU with most; None where it is not recorded."""
    told = _number(run.profile.metadata.run.get("peak_gpu_memory_bytes"))
    values = run.profile.require("devices").numbers("peak_memory_bytes")
    known = [*values[~np.isnan(values)].tolist(), *(() if told is None else (told,))]
    return max(known) if known else None


def copies_of(run: Run) -> float | None:
    """Return how many copies and sets the counted steps made; None where the source has no such table."""
    table = run.profile.table("memory_ops")
    if table is None:
        return None
    return run.share * int(counted(run.profile.metadata.window, table.numbers("iteration")).sum())


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _side(run: Run, figure: _Figure) -> Side:
    """Return a figure of `summary`, that of a step where it is a sum, with its range."""
    row = run.profile.figure(figure.metric)
    if row is None:
        named = figure.metric == COMMUNICATION and len(run.profile.require("kernels"))
        return Side(0.0) if named else Side(None, reason=NOT_RECORDED)
    share = run.share if figure.summed else 1.0
    value, low, high = (None if row[key] is None else float(row[key] or 0) * share for key in ("value", "low", "high"))
    return Side(value, low, high, None if row["reason"] is None else str(row["reason"]))


def _compared(
    figure: _Figure, sides: Sequence[Side], change: Callable[[int], Change], unit: str | None = None
) -> ComparedFigure:
    changes = tuple(change(number) for number in range(1, len(sides)))
    return ComparedFigure(figure.metric, unit or figure.unit, tuple(sides), changes, figure.less_is_better)


def _of_summary(runs: Sequence[Run], figure: _Figure) -> ComparedFigure:
    sides = [_side(run, figure) for run in runs]
    return _compared(figure, sides, lambda number: change_of(sides[0], sides[number]))


def _own(runs: Sequence[Run], figure: _Figure, find: Callable[[Run], float | None]) -> ComparedFigure:
    sides = [Side(value, reason=None if value is not None else NOT_RECORDED) for value in map(find, runs)]
    return _compared(figure, sides, lambda number: change_of(sides[0], sides[number]))


def _step(runs: Sequence[Run]) -> ComparedFigure:
    """Return the length of a step: of the steps that can be compared; where there are none, the headline of each."""
    found = comparable_steps([run.profile for run in runs])
    sides = [_step_side(run, found, lengths) for run, lengths in zip(runs, found.lengths, strict=True)]
    return _compared(_STEP, sides, lambda number: step_change(found, number, sides))


def _step_side(run: Run, found: Steps, lengths: FloatArray) -> Side:
    if found.steps is None or not len(lengths):
        return _side(run, _STEP)
    return Side(float(np.median(lengths)), *spread_of(lengths), f"median of {len(lengths)} steps {found.steps}")


def _throughput(runs: Sequence[Run]) -> ComparedFigure:
    """Return the throughput, in the unit that all runs logged."""
    sides = [_side(run, _THROUGHPUT) for run in runs]
    rows = [run.profile.figure("throughput") for run in runs]
    units = {row["text"] for row in rows if row is not None and row["value"] is not None}
    unit = str(next(iter(units))) if len(units) == 1 and None not in units else ""

    def change(number: int) -> Change:
        if len(units) > 1:
            return Change("cannot tell", why="steps differ")
        return throughput_change(runs[0].profile, runs[number].profile, (sides[0], sides[number]))

    return _compared(_THROUGHPUT, sides, change, unit)


def _waiting(runs: Sequence[Run], figure: _Figure) -> ComparedFigure:
    """Return how long a GPU waits: that of a step is not held against that of a whole capture."""
    sides = [_side(run, figure) for run in runs]
    whole = [run.profile.waiting is not None and run.profile.waiting.length == "capture" for run in runs]

    def change(number: int) -> Change:
        found = change_of(sides[0], sides[number])
        if found.difference == "not known" or whole[0] == whole[number]:
            return found
        return Change("cannot tell", why="steps differ")

    return _compared(figure, sides, change)


def _causes(runs: Sequence[Run]) -> Iterator[ComparedFigure]:
    """Yield the time of each group of causes, the mean over the GPUs; their sum where a run does not tell them apart.

    Where all runs tell how long each cause takes of the window, that counts, else the summed time of kernels.
    """
    tables = [run.profile.require("causes") for run in runs]
    if not any(len(table) for table in tables):
        return
    known = [table for table in tables if len(table)]
    column = "split_ns" if not any(np.isnan(table.numbers("split_ns")).any() for table in known) else "sum_ns"
    apart = all(None not in table.values("device") for table in known)
    spent = [_by_group(table, column, apart) for table in tables]
    for group in CAUSE_GROUPS:
        sides = [_cause_side(run, times, group) for run, times in zip(runs, spent, strict=True)]
        if not any(side.value for side in sides):
            continue
        more = [
            float(np.nan_to_num(times.get("unknown", 0.0), nan=np.inf)) * run.share
            for run, times in zip(runs, spent, strict=True)
        ]
        figure = _Figure(f"cause_{group}_ns", "ns", True if group in WASTED else None)
        yield _compared(
            figure, sides, partial(_cause_change, sides, more if group in OF_KERNELS else [0.0] * len(runs))
        )


def _cause_change(sides: Sequence[Side], more: Sequence[float], number: int) -> Change:
    """Return how the known time of a group differs; nothing can be told where time of unknown cause may explain it.

    Args:
        sides: the time of the group in each run.
        more: time of kernels of unknown cause in each run, any part of which may be of the group.
        number: of the run.
    """
    found = change_of(sides[0], sides[number])
    ends = [(side.value or 0.0, (side.value or 0.0) + most) for side, most in zip(sides, more, strict=True)]
    (least, most), (low, high) = ends[0], ends[number]
    if found.difference in ("more", "less") and low <= most and least <= high:
        return Change("cannot tell", why="ranges overlap")
    return found


def _cause_side(run: Run, times: dict[CauseGroup, float], group: CauseGroup) -> Side:
    """Return the time of a group in one run: 0 where it has none, unknown where a part of it is, or no cause is."""
    blind = group == "copy" and run.profile.table("memory_ops") is None and group not in times
    if not times or blind:
        return Side(None, reason=NOT_RECORDED)
    value = times.get(group, 0.0) * run.share
    return Side(None, reason=NOT_RECORDED) if np.isnan(value) else Side(value)


def _by_group(table: Table, column: str, mean: bool) -> dict[CauseGroup, float]:
    """Return the time of each group that occurs, the mean over the GPUs or their sum."""
    found: dict[CauseGroup, list[float]] = {}
    times: FloatArray = table.numbers(column)
    gpus = max(len(set(table.values("device"))), 1) if mean else 1
    for cause, time in zip(table.values("cause"), times.tolist(), strict=True):
        found.setdefault(GROUP_OF[cause], []).append(time)  # type: ignore[index]
    return {group: sum(sorted(each)) / gpus for group, each in found.items()}
