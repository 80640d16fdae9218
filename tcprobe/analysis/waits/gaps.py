"""Build `waits`, `gaps` and `copies`; tell what ran around long stretches without a kernel, and what the host did.

Sum the copies and sets of each kind: device time, bytes, rate, and the time in which no kernel hides them.

Sum what the host did while a GPU ran no kernel: rows that add up to all of that time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.waits.idle import KINDS, WORK, Gpu, gpu_of, host_of, names_of
from tcprobe.analysis.waits.moments import Moments, moments_of
from tcprobe.analysis.waits.tuning import TunedCalls
from tcprobe.grouping import Codes, count_by, distinct_numbers, distinct_rows, merged, sum_by
from tcprobe.schema.columns import IntArray, Names, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import COPIES, GAPS, WAITS
from tcprobe.schema.waits import MOST_GAPS, SHORT_NS


def build_copies(profile: Profile, gpus: list[Gpu]) -> Table:
    """Return `copies`: of copies and sets that begin within the window, by GPU and kind, the longest first."""
    window, steps = profile.metadata.window, profile.kernel_steps
    low, high = window.start_ns or 0, window.end_ns or 0
    memory = profile.require("memory_ops")
    start = memory.numbers("start_ns").astype(np.int64)
    memory = memory.take((start >= low) & (start < high))
    start, length = (memory.numbers(name).astype(np.int64) for name in ("start_ns", "duration_ns"))
    kinds, size = memory.names("kind"), memory.numbers("size_bytes").astype(np.float64)
    (device, kind), group = distinct_rows(memory.numbers("device"), kinds.ids)
    calls, total = count_by(group, len(device)), sum_by(group, length, len(device))
    rows = list[Row]()
    for place in range(len(device)):
        mine = group == place
        ns, sizes = int(total[place]), size[mine]
        moved = None if np.isnan(sizes).any() else int(sizes.sum())
        gpu = next((one for one in gpus if one.device == device[place]), None)
        alone = None if gpu is None else _alone(gpu, start[mine], (start + length)[mine])
        row: Row = {"device": int(device[place]), "kind": kinds.names[kind[place]], "calls": int(calls[place])}
        rate = moved / ns * 1e9 if moved is not None and ns else None
        row |= {"size_bytes": moved, "sum_ns": ns, "bytes_per_s": rate}
        row |= {"idle_ns": alone, "step_ns": alone / steps if alone is not None and steps else None}
        rows.append(row)
    return Table.from_rows(COPIES, sorted(rows, key=lambda row: (-int(row["sum_ns"] or 0), str(row["kind"]))))


def _alone(gpu: Gpu, start: IntArray, end: IntArray) -> int:
    """Return how long at least one of these copies ran while the GPU ran no kernel."""
    spans = merged(start, end)  # copies side by side are one
    idle = np.append(0, np.cumsum(gpu.idle.length_ns))

    def until(times: IntArray) -> IntArray:
        """Return how long the GPU has run no kernel by these times."""
        place = np.searchsorted(gpu.idle.start_ns, times, side="right")
        last = np.maximum(place - 1, 0)
        beyond = np.where(place > 0, np.maximum(np.append(gpu.idle.end_ns, 0)[last] - times, 0), 0)
        waited: IntArray = idle[place] - np.minimum(beyond, np.append(gpu.idle.length_ns, 0)[last])
        return waited

    return int((until(spans[1]) - until(spans[0])).sum())


LEAST_NAMED: Final = 0.01  # of a GPU's idle time: what an event or a range below it tells is summed without its name


def build_waits(profile: Profile, gpus: list[tuple[Gpu, Moments]]) -> Table:
    """Return `waits`.

    Where the profiler reports longer steps than it recorded, what passes outside the recorded window is unknown.
    """
    ops, steps = profile.require("op_details").names("op"), profile.kernel_steps
    recorded, rows = profile.metadata.window.length_ns or 0, list[Row]()
    windows = {row["device"]: int(row["window_ns"] or 0) for row in profile.active_gpus}
    for gpu, moments in gpus:
        found = [*_rows(names_of(gpu, ops), moments)]
        if (beyond := windows.get(gpu.device, 0) - recorded) > 0:
            found.append({"host_work": "unknown", "short": False, "stretches": 1, "idle_ns": beyond})
        idle = sum(int(row["idle_ns"] or 0) for row in found)
        for row in found:
            spent = int(row["idle_ns"] or 0)
            row |= {
                "device": gpu.device,
                "share_pct": 100.0 * spent / idle,
                "step_ns": spent / steps if steps else None,
            }
        rows += sorted(found, key=_order)
    return Table.from_rows(WAITS, rows)


def _order(row: Row) -> tuple[int, str, str, str]:
    return -int(row["idle_ns"] or 0), str(row["host_work"]), str(row.get("host_op")), str(row.get("range"))


def _rows(names: Names, moments: Moments) -> Iterator[Row]:
    name, around = (np.append(names.ids, -1)[codes] for codes in (moments.name, moments.range))
    fixed = moments.work, moments.short.astype(np.int64)
    least = LEAST_NAMED * int(moments.ns.sum())
    # a range that tells by itself what is known is its own evidence
    around = np.where(moments.work == WORK["range"], -1, around)
    for _ in range(2):  # what several small ones leave without a range may be small with their name too
        keys, group = distinct_rows(*fixed, name, around)
        small = sum_by(group, moments.ns, len(keys[0])) < least
        around = np.where(small[group], -1, around)
        keys, group = distinct_rows(*fixed, name, around)
        small = sum_by(group, moments.ns, len(keys[0])) < least
        name = np.where(small[group], -1, name)
    (work, short, op, outer), group = distinct_rows(*fixed, name, around)
    total = sum_by(group, moments.ns, len(work))
    counts = _stretches(group, moments, len(work))
    for row in range(len(work)):
        yield {
            "host_work": KINDS[work[row]],
            "short": bool(short[row]),
            "host_op": None if op[row] < 0 else names.names[op[row]],
            "range": None if outer[row] < 0 else names.names[outer[row]],
            "stretches": int(counts[row]),
            "idle_ns": int(total[row]),
        }


def _stretches(group: Codes, moments: Moments, count: int) -> list[int]:
    (groups, _), _ = distinct_rows(group, moments.stretch)
    return [int(n) for n in count_by(groups, count)]


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
