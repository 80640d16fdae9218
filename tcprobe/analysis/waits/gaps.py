"""Build `waits`, `gaps` and `copies`; tell what ran around long stretches without a kernel, and what the host did."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.analysis.waits.copies import build_copies
from tcprobe.analysis.waits.idle import KINDS, WORK, Gpu, gpu_of, host_of, names_of
from tcprobe.analysis.waits.moments import Moments, moments_of
from tcprobe.analysis.waits.table import build_waits
from tcprobe.analysis.waits.tuning import TunedCalls
from tcprobe.grouping import distinct_numbers
from tcprobe.schema.columns import IntArray, Names, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import GAPS
from tcprobe.schema.waits import MOST_GAPS, SHORT_NS

LEAST_OF_STEP: Final = 0.01
LEAST_OF_CAPTURE: Final = 0.0001  # of a capture without steps, which may hold thousands of them
MOST: Final = 0.5  # of the stretch: what takes less explains it no better than what is not recorded


def waits_and_gaps(profile: Profile, tuned: TunedCalls) -> tuple[Table | None, Table | None, Table | None]:
    """Return `waits`, `gaps` and `copies`; None where no clock tells when kernels ran.

    Args:
        profile: with its window and `waiting`.
        tuned: launches of autotuned calls.
    """
    window, launches = profile.metadata.window, profile.require("launches")
    if window.start_ns is None or window.end_ns is None or not len(launches):
        return None, None, None
    host, rows, gpus = host_of(profile), list[Row](), list[tuple[Gpu, Moments]]()
    bounds = window.start_ns, window.end_ns
    for device in distinct_numbers(launches.numbers("device")).tolist():
        gpu = gpu_of(profile, int(device), host, bounds, tuned.call)
        gpus.append((gpu, moments_of(gpu)))
        rows += _gaps(profile, *gpus[-1], bounds[1] - bounds[0])
    rows.sort(key=lambda row: (-int(row["duration_ns"] or 0), int(row["start_ns"] or 0)))
    copies = build_copies(profile, [gpu for gpu, _ in gpus])
    return build_waits(profile, gpus), Table.from_rows(GAPS, rows), copies


def _least(profile: Profile, span: int) -> float:
    """Return the length of the shortest gap worth a row."""
    step = profile.waiting
    if step is None or step.length == "capture":
        return max(SHORT_NS, LEAST_OF_CAPTURE * span)
    return max(SHORT_NS, LEAST_OF_STEP * step.step_ns)


def _gaps(profile: Profile, gpu: Gpu, moments: Moments, span: int) -> list[Row]:
    """Return the rows of the longest stretches of a GPU."""
    length = gpu.idle.length_ns
    long = np.flatnonzero(length >= _least(profile, span))
    long = long[np.argsort(-length[long], kind="stable")][:MOST_GAPS]
    names, launches = names_of(gpu, profile.require("op_details").names("op")), profile.require("launches")
    iterations = np.append(launches.numbers("iteration"), np.nan)
    found = []
    for place in long.tolist():
        before, after = int(gpu.idle.before[place]), int(gpu.idle.after[place])
        ended, begun = _around(gpu, place, launches.names("kernel"))
        steps = (float(iterations[row]) for row in (after, before))
        row: Row = {
            "device": gpu.device,
            "start_ns": int(gpu.idle.start_ns[place]),
            "duration_ns": int(length[place]),
            "iteration": next((int(step) for step in steps if step == step), None),
            "share_pct": 100.0 * int(length[place]) / span if span else 0.0,
            "after": ended,
            "before": begun,
        }
        found.append(row | _host_work(moments, place, names))
    return found


def _host_work(moments: Moments, place: int, names: Names) -> Row:
    """Return what the host did in most of a stretch, and the event that tells it."""
    mine = slice(*np.searchsorted(moments.stretch, [place, place + 1]).tolist())
    ns, work = moments.ns[mine], moments.work[mine]
    spent = np.bincount(work, ns, len(KINDS))
    best = int(spent.argmax())
    if best == WORK["unknown"] or spent[best] < MOST * ns.sum():
        return {"host_work": "unknown", "host_op": None, "host_ns": None}
    name, of_name = _costliest(moments.name[mine][work == best], ns[work == best])
    told = None if name < 0 else names[name]
    return {"host_work": KINDS[best], "host_op": told, "host_ns": of_name}


def _costliest(name: IntArray, ns: IntArray) -> tuple[int, int]:
    """Return the name that takes most of some moments, -1 where most of them have none, and how long."""
    spent = np.bincount(name + 1, ns)
    named = int(spent[1:].argmax()) + 1 if 2 * spent[0] <= ns.sum() else 0
    return named - 1, int(spent[named])


def _around(gpu: Gpu, place: int, kernels: Names) -> tuple[str | None, str | None]:
    """Return what ends before the wait and what starts after it.

    That is a copy within the gap where the GPU did nothing at all for most of the gap before or after it.
    """
    low, high = int(gpu.idle.start_ns[place]), int(gpu.idle.end_ns[place])
    after, before = (kernels[int(rows[place])] for rows in (gpu.idle.before, gpu.idle.after))
    start = gpu.copies.numbers("start_ns").astype(np.int64)
    end = start + gpu.copies.numbers("duration_ns").astype(np.int64)
    inside = np.flatnonzero((start < high) & (end > low))
    inside = inside[np.argsort(start[inside], kind="stable")]
    begins = np.append(start[inside].clip(low, high), high)
    ends = np.maximum.accumulate(np.append(low, end[inside].clip(low, high)))
    silent = int((begins - ends).argmax())
    if 2 * (begins[silent] - ends[silent]) < high - low:
        return after, before
    after = after if silent == 0 else _copy(gpu.copies, int(inside[silent - 1]))
    return after, before if silent == len(inside) else _copy(gpu.copies, int(inside[silent]))


def _copy(copies: Table, row: int) -> str:
    size = copies.numbers("size_bytes")[row]
    return f"{copies.names('kind')[row]}{'' if size != size else f' {int(size)} B'}"
