"""The timeline of a page: the lanes of a few steps as JSON in columns, which a script draws.

The words of a timeline: what its groups, lanes and slices are called.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from tcprobe.formatting import count, duration, shorten
from tcprobe.report.drawn import LaneChart
from tcprobe.report.run.verdict import ROW_WORDS
from tcprobe.schema.columns import IntArray
from tcprobe.schema.profile import Profile
from tcprobe.schema.timeline import Lane, LaneKind, Thing, Timeline
from tcprobe.schema.waits import HOST_WORK
from tcprobe.visible import shown

LANE_WORDS: Final[Mapping[LaneKind, str]] = {
    "phase": "phases", "iteration": "steps", "layer": "layers", "class": "what runs", "wait": "waits for",
    "stream": "stream", "range": "ranges of thread", "event": "work of thread",
}  # fmt: skip
STEP_WORDS: Final = {"counted": "counted", "left_out": "left out"}


def group_words(lane: Lane, timeline: Timeline) -> str:
    """Return whose lanes these are."""
    if lane.device is not None:
        name = timeline.gpus.get(lane.device)
        return f"GPU {lane.device}" + (f": {name}" if name else "")
    return "Steps" if lane.number is None else "Host"


def lane_words(lane: Lane) -> str:
    """Return the name of a lane, which no other lane of its group has."""
    which = "" if lane.number is None else f" {lane.number}" if lane.number != -1 else " (unknown)"
    return LANE_WORDS[lane.kind] + which + (f", beside {lane.part}" if lane.part else "")


def class_words(kind: LaneKind, thing: Thing) -> str | None:
    """Return what a slice is, in the words of the first screen; None where nothing tells."""
    if thing.of is None or kind in ("layer", "phase", "range"):
        return None
    if kind == "iteration":
        return STEP_WORDS[thing.of]
    words: Mapping[str, str] = HOST_WORK if kind in ("wait", "event") else ROW_WORDS  # type: ignore[assignment]
    return words[thing.of]


def slice_words(kind: LaneKind, thing: Thing) -> str:
    """Return the name of a slice: of a wait the cause, of a kernel, range or event its own."""
    more = dict(thing.more)
    if kind == "iteration":
        first, held = int(more["iteration"]), int(more["steps"])
        return f"step {first}" if held == 1 else f"steps {first} to {first + held - 1}"
    if kind == "phase":
        return f"phase {int(more['phase']) + 1}"
    if kind in ("wait", "class"):
        return class_words(kind, thing) or ""
    return thing.name or ""


MOST_SLICES: Final = 75_000  # of a page: about 0.5 MB
MORE: Final = "tcprobe report PATH --iter-start N --iter-stop N -o x.html has another step, -o x.pftrace everything"
MOST_LETTERS: Final = 400  # of a name or a fact; the tables have all of it
TONES: Final = {
    "misaligned": "slow",
    "slowly": "slow",
    "kernels": "others",
    "matmul": "others",
}
"""Rows of the bar that have the colour of another, by the page's style sheet."""
FACTS: Final = (
    "length",
    "op",
    "layer",
    "pass",
    "source",
    "grid",
    "block",
    "precision",
    "evidence",
    "size_bytes",
    "domain",
)


class Step(NamedTuple):
    """A step and its bounds."""

    name: str
    start_ns: int
    end_ns: int  # of one whose length is not known that of its mark
    timed: bool

    @property
    def text(self) -> str:
        return f"{self.name} ({duration(self.end_ns - self.start_ns) if self.timed else 'length unknown'})"


