"""What a browser draws: pictures as places and lengths of 100, worked out before a template writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Drawn(Struct, frozen=True):
    """A picture: text, Markdown and files for programs leave it out, as tables hold its figures."""


class Part(Struct, frozen=True):
    """A part of a whole that is drawn."""

    label: str
    pct: float  # of the whole, 0-100
    tone: str  # what it is, for its colour: a kind of row of the bar (`tcprobe.schema.screen.RowKind`)
    text: str = ""  # its time
    share: str = ""  # `pct` as shown
    detail: str = ""  # what it consists of


class Ring(Struct, frozen=True):
    """A share, drawn as a ring."""

    label: str
    text: str  # the share as shown
    parts: tuple[Part, ...]  # they add up to 100


class Rings(Drawn, frozen=True):
    """Shares as rings, and figures beside them as (label, text) pairs."""

    rings: tuple[Ring, ...]
    figures: tuple[tuple[str, str], ...] = ()


class Column(Struct, frozen=True):
    """One bar of a chart."""

    label: str  # what a pointer over it shows
    counted: bool
    parts: tuple[tuple[str, float], ...]  # (tone, length), from the bottom up


class Columns(Drawn, frozen=True):
    """A chart of upright bars, those that do not count, or whose whole length is unknown, in grey."""

    title: str
    bars: tuple[Column, ...]
    legend: tuple[tuple[str, str], ...]  # (tone, what it is)
    height: float  # of the chart, in the unit of lengths; higher bars are cut
    unit: str  # that height, as shown
    notes: tuple[str, ...] = ()
    # what a script needs for the figures of other steps than those that count; None where a page cannot tell them
    steps: Mapping[str, Any] | None = None


class Branch(Struct, frozen=True):
    """A part of a tree that is drawn, and where: parts of it stand below it."""

    label: str
    text: str  # what a pointer over it shows
    depth: int  # from 0
    # start, length: of the whole tree's, 0-100.
    start: float
    length: float
    share: float  # of it that has the colour of what is good, 0-1


class Tree(Drawn, frozen=True):
    """Parts of parts, as wide as they are long."""

    title: str
    branches: tuple[Branch, ...]
    depth: int  # how many stand below one another
    notes: tuple[str, ...] = ()


class LaneChart(Drawn, frozen=True):
    """Slices of time in lanes, which a script draws."""

    title: str
    text: str  # what it shows
    data: bytes  # JSON; see `tcprobe.report.run.timeline`
    legend: tuple[tuple[str, str], ...]  # (tone, what it is)


class BarLine(Struct, frozen=True):
    """One of several bars that lie below one another."""

    label: str
    text: str  # its figure, at the end of the line
    parts: tuple[Part, ...]  # of the whole width; they follow one another
    start: float = 0.0  # where the first begins, 0-100


class BarChart(Drawn, frozen=True):
    """Bars on one scale, from the left, or to both sides of a middle."""

    title: str
    lines: tuple[BarLine, ...]
    legend: tuple[tuple[str, str], ...] = ()  # (tone, what it is)
    middle: float | None = None  # where a line stands for no difference, 0-100
    notes: tuple[str, ...] = ()


class Point(Struct, frozen=True):
    """A thing with two figures."""

    name: str  # as its table has it
    text: str  # what a pointer over it shows
    # x, y: 0-100, from the left and from the bottom.
    x: float
    y: float
    size: float  # of the largest, 0-1, by area
    tone: str


class Ceiling(Struct, frozen=True):
    """A straight line that no point is above, and where it begins and ends, 0-100."""

    label: str
    x1: float
    y1: float
    x2: float
    y2: float


class Roofline(Drawn, frozen=True):
    """Ops by what they compute for each byte and how fast, below what the GPU can do; both scales are logarithmic."""

    title: str
    points: tuple[Point, ...]  # the largest first
    ceilings: tuple[Ceiling, ...]
    # across, up: (place, text) of the marks of each scale.
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    axes: tuple[str, str]  # what the scales are of
    legend: tuple[tuple[str, str], ...]  # (tone, what it is)
    notes: tuple[str, ...] = ()


class Series(Struct, frozen=True):
    """One curve: what was logged, step by step."""

    label: str
    steps: tuple[int, ...]  # ascending
    values: tuple[float | None, ...]  # None where it is no finite number
    last: str  # the last of them, as shown


class CurveChart(Struct, frozen=True):
    """Curves of one figure on one scale."""

    title: str
    series: tuple[Series, ...]


class Curves(Drawn, frozen=True):
    """Charts of curves beside one another, which a script lets a reader look into."""

    title: str
    charts: tuple[CurveChart, ...]
    notes: tuple[str, ...] = ()
