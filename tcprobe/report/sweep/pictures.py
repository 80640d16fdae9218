"""What a browser draws of a sweep: the answer, how fast each combination is, and what the runs logged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.report.curves import Logged, curves_of
from tcprobe.report.document import First
from tcprobe.report.drawn import BarChart, BarLine, Curves, Part
from tcprobe.report.sweep import words
from tcprobe.schema.sweep import Speedup, SweepResult, SweepRow

MOST_BARS: Final = 24
LEGEND: Final = (("used", "fastest"), ("others", "times as fast as the baseline"), ("idle", "95 % interval"))


def first_of(result: SweepResult, head: tuple[str, ...]) -> First:
    """Return the first screen in its pieces: what was run, and the verdict."""
    first, *more = words.answer(result)
    what, where = head
    return First(((what, where),), (first, "", ""), "strong", tuple(more), "", "", (), (), (), "", "", "")


def speeds_of(result: SweepResult) -> BarChart | None:
    """Return how many times as fast as the baseline each combination is, with its interval; None of less than two."""
    known = [row for row in result.rows if _ratio(row.speedup)]
    if len(known) < 2:
        return None
    most = max(row.speedup.high or _ratio(row.speedup) for row in known)
    lines = tuple(_line(result, row, most) for row in known[:MOST_BARS])
    left = len(known) - MOST_BARS
    notes = (f"{left:,} more are in the table.",) if left > 0 else ()
    base = words.name_of(result.plan, result.plan.combination(result.plan.baseline))
    return BarChart(f"Times as fast as {base}", lines, LEGEND, 100.0 / most, notes)


def _ratio(speedup: Speedup) -> float:
    return speedup.ratio or (1.0 if speedup.difference == "same" else 0.0)


def _line(result: SweepResult, row: SweepRow, most: float) -> BarLine:
    speedup, tone = row.speedup, "used" if row.combination.number in result.fastest else "others"
    ratio = _ratio(speedup)
    told = speedup.low is not None and speedup.high is not None and speedup.difference != "same"
    low, high = (float(speedup.low or 0), float(speedup.high or 0)) if told else (ratio, ratio)
    text = words.judged(speedup)
    name = words.name_of(result.plan, row.combination)
    parts = [
        Part(name, 100.0 * low / most, tone, text),
        Part("95 %", 100.0 * (high - low) / most, "idle", words.span(speedup)),
    ]
    return BarLine(name, text, tuple(parts[: 1 + told]))


def curves_of_runs(result: SweepResult) -> Curves | None:
    """Return losses, accuracies and throughput step by step: of each combination the last run that has figures."""
    runs: dict[int, tuple[str, Logged]] = {run: (name, logged) for run, name, logged in _runs(result)}
    return curves_of(runs.values())


def _runs(result: SweepResult) -> Iterator[tuple[int, str, Logged]]:
    for number, run in enumerate(result.runs):
        if run.figures is None:
            continue
        logged = {
            name: sorted((step, value) for step, value in series.items() if step is not None)
            for name, series in run.figures.logged.items()
        }
        yield run.planned.combination, words.run_name(result, number), logged
