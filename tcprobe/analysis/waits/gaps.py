"""List the long stretches in which a GPU ran no kernel, with what ran around them and what the host did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.threads import processes_of
from tcprobe.analysis.waits.host_work import Events, Evidence, events_of, host_work
from tcprobe.schema.columns import FloatArray, IntArray, Names, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import GAPS

MOST_ROWS: Final = 20  # of a GPU
LEAST_NS: Final = 100_000  # shorter ones are the pace at which the host launches kernels
LEAST_OF_STEP: Final = 0.01
LEAST_OF_CAPTURE: Final = 0.0001  # of a capture without steps, which may hold thousands of them
MOVES: Final = ("MemcpyH2D", "MemcpyD2H", "MemcpyP2P")


@dataclass(frozen=True, slots=True)
class _Gpu:
    """What one GPU ran, kernels in order of their starts.

    Attributes:
        launches: those of all GPUs.
        rows: its own rows there.
        start_ns, end_ns: of the kernels.
        until_ns: when all kernels that started until then had ended.
        copies: its rows of `memory_ops` that move data.
        events: what the host did, these copies included.
        ops: by `op_id`.
    """

    device: int
    launches: Table
    rows: IntArray
    start_ns: IntArray
    end_ns: IntArray
    until_ns: IntArray
    copies: Table
    events: Events
    ops: Names


@dataclass(frozen=True, slots=True)
class _Gap:
    """A stretch without a kernel: the rows of the launches around it, -1 where the window begins or ends."""

    start: int
    end: int
    before: int
    after: int


def build_gaps(profile: Profile, tuned: IntArray) -> Table | None:
    """Return `gaps`; None where no clock tells when kernels ran.

    Args:
        profile: with its window and `waiting`.
        tuned: for each launch the autotuned call of an op that it belongs to, -1 for none.
    """
    window, launches = profile.metadata.window, profile.require("launches")
    span = window.length_ns
    if window.start_ns is None or window.end_ns is None or span is None or not len(launches):
        return None
    rows, owners = list[Row](), _owners(profile)
    for device in sorted(set(launches.numbers("device").tolist())):
        gpu = _gpu(profile, int(device), owners)
        rows += [
            _row(gpu, gap, span, tuned) for gap in _gaps(gpu, window.start_ns, window.end_ns, _least(profile, span))
        ]
    return Table.from_rows(
        GAPS, sorted(rows, key=lambda row: (-int(row["duration_ns"] or 0), int(row["start_ns"] or 0)))
    )


def idle_of(profile: Profile) -> float | None:
    """Return the time of the window in which a GPU that ran kernels ran none, summed over those; None if unknown.

    Where the profiler reports longer steps than it recorded, of those: `gaps` then tells of a part of that time alone.
    """
    recorded, ran = profile.metadata.window.length_ns, _ran(profile)
    if recorded is None or ran is None:
        return None
    reported = np.nan_to_num(_of_active(profile, "window_ns"))
    return float((np.maximum(reported, recorded) - ran).clip(min=0).sum())


def short_of(profile: Profile) -> float:
    """Return what of the recorded window passes without a kernel in stretches too short for `gaps`.

    0 where that is unknown, and where `gaps` leaves out longer stretches too.
    """
    recorded, ran, gaps = profile.metadata.window.length_ns, _ran(profile), profile.table("gaps")
    if recorded is None or ran is None or gaps is None or (np.bincount(gaps.numbers("device")) >= MOST_ROWS).any():
        return 0.0
    return max(0.0, float((recorded - ran).clip(min=0).sum()) - float(gaps.numbers("duration_ns").sum()))


def _ran(profile: Profile) -> FloatArray | None:
    """Return how long each GPU that ran kernels ran some; None where that is not known of one of them."""
    ran = _of_active(profile, "union_ns")
    return ran if len(ran) and not np.isnan(ran).any() else None


def _of_active(profile: Profile, column: str) -> FloatArray:
    devices = profile.require("devices")
    values: FloatArray = devices.numbers(column)[devices.names("state").among("active")]
    return values


def _least(profile: Profile, span: int) -> float:
    """Return the length of the shortest gap worth a row."""
    step = profile.waiting
    if step is None or step.length == "capture":
        return max(LEAST_NS, LEAST_OF_CAPTURE * span)
    return max(LEAST_NS, LEAST_OF_STEP * step.step_ns)


def _gpu(profile: Profile, device: int, owners: tuple[FloatArray, FloatArray]) -> _Gpu:
    launches = profile.require("launches")
    rows = np.flatnonzero(launches.numbers("device") == device)
    start = launches.numbers("start_ns")[rows].astype(np.int64)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        rows, start = rows[order], start[order]
    end = start + launches.numbers("duration_ns")[rows].astype(np.int64)
    memory = profile.require("memory_ops")
    moves = memory.take((memory.numbers("device") == device) & memory.names("kind").among(*MOVES))
    events = events_of(_of_gpu(profile.require("host_events"), owners, rows), moves)
    return _Gpu(
        device,
        launches,
        rows,
        start,
        end,
        np.maximum.accumulate(end),
        moves,
        events,
        profile.require("op_details").names("op"),
    )


def _owners(profile: Profile) -> tuple[FloatArray, FloatArray]:
    """Return the process of each launch and of each event of the host; where no process is known, the thread."""
    threads = [profile.require(name).numbers("thread").astype(np.float64) for name in ("launches", "host_events")]
    launched, host = (processes_of(profile, thread) for thread in threads)
    return (threads[0], threads[1]) if np.isnan(launched).all() else (launched, host)


def _of_gpu(host: Table, owners: tuple[FloatArray, FloatArray], rows: IntArray) -> Table:
    """Return the events of the host but those of processes, or of threads, that launch on other GPUs alone."""
    launched, mine = owners
    others = np.setdiff1d(launched[~np.isnan(launched)], launched[rows])
    return host.take(~np.isin(mine, others)) if len(others) else host


def _gaps(gpu: _Gpu, low: int, high: int, least: float) -> Iterator[_Gap]:
    """Yield the longest stretches from `low` to `high` without a kernel."""
    start = np.append(gpu.start_ns.clip(low, high), high)
    end = np.append(low, gpu.until_ns.clip(low, high))
    length = start - end
    long = np.flatnonzero(length >= least)
    for place in long[np.argsort(-length[long], kind="stable")][:MOST_ROWS].tolist():
        before = after = -1
        if place and gpu.until_ns[place - 1] > low:
            before = int(gpu.rows[np.flatnonzero(gpu.end_ns[:place] == gpu.until_ns[place - 1])[-1]])
        if place < len(gpu.start_ns) and gpu.start_ns[place] < high:
            after = int(gpu.rows[place])
        yield _Gap(int(end[place]), int(start[place]), before, after)


def _row(gpu: _Gpu, gap: _Gap, span: int, calls: IntArray) -> Row:
    length = gap.end - gap.start
    after, before = _around(gpu, gap)
    found = host_work(gpu.events, gap.start, gap.end)
    if found.work in ("unknown", "launch", "synchronise") and _tunes(gap, calls):
        found = Evidence("compile", gpu.ops[int(gpu.launches.numbers("op_id")[gap.after])], length)
    iterations = gpu.launches.numbers("iteration")
    of = next((int(iterations[k]) for k in (gap.after, gap.before) if k >= 0 and iterations[k] == iterations[k]), None)
    return {
        "device": gpu.device,
        "start_ns": gap.start,
        "duration_ns": length,
        "iteration": of,
        "share_pct": 100.0 * length / span if span else 0.0,
        "after": after,
        "before": before,
        "host_work": found.work,
        "host_op": found.op,
        "host_ns": found.ns,
    }


def _around(gpu: _Gpu, gap: _Gap) -> tuple[str | None, str | None]:
    """Return what ends before the wait and what starts after it.

    That is a copy within the gap where the GPU did nothing at all for most of the gap before or after it.
    """
    names = gpu.launches.names("kernel")
    after, before = (None if row < 0 else names[row] for row in (gap.before, gap.after))
    start = gpu.copies.numbers("start_ns").astype(np.int64)
    end = start + gpu.copies.numbers("duration_ns").astype(np.int64)
    inside = np.flatnonzero((start < gap.end) & (end > gap.start))
    inside = inside[np.argsort(start[inside], kind="stable")]
    begins = np.append(start[inside].clip(gap.start, gap.end), gap.end)
    ends = np.maximum.accumulate(np.append(gap.start, end[inside].clip(gap.start, gap.end)))
    silent = int((begins - ends).argmax())
    if 2 * (begins[silent] - ends[silent]) < gap.end - gap.start:
        return after, before
    after = after if silent == 0 else _copy(gpu.copies, int(inside[silent - 1]))
    return after, before if silent == len(inside) else _copy(gpu.copies, int(inside[silent]))


def _copy(copies: Table, row: int) -> str:
    size = copies.numbers("size_bytes")[row]
    return f"{copies.names('kind')[row]}{'' if size != size else f' {int(size)} B'}"


def _tunes(gap: _Gap, calls: IntArray) -> bool:
    """Return whether the gap lies within one autotuned call of an op."""
    return min(gap.before, gap.after) >= 0 and 0 <= calls[gap.before] == calls[gap.after]