def chart_of(profile: Profile) -> LaneChart | None:
    """Return the timeline of the window, of as many counted steps as a page holds, or of the beginning of one."""
    timeline = profile.timeline
    if timeline is None or not any(len(lane) for lane in timeline.lanes if lane.kind not in ("iteration", "phase")):
        return None  # steps alone are bars already
    window, reported = profile.metadata.window, profile.value("window_ns")
    # where the profiler reports a longer step than it recorded, no slice is that step
    part = window.length_ns is not None and reported is not None and reported > window.length_ns
    if part:
        timeline = replace(timeline, lanes=tuple(lane for lane in timeline.lanes if lane.kind != "iteration"))
    steps, spans = _steps(timeline), [_Span(lane) for lane in timeline.lanes if len(lane)]
    if not spans:
        return None
    low = min(span.start[0] for span in spans) if window.start_ns is None else window.start_ns
    high = max(span.ends[-1] for span in spans) if window.end_ns is None else window.end_ns
    view = sorted(steps, key=lambda step: step.end_ns - step.start_ns)[(len(steps) - 1) // 2] if steps else None
    low, high, whole = _bounds(spans, steps, view, (int(low), int(high)))
    if profile.waiting is not None and profile.waiting.length == "marked step" and len(steps) == 1 and whole:
        steps = [view := Step(steps[0].name, low, high, True)]  # as long as the step time says
    inside = [step for step in steps if step.start_ns >= low and step.end_ns <= high]
    data = _Columns(timeline, low, high)
    what = f"{inside[0].name} to {inside[-1].name}" if len(inside) > 1 else inside[0].name if inside else "the capture"
    if not whole:  # a page holds no more of it
        what = f"the beginning of {view.name if view else what}"
    what, length = f"in {what}", duration(high - low)
    if part and whole:
        what, length = "between the first and the last kernel", f"{length} of {duration(reported)}"
    first = view if view in inside else None
    picture = {
        "span": high - low,
        "view": [0, high - low] if first is None else [first.start_ns - low, first.end_ns - low],
        "steps": [[step.text, step.start_ns - low, step.end_ns - low] for step in inside],
        **data.columns(),
    }
    size = f"{count(data.slices)} slices in {len(data.lanes)} lanes"
    text = f"What ran when {what} ({length}): {size}."
    if not whole or len(inside) < len(steps):
        text += f" A page holds {MOST_SLICES:,}: {MORE}."
    return LaneChart("Timeline", text, json.dumps(picture, separators=(",", ":")).encode(), tuple(data.legend.items()))


def _steps(timeline: Timeline) -> list[Step]:
    return [
        Step(slice_words("iteration", thing), start, start + length, ("length", "unknown") not in thing.more)
        for lane in timeline.lanes
        if lane.kind == "iteration"
        for start, length, thing in zip(
            lane.start_ns.tolist(),
            lane.duration_ns.tolist(),
            (lane.things[t] for t in lane.thing.tolist()),
            strict=True,
        )
        if thing.of == "counted"
    ]


class _Span:
    """When the slices of a lane begin and end, each in order."""

    def __init__(self, lane: Lane) -> None:
        self.start = lane.start_ns
        self.ends = np.sort(lane.start_ns + lane.duration_ns)

    def within(self, low: int, high: int) -> int:
        """Return how many slices lie in a time, as a whole or in part."""
        return int(np.searchsorted(self.start, high) - np.searchsorted(self.ends, low, side="right"))


def _bounds(
    spans: Sequence[_Span], steps: list[Step], view: Step | None, window: tuple[int, int]
) -> tuple[int, int, bool]:
    """Return the time that a page shows, and whether that is whole: the window, steps around one, or part of it."""

    def fits(low: int, high: int) -> bool:
        return sum(span.within(low, high) for span in spans) <= MOST_SLICES

    low, high = window
    if fits(low, high):
        return low, high, True
    if view is not None:
        low, high, at = view.start_ns, view.end_ns, steps.index(view)
    if view is not None and fits(low, high):
        for step in (*reversed(steps[:at]), *steps[at + 1 :]):
            wider = min(low, step.start_ns), max(high, step.end_ns)
            if fits(*wider):
                low, high = wider
        return low, high, True
    shortest, longest = low, high
    while longest - shortest > 1:
        middle = (shortest + longest) // 2
        shortest, longest = (middle, longest) if fits(low, middle) else (shortest, middle)
    return low, max(shortest, low + 1), False


class _Columns:
    """The lanes of a time, what their slices are, and the words of these."""

    def __init__(self, timeline: Timeline, low: int, high: int) -> None:
        self.timeline, self.low, self.slices = timeline, low, 0
        self.strings, self.legend = dict[str, int](), dict[str, str]()
        self.things, self.codes = list[tuple[int, str, list[int]]](), dict[tuple[LaneKind, Thing], int]()
        self.lanes = [made for lane in timeline.lanes if (made := self._lane(lane, high)) is not None]

    def columns(self) -> dict[str, Any]:
        return {"strings": list(self.strings), "things": self.things, "lanes": self.lanes}

    def _string(self, text: str) -> int:
        text = shown(shorten(text, MOST_LETTERS))
        return self.strings.setdefault(text, len(self.strings))

    def _lane(self, lane: Lane, high: int) -> dict[str, Any] | None:
        end = lane.start_ns + lane.duration_ns
        rows = np.flatnonzero((lane.start_ns < high) & (end > self.low) | (lane.start_ns == self.low))
        if not len(rows):
            return None
        self.slices += len(rows)
        used = sorted(set(lane.thing[rows].tolist()))
        codes = {place: self._thing(lane.kind, lane.things[place]) for place in used}
        start: IntArray = lane.start_ns[rows] - self.low
        made: dict[str, Any] = {
            "group": self._string(group_words(lane, self.timeline)),
            "name": self._string(lane_words(lane)),
            "start": np.diff(start, prepend=0).tolist(),
            "spent": lane.duration_ns[rows].tolist(),
            "thing": [codes[place] for place in lane.thing[rows].tolist()],
        }
        return made | ({"depth": lane.depth[rows].tolist()} if lane.depth[rows].any() else {})

    def _thing(self, kind: LaneKind, thing: Thing) -> int:
        """Return the number of what a slice is: its name, its tone, and what is known of it."""
        if (kind, thing) in self.codes:
            return self.codes[kind, thing]
        told, more, tone = class_words(kind, thing), dict(thing.more), ""
        if kind in ("class", "stream"):
            tone = TONES.get(str(thing.of), str(thing.of))
            self.legend.setdefault(str(thing.of), told or "")
        elif kind in ("wait", "iteration"):
            tone = "others" if thing.of == "counted" else "idle"
        name = slice_words(kind, thing)
        facts = [
            told if told != name else None,
            f"kind: {thing.kind}" if thing.kind else None,
            thing.name if kind == "wait" else None,
        ]
        facts += [f"{name}: {more[name]}" for name in FACTS if name in more]
        if more.get("basis"):
            facts.insert(1, f"basis: {more['basis']}")
        record = self._string(name), tone, [self._string(fact) for fact in facts if fact]
        self.things.append(record)
        self.codes[kind, thing] = len(self.things) - 1
        return len(self.things) - 1
