"""Find the step that launched a kernel, by the host's step marks, the groups in the file, and launch times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tcprobe.probe.constants import STEP_MARK
from tcprobe.readers.arrays import Ints
from tcprobe.readers.protobuf import Span
from tcprobe.readers.xspace.gpu import NONE, DeviceEvents
from tcprobe.readers.xspace.host import Mark
from tcprobe.schema.columns import FloatArray


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one host, in order of time.

    Attributes:
        number: of each step.
        mark: event that stands for it.
        renumbered: the marks' own numbers repeat, so the steps are numbered from 0.
    """

    number: tuple[int, ...]
    marks: tuple[Mark, ...]
    renumbered: bool = False


def choose_steps(marks: Sequence[Mark], spans: Sequence[Mapping[int, Span]] = ()) -> Steps:
    """Return the steps among `marks`: ours, Keras 2's `train`, any root with a step number, XProf's groups.

    Of several names in the best class the most frequent one counts. Where the host marks none, the spans count that
    the profiler derived from the activity of each GPU; the only step that it marks takes the bounds of its span.

    Args:
        marks: of the host.
        spans: of each GPU, group -> start and end in ns.
    """
    steps = _marked(marks)
    held = {group: _around([s[group] for s in spans if group in s]) for group in sorted({g for s in spans for g in s})}
    if not steps.marks:
        found = sorted((Mark("", None, False, group, *span) for group, span in held.items()), key=lambda m: m.start_ns)
        return Steps(tuple(m.group or 0 for m in found), tuple(found))
    only = steps.marks[0]
    if len(steps.marks) > 1 or only.group not in held:
        return steps
    start, end = held[only.group]
    return replace(steps, marks=(replace(only, start_ns=start, end_ns=end),))


def _around(spans: list[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)


def _marked(marks: Sequence[Mark]) -> Steps:
    classes = (
        [m for m in marks if m.step is not None and m.name == STEP_MARK],
        [m for m in marks if m.step is not None and m.name == "train" and m.root],
        [m for m in marks if m.step is not None and m.root],
        [m for m in marks if m.step is not None],
        [m for m in marks if m.group is not None],
    )
    found = next((c for c in classes if c), [])
    if not found:
        return Steps((), ())
    name = Counter(m.name for m in found).most_common(1)[0][0]
    chosen = sorted((m for m in found if m.name == name), key=lambda m: (m.start_ns, m.end_ns))
    numbers = [m.step if m.step is not None else m.group or 0 for m in chosen]
    repeats = len(set(numbers)) < len(numbers)
    return Steps(tuple(range(len(numbers)) if repeats else numbers), tuple(chosen), repeats)


def launch_times(launches: tuple[Ints, Ints], events: DeviceEvents) -> Ints:
    """Return the host time of the launch of each event, `NONE` where the file has none.

    Args:
        launches: as `Host.launches` returns them.
        events: of one GPU.
    """
    ids, times = launches
    if not len(ids) or not len(events):
        return np.full(len(events), NONE, np.int64)
    place = np.minimum(np.searchsorted(ids, events.correlation), len(ids) - 1)
    return np.where(ids[place] == events.correlation, times[place], NONE)


def iterations(steps: Steps, events: DeviceEvents, launch_ns: Ints) -> FloatArray:
    """Return the step of each event: by its stored group, else by its launch time; NaN for none.

    A launch between two steps belongs to the one before; one before the first step to none. A stored group that
    no step carries is work outside the steps.
    """
    out = np.full(len(events), np.nan)
    stored = events.group != NONE
    out[stored] = _by_group(steps, events.group[stored])
    timed = np.flatnonzero(~stored & (launch_ns != NONE))
    if len(timed) and steps.marks:
        starts = np.array([m.start_ns for m in steps.marks], np.int64)
        place = np.searchsorted(starts, launch_ns[timed], side="right") - 1
        out[timed] = np.where(place >= 0, np.array(steps.number, np.float64)[place], np.nan)
    return out


def _by_group(steps: Steps, group: Ints) -> FloatArray:
    pairs = {m.group: n for m, n in zip(steps.marks, steps.number, strict=True) if m.group is not None}
    if not pairs:
        return group.astype(np.float64)
    known = np.array(sorted(pairs), np.int64)
    place = np.minimum(np.searchsorted(known, group), len(known) - 1)
    number = np.array([pairs[g] for g in known.tolist()], np.float64)[place]
    return np.where(known[place] == group, number, np.nan)
