"""What a capture without steps consists of: a start-up that is cut off, and stretches in which the GPU is as busy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.phases import leading_slow
from tcprobe.analysis.units import Found
from tcprobe.grouping import covered_until, distinct_numbers, merged
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import STRETCHES
from tcprobe.schema.waits import StartUp

WORTH: Final = 0.1  # of the capture, which a start-up takes at least
LITTLE: Final = 0.1  # of the kernels, which it may hold: else it is a part of the run
SOME: Final = 0.25  # of their time: what is tried once takes long
LONG_NS: Final = 1e9  # without a kernel
BINS: Final = 256
UNLIKE_PCT: Final = 20.0  # between the busy shares of two stretches
EXPLAINED: Final = 0.5  # of the variance of busy shares, by two levels in place of one
SHORTEST: Final = 0.2  # of the capture, of a stretch
NEAR: Final = 0.05  # of the capture: where a pause is looked for that parts two stretches


# --- start-up -------------------------------------------------------------------------------------------------


def without_start_up(profile: Profile, units: Sequence[Found]) -> Profile:
    """Return the profile without the launches and copies of its start-up, and with what that was; itself without one.

    It ends where the first unit begins that repeats, those left out that are slow at first, else after a pause of a
    second or more at the beginning. Where steps are marked, these tell what counts.

    Args:
        profile: with its launches.
        units: that repeat in it, the one of most launches first.
    """
    launches, copies, window = profile.require("launches"), profile.table("memory_ops"), profile.metadata.window
    marked = len(profile.require("step_marks")) or not np.isnan(launches.numbers("iteration")).all()
    if marked or not len(launches) or window.start_ns is not None or "serialises_kernels" in profile.traits:
        return profile
    starts, spent = launches.numbers("start_ns"), launches.numbers("duration_ns")
    moved = starts[:0] if copies is None else copies.numbers("start_ns")
    begin, end = int(min(starts.min(), moved.min(initial=starts.min()))), int((starts + spent).max())
    first = profile.require("units").numbers("start_ns")
    until = int(first.min()) if units else _after_pause(launches, begin)
    before = starts < until
    few = before.mean() <= LITTLE and spent[before].sum() <= SOME * spent.sum()
    if few and units and first[0] == until:
        begins = starts[units[0].rows[units[0].repeats.starts]]
        slow = leading_slow(np.diff(begins).astype(np.float64))
        rare = slow <= max(1, LITTLE * len(begins)) and spent[starts < begins[slow]].sum() <= SOME * spent.sum()
        until = int(begins[slow]) if slow and rare else until
    if not few or until - begin < WORTH * (end - begin):
        return profile
    before, over = starts < until, moved < until
    cut = StartUp(until - begin, int(before.sum()), int(over.sum()), "units" if units else "pause")
    kept = [launches.take(~before), *([] if copies is None else [copies.take(~over)])]
    return replace(profile.with_tables(*kept), start_up=cut)


def _after_pause(launches: Table, begin: int) -> int:
    """Return when the first kernel ran after the last long pause before which few ran; the beginning without one."""
    starts, ends = _spans(launches)
    gaps = starts - np.append(begin, ends[:-1])
    at = np.flatnonzero(gaps >= LONG_NS)
    few = np.searchsorted(np.sort(launches.numbers("start_ns")), starts[at]) <= LITTLE * len(launches)
    return int(starts[at[few][-1]]) if few.any() else begin


def _spans(launches: Table) -> tuple[IntArray, IntArray]:
    """Return when kernels ran: starts and ends of stretches without a pause, ascending."""
    start = launches.numbers("start_ns")
    return merged(start, start + launches.numbers("duration_ns"))


# --- stretches of unlike busyness -----------------------------------------------------------------------------


def stretch_table(profile: Profile) -> Table | None:
    """Return the table `stretches`; None where each GPU is as busy throughout, or steps tell the phases."""
    launches = profile.require("launches")
    if profile.counted_steps is not None or not len(launches) or "serialises_kernels" in profile.traits:
        return None
    rows: list[dict[str, Any]] = []
    devices = launches.numbers("device").astype(np.int64)
    for device in distinct_numbers(devices).tolist():
        mine = launches.take(devices == device)
        starts, ends = _spans(mine)
        parts = np.array(list(_parts(starts, ends)), np.int64).reshape(-1, 2)
        if len(parts) < 2 or (parts[:, 1] <= parts[:, 0]).any():  # a clock may give kernels no length
            continue
        ran = np.diff(covered_until(parts.ravel(), starts, ends).reshape(-1, 2), axis=1)[:, 0]
        busy = 100.0 * ran / (parts[:, 1] - parts[:, 0])
        if (np.abs(np.diff(busy)) < UNLIKE_PCT).any():  # nothing but a pause parts them
            continue
        begun = np.diff(np.searchsorted(np.sort(mine.numbers("start_ns")), parts), axis=1)[:, 0]
        for (low, high), count, share in zip(parts.tolist(), begun.tolist(), busy.tolist(), strict=True):
            rows.append({"device": device, "start_ns": low, "end_ns": high, "launches": count, "busy_pct": share})
    return Table.from_rows(STRETCHES, rows) if rows else None


def _parts(starts: IntArray, ends: IntArray) -> Iterator[tuple[int, int]]:
    """Yield the stretches of one GPU, from the first kernel of each to the end of its last."""
    edges = np.linspace(starts[0], ends[-1], BINS + 1)
    if edges[1] <= edges[0]:
        return
    busy = 100.0 * np.diff(covered_until(edges, starts, ends)) / np.diff(edges)
    pauses, middle, at = starts[1:] - ends[:-1], (starts[1:] + ends[:-1]) / 2, 0
    for cut in _cuts(busy, 0):
        away = np.abs(middle - edges[cut])
        near = away <= NEAR * (edges[-1] - edges[0])
        long = near & (pauses >= pauses[near].max(initial=0) / 2)
        gap = int(np.argmin(np.where(long, away, np.inf) if near.any() else away)) if len(away) else -1
        if gap < at:
            continue  # no pause parts them
        yield int(starts[at]), int(ends[gap])
        at = gap + 1
    yield int(starts[at]), int(ends[-1])


def _cuts(busy: FloatArray, first: int) -> list[int]:
    """Return where busy shares change for long, ascending."""
    least, count = round(SHORTEST * BINS), len(busy)
    if count < 2 * least:
        return []
    sums, places = np.cumsum(busy), np.arange(least, count - least + 1)
    before, after = sums[places - 1] / places, (sums[-1] - sums[places - 1]) / (count - places)
    between = places * (count - places) / count * (after - before) ** 2
    best = int(np.argmax(between))
    unlike = abs(after[best] - before[best]) >= UNLIKE_PCT
    if not unlike or between[best] < EXPLAINED * float(((busy - busy.mean()) ** 2).sum()):
        return []
    cut = int(places[best])
    return [*_cuts(busy[:cut], first), first + cut, *_cuts(busy[cut:], first + cut)]
