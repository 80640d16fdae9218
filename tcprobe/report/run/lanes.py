"""The words of a timeline: what its groups, lanes and slices are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tcprobe.report.run.verdict import ROW_WORDS
from tcprobe.schema.timeline import Lane, LaneKind, Thing, Timeline
from tcprobe.schema.waits import HOST_WORK

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
