"""The geometry of pictures: numbers for the attributes of SVG, which a policy against styles leaves alone."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

from tcprobe import formatting as f
from tcprobe.report.drawn import Column, Columns, CurveChart, Part, Series

AROUND: Final = 100.0  # length of a ring's circle
SMALLEST: Final = 0.2  # of 100: what is drawn at all
STEP: Final = 10  # width of a bar with the gap beside it
HEIGHT: Final = 120
LONG: Final = 48  # characters of a name from which on its middle is hidden
TAIL: Final = 20  # of them stand behind the gap
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


class Lines(NamedTuple):
    """The curves of a chart: for a script, and as paths in a field of 1000 by 100."""

    data: list[dict[str, Any]]
    paths: list[str]
    text: str  # from where to where the scales go


def ends(name: str) -> tuple[str, str]:
    """Return a name in two pieces, between which a browser leaves out what it has no room for; a short one whole."""
    return (name[:-TAIL], name[-TAIL:]) if len(name) > LONG else (name, "")


def packed(data: bytes) -> str:
    """Return data as the script that draws it unpacks them: deflated (zlib), in base64."""
    return base64.b64encode(zlib.compress(data)).decode()


def placed(parts: Iterable[Part], first: float = 0.0) -> list[Placed]:
    """Return where each part of a whole begins, the first of them at `first`."""
    drawn = [part for part in parts if part.pct >= SMALLEST]
    starts = accumulate((part.pct for part in drawn), initial=first)
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


def lines(chart: CurveChart) -> Lines:
    """Return the curves of a chart on one scale."""
    steps = [step for one in chart.series for step in one.steps]
    values = [value for one in chart.series for value in one.values if value is not None] or [0.0]
    first, last, low, high = min(steps), max(steps), min(values), max(values)
    scale = 1000.0 / ((last - first) or 1), 100.0 / ((high - low) or 1.0)
    paths = [_path(one, (first, high), scale) for one in chart.series]
    data = [{"label": one.label, "steps": one.steps, "values": one.values} for one in chart.series]
    ends = f"{f.full_number(low, 4)} to {f.full_number(high, 4)}" if high > low else f.full_number(low, 4)
    return Lines(data, paths, f"{ends}, steps {first:,} to {last:,}")


def _path(one: Series, origin: tuple[int, float], scale: tuple[float, float]) -> str:
    """Return a curve as a path that begins anew behind each value that is no number."""
    made, before = [], False
    for step, value in zip(one.steps, one.values, strict=True):
        if value is not None:
            x, y = (step - origin[0]) * scale[0], (origin[1] - value) * scale[1]
            made.append(f"{'L' if before else 'M'}{x:.0f},{y:.1f}")
        before = value is not None
    return "".join(made)
