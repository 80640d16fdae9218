"""What a browser draws of a comparison: the answer, the runs' steps beside one another, what got faster and slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from tcprobe import formatting as f
from tcprobe.report.compare import screen
from tcprobe.report.compare.words import answer, time_change
from tcprobe.report.curves import Logged, curves_of, logged_of
from tcprobe.report.document import First, TextLine
from tcprobe.report.drawn import BarChart, BarLine, Drawn, Part
from tcprobe.report.run import about, pictures
from tcprobe.report.run.bar import title_of
from tcprobe.schema.comparison import ComparedRow, Comparison

MOST_BARS: Final = 10
MOST_RUNS: Final = 4  # that have a picture of what changed; the tables have all
MIDDLE: Final = 50.0
TONES: Final = (("used", "less time"), ("off", "more time"))


def first_of(comparison: Comparison, labels: Sequence[str]) -> First:
    """Return the first screen in its pieces: the runs, the answer, their verdicts, what else differs."""
    profiles = comparison.profiles
    said = (about.recorded(one, None if one.screen is None else one.screen.bar) for one in profiles)
    heads = tuple((f"{a}  {name}", text) for a, name, text in zip(labels, comparison.names, said, strict=True))
    verdict, *others = answer(comparison, labels)
    lines = (*screen.verdict_lines(comparison), *screen.predicted_lines(comparison, screen.UNLIMITED))
    differs = (f"Differs: {line.parts[-1].text}" for line in screen.setting_lines(comparison, None))
    more = (*others, *map(_text, lines), *differs)
    return First(heads, (verdict, "", ""), "strong", more, "", "", (), (), (), "", "", "")


def _text(line: TextLine) -> str:
    return " ".join("".join(part.text for part in line.parts).split())


def drawn_of(comparison: Comparison, labels: Sequence[str]) -> Iterator[Drawn]:
    """Yield the pictures of a comparison, as far as there is something to draw."""
    yield from filter(None, [_beside(comparison, labels)])
    for run in range(1, min(len(labels), MOST_RUNS + 1)):
        yield from filter(None, [_changed(comparison, labels, run)])
    logged: list[tuple[str, Logged]] = [
        (f"{label} {name}", logged_of(one.require("metrics")))
        for label, name, one in zip(labels, comparison.names, comparison.profiles, strict=True)
    ]
    yield from filter(None, [curves_of(logged)])


def _beside(comparison: Comparison, labels: Sequence[str]) -> BarChart | None:
    """Return where the step of each run goes, on one scale; None where one has no such bar, or one of other time."""
    found = [one.screen for one in comparison.profiles]
    bars = [one.bar for one in found if one is not None and one.bar is not None]
    if len(bars) < len(labels) or len({bar.of for bar in bars}) > 1:
        return None
    longest = max(bar.total_ns for bar in bars)
    lines, tones = list[BarLine](), dict[tuple[str, str], None]()
    for label, one, bar in zip(labels, found, bars, strict=True):
        assert one is not None
        parts = [replace(part, pct=part.pct * bar.total_ns / longest) for part in pictures.parts_of(one)]
        tones |= dict.fromkeys((part.tone, part.label) for part in parts)
        lines.append(BarLine(label, f.duration(bar.total_ns), tuple(parts)))
    return BarChart(title_of(bars[0]), tuple(lines), tuple(tones))


def _changed(comparison: Comparison, labels: Sequence[str], run: int) -> BarChart | None:
    """Return what of a run takes less and more time than in the first one: layers, else ops, else kernels."""
    kinds = ("layers", "ops", "kernels")
    what = next((kind for kind in kinds if any(row.changes[run - 1] for row in getattr(comparison, kind))), None)
    if what is None:
        return None
    rows: tuple[ComparedRow, ...] = getattr(comparison, what)
    changed = sorted((row for row in rows if row.changes[run - 1]), key=lambda row: -abs(_delta(row, run)))
    largest = abs(_delta(changed[0], run))
    lines = tuple(_line(row, run, largest) for row in changed[:MOST_BARS])
    whole = "a step" if comparison.per_step else "the whole captures"
    left = len(changed) - MOST_BARS
    notes = (f"{left:,} more changed less: the table has them.",) if left > 0 else ()
    title = f"{what.capitalize()} that got faster and slower, {labels[0]} to {labels[run]} (time in {whole})"
    return BarChart(title, lines, TONES, MIDDLE, notes)


def _delta(row: ComparedRow, run: int) -> float:
    return float(row.changes[run - 1] or 0.0)


def _line(row: ComparedRow, run: int, largest: float) -> BarLine:
    delta = _delta(row, run)
    length = MIDDLE * abs(delta) / largest
    sides = f"{f.duration(row.sides[0])} -> {f.duration(row.sides[run])}"
    part = Part(row.name, length, "used" if delta < 0 else "off", sides)
    start = MIDDLE - length if delta < 0 else MIDDLE
    return BarLine(row.name, time_change(row.sides[0], row.sides[run], delta), (part,), start)
