"""The geometry of pictures: numbers for the attributes of SVG, which a policy against styles leaves alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from tcprobe.report.document import Column, Columns, Part

AROUND: Final = 100.0  # length of a ring's circle
SMALLEST: Final = 0.2  # of 100: what is drawn at all
STEP: Final = 10  # width of a bar with the gap beside it
HEIGHT: Final = 120
ROW: Final = 24  # height of a layer of a tree, in pixels


class Placed(NamedTuple):
    """A part of a bar or ring, and where it begins, both of 100."""

    part: Part
    start: float
    length: float


class Area(NamedTuple):
    """All bars of one tone, counted or not, as one path."""

    tone: str
    counted: bool
    path: str


def placed(parts: Iterable[Part]) -> list[Placed]:
    """Return where each part of a whole begins."""
    drawn = [part for part in parts if part.pct >= SMALLEST]
    starts = accumulate((part.pct for part in drawn), initial=0.0)
    return [Placed(part, round(start, 2), round(part.pct, 2)) for part, start in zip(drawn, starts, strict=False)]


def areas(chart: Columns) -> list[Area]:
    """Return the paths of a chart, `STEP` wide for each bar and `HEIGHT` high; what is higher is cut."""
    paths: dict[tuple[str, bool], list[str]] = {}
    for at, bar in enumerate(chart.bars):
        for tone, path in _bar(bar, at, HEIGHT / chart.height):
            paths.setdefault((tone, bar.counted), []).append(path)
    return [Area(tone, counted, "".join(path)) for (tone, counted), path in paths.items()]


def _bar(bar: Column, at: int, scale: float) -> Iterator[tuple[str, str]]:
    top = float(HEIGHT)
    for tone, length in bar.parts:
        high = min(length * scale, top)
        top -= high
        if high > 0:
            yield tone, f"M{STEP * at},{top:.1f}h{STEP - 2}v{high:.1f}h-{STEP - 2}z"
