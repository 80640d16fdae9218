"""Build the `iterations` and `devices` tables: kernel time of each step and of each GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.analysis.kernels.launches import CLASS_COUNT, UNKNOWN, YES, Launched
from tcprobe.grouping import (
    Codes,
    count_by,
    covered_until,
    distinct_numbers,
    distinct_rows,
    merged,
    positions_in,
    ratio_pct,
    sum_by,
    union_by,
)
from tcprobe.probe.constants import STEP_MARK
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.profile import Profile, Window
from tcprobe.schema.tables import DEVICES, ITERATIONS


def iteration_table(profile: Profile, found: Iterations, window: Window, launched: Launched | None) -> Table:
    """Return one row per iteration, counted or not; kernel figures are NA where no kernel is known to be of a step.

    Args:
        profile: for copies and sets.
        found: the iterations.
        window: which count.
        launched: launches with their class; None where there are none.
    """
    count, edges = len(found.numbers), found.edges_ns
    span = np.diff(edges)
    columns: dict[str, Any] = {
        "iteration": found.numbers,
        "in_window": counted(window, found.numbers.astype(np.float64)),
        "steps": found.steps,
        "start_ns": found.start_ns,
        "duration_ns": found.duration_ns,
        "span_ns": np.where(span >= 0, span, np.nan),
    }
    if launched is not None and found.launches.any():
        columns |= _kernel_figures(found, launched)
    if launched is not None and (span >= 0).all():
        columns["busy_ns"] = _busy(edges.astype(np.int64), launched)
    steps = profile.require("steps")
    live = np.append(steps.numbers("live_step"), np.nan)  # the last is that of no step
    if not np.isnan(live).all():
        columns["live_iteration"] = live[
            _rows(steps.numbers("step").astype(np.int64), found.numbers.astype(np.float64))
        ]
    memory = profile.table("memory_ops")
    if memory is not None:
        row = found.of(memory.numbers("iteration"))
        placed = bool((row >= 0).any()) or not len(memory)
        spent = sum_by(row, memory.numbers("duration_ns"), count)
        columns["memory_ns"] = spent.astype(np.float64) if placed else np.full(count, np.nan)
        if placed and "union_ns" in columns and launched is not None:
            columns["copy_ns"] = _used(found, launched, memory, row) - columns["union_ns"]
    return Table(ITERATIONS, columns)


def _used(found: Iterations, launched: Launched, memory: Table, row: Codes) -> FloatArray:
    """Return the time during which a kernel, copy or set of each iteration ran, summed over devices."""
    groups, count = launched.groups, len(found.numbers)
    copied = np.nan_to_num(memory.numbers("device"), nan=-1.0).astype(np.int64)
    (devices,), device = distinct_rows(np.concatenate([groups.device[groups.of_launch].astype(np.int64), copied]))
    step = np.concatenate([found.of_launch, row]).astype(np.int64)
    part = np.where(step < 0, -1, step * len(devices) + device)
    start, spent = (
        np.concatenate([table.numbers(column) for table in (groups.launches, memory)]).astype(np.int64)
        for column in ("start_ns", "duration_ns")
    )
    used: FloatArray = union_by(part, start, spent, count * len(devices)).reshape(count, -1).sum(axis=1)
    return used.astype(np.float64)


def _busy(edges: IntArray, launched: Launched) -> FloatArray:
    """Return the time between successive edges during which a kernel of any step ran, summed over devices."""
    groups, passed = launched.groups, np.zeros(len(edges), np.int64)
    device = groups.device[groups.of_launch]
    start, spent = (groups.launches.numbers(column) for column in ("start_ns", "duration_ns"))
    for number in distinct_numbers(groups.device.astype(np.int64)).tolist():
        here = device == number
        passed += covered_until(edges, *merged(start[here], start[here] + np.maximum(spent[here], 0)))
    return np.diff(passed).astype(np.float64)


def _kernel_figures(found: Iterations, launched: Launched) -> dict[str, NDArray[Any]]:
    groups, count = launched.groups, len(found.numbers)
    start, spent = groups.launches.numbers("start_ns"), groups.launches.numbers("duration_ns")
    (devices,), device = distinct_rows(groups.device)
    each = len(devices)
    part = found.of_launch * np.int32(each)
    part += device[groups.of_launch]
    part[found.of_launch < 0] = -1
    spans = union_by(part, start, spent, count * each).reshape(count, each)
    np.multiply(found.of_launch, CLASS_COUNT, out=part)
    part += launched.verdicts[groups.of_launch]
    part[found.of_launch < 0] = -1
    sums = sum_by(part, spent, count * CLASS_COUNT).reshape(count, CLASS_COUNT)
    return {
        "launches": found.launches,
        "sum_ns": found.sum_ns,
        "union_ns": spans.sum(axis=1),
        "tc_ns": sums[:, YES],
        "unknown_ns": sums[:, UNKNOWN],
        "tc_kernel_time_pct": ratio_pct(sums[:, YES], found.sum_ns),
    }


def device_table(profile: Profile, window: Window, launched: Launched | None, kernels: Table) -> Table:
    """Return the devices with their figures in the window; an idle one has zeros, one without a record NA.

    Args:
        profile: identified devices, copies and sets.
        window: its bounds are the time that `gpu_busy_pct` is a share of.
        launched: launches with their class; None where the source has sums only.
        kernels: of the window, for sources that have sums only.
    """
    devices = profile.require("devices")
    if launched is not None:
        figures = _launched_figures(devices, window, launched)
    else:
        figures = _summed_figures(devices, kernels)
    memory = profile.table("memory_ops")
    if memory is not None:
        inside = counted(window, memory.numbers("iteration"))
        row = _device_rows(devices, memory.numbers("device")[inside])
        figures["memory_ns"] = sum_by(row, memory.numbers("duration_ns")[inside], len(devices)).astype(np.float64)
    state = _state(devices, launched, figures)
    peak = profile.metadata.run.get("peak_gpu_memory_bytes")
    if type(peak) is int and 0 <= peak < 2**53 and state.count("active") == 1:  # the file may hold anything
        figures["peak_memory_bytes"] = np.array([peak if s == "active" else np.nan for s in state])
    return Table(DEVICES, {**devices.columns, **figures, "state": state})


def _device_rows(devices: Table, ordinals: NDArray[Any]) -> IntArray:
    numbers = devices.numbers("device")
    order = np.argsort(numbers)
    position: IntArray = order[np.searchsorted(numbers[order], ordinals).clip(max=len(numbers) - 1)]
    return position


def _state(devices: Table, launched: Launched | None, figures: dict[str, FloatArray]) -> list[str]:
    ran = set(launched.groups.device.tolist()) if launched else set[int]()
    if "sum_ns" not in figures:
        return [str(s) for s in devices.values("state")]
    spent = np.where(np.isnan(figures["sum_ns"]), figures["launches"], figures["sum_ns"])  # some sources have no times
    numbers = devices.numbers("device").tolist()
    return ["active" if n in ran or s > 0 else "idle" for n, s in zip(numbers, spent, strict=True)]


def _launched_figures(devices: Table, window: Window, launched: Launched) -> dict[str, FloatArray]:
    groups, count = launched.groups, len(devices)
    device = _device_rows(devices, groups.device)
    row = np.where(groups.counted, device, -1)
    spent, on_tc = sum_by(row, groups.sum_ns, count), sum_by(row, launched.time_of(YES), count)
    figures: dict[str, NDArray[Any]] = {
        "launches": sum_by(row, groups.calls, count),
        "sum_ns": spent,
        "tc_ns": on_tc,
        "unknown_ns": sum_by(row, launched.time_of(UNKNOWN), count),
        "tc_kernel_time_pct": ratio_pct(on_tc, spent),
    }
    if window.start_ns is not None and window.end_ns is not None:
        start, length = (groups.launches.numbers(c) for c in ("start_ns", "duration_ns"))
        bounds = window.start_ns, window.end_ns
        busy = union_by(device.astype(np.int32)[groups.of_launch], start, length, count, bounds)
        figures |= {"union_ns": busy, "window_ns": np.full(count, window.length_ns)}
        figures["gpu_busy_pct"] = ratio_pct(busy, figures["window_ns"])
    return {name: values.astype(np.float64) for name, values in figures.items()}


def _summed_figures(devices: Table, kernels: Table) -> dict[str, FloatArray]:
    """Sum a kernels table; where it does not tell devices apart, only a single device has figures."""
    device = kernels.numbers("device")
    if not len(kernels) or (np.isnan(device).any() and len(devices) != 1):
        return {}
    known = devices.numbers("device")[0] if len(devices) else 0
    row = _device_rows(devices, np.where(np.isnan(device), known, device))
    spent = kernels.numbers("sum_ns")
    verdict = kernels.names("uses_tc")
    sums: dict[str, FloatArray] = {
        "launches": kernels.numbers("calls"),
        "sum_ns": spent,
        "tc_ns": np.where(verdict.among("yes"), spent, 0),
        "unknown_ns": np.where(verdict.among("unknown"), spent, 0),
    }
    figures = {name: _summed(row, values, len(devices)) for name, values in sums.items()}
    figures["tc_ns"][np.isnan(figures["unknown_ns"])] = np.nan
    return {**figures, "tc_kernel_time_pct": ratio_pct(figures["tc_ns"], figures["sum_ns"])}


def _summed(row: IntArray, values: FloatArray, count: int) -> FloatArray:
    return np.bincount(row, weights=values, minlength=count).astype(np.float64)


class Iterations(Struct, frozen=True):
    """What each iteration holds, in order of its number."""

    numbers: IntArray  # of the iterations
    # start_ns, end_ns: on the host; NaN where unknown.
    start_ns: FloatArray
    end_ns: FloatArray
    # launches, sum_ns: kernels and their time; NaN where the profile has no launches.
    launches: FloatArray
    sum_ns: FloatArray
    steps: IntArray  # training steps that each holds, several where one call makes them (steps_per_execution)
    of_launch: Codes  # row of each launch of the profile here; -1 where no step is known to have launched it
    last_end_ns: float  # end of the last: of its mark or of its last kernel; NaN where unknown

    @property
    def edges_ns(self) -> FloatArray:
        """Where each begins, and the end of the last: a window is from one of these to a later one."""
        return np.append(self.start_ns, self.last_end_ns)

    @property
    def duration_ns(self) -> FloatArray:
        """Start to start of the following iteration; NaN for the last and before a gap in the numbers."""
        gap = np.diff(self.start_ns)
        following = np.diff(self.numbers) == self.steps[:-1]
        lengths: FloatArray = np.full(len(self.numbers), np.nan)
        lengths[: len(gap)] = np.where(following & (gap >= 0), gap, np.nan)
        return lengths

    @property
    def last_steps(self) -> IntArray:
        """The last step that each iteration holds."""
        return self.numbers + self.steps - 1

    def of(self, values: FloatArray) -> Codes:
        """Return the row of each iteration number; -1 for NaN and for numbers that are not here."""
        return _rows(self.numbers, values)


def _rows(numbers: IntArray, values: FloatArray) -> Codes:
    unknown = np.isnan(values)
    rows = positions_in(np.where(unknown, 0, values).astype(np.int64), numbers)
    rows[unknown] = -1
    return rows


def collect_iterations(profile: Profile) -> Iterations:
    """Return the iterations that step marks or launches name; none where neither does."""
    marks, launches = profile.require("step_marks"), profile.require("launches")
    stored = launches.numbers("iteration")
    marked = marks.numbers("iteration")
    named = distinct_numbers(stored[~np.isnan(stored)].astype(np.int64))
    numbers = distinct_numbers(np.concatenate([marked, named]))
    row, count = _rows(numbers, stored), len(numbers)
    start, end = _bounds(count, row, launches, _rows(numbers, marked), marks)
    counts = sums = np.full(count, np.nan)
    if profile.table("launches") is not None:
        counts = count_by(row, count).astype(np.float64)
        sums = sum_by(row, launches.numbers("duration_ns"), count).astype(np.float64)
    mine = row == count - 1 if count else np.zeros(0, np.bool_)
    ends = launches.numbers("start_ns")[mine] + launches.numbers("duration_ns")[mine]
    last = float(np.fmax(end[-1], ends.max() if len(ends) else np.nan)) if count else np.nan
    return Iterations(numbers, start, end, counts, sums, _steps_held(profile, numbers), row, last)


def _steps_held(profile: Profile, numbers: IntArray) -> IntArray:
    """Return the steps of each iteration: the distance to the next number where the probe numbered them, else 1.

    The last call of a run is taken to make as many steps as the one before it.
    """
    known = profile.require("steps").numbers("step").astype(np.int64)
    held = np.ones(len(numbers), np.int64)
    if len(known) < 2 or not is_probed(profile):
        return held
    jumps = np.diff(known)
    jumps = np.append(jumps, jumps[-1])
    row = np.searchsorted(known, numbers).clip(max=len(known) - 1)
    return np.where((known[row] == numbers) & (jumps[row] > 0), jumps[row], held)


def is_probed(profile: Profile) -> bool:
    """Return whether the iterations are the steps that tcprobe's own probe numbered."""
    return STEP_MARK in profile.require("step_marks").values("name")


def _bounds(count: int, row: Codes, launches: Table, marked: Codes, marks: Table) -> tuple[FloatArray, FloatArray]:
    """Return start and end of each iteration: its mark's, else its first launch and last kernel.

    Args:
        count: number of iterations.
        row, marked: iteration of each launch, and of each mark.
    """
    start, end = np.full(count + 1, np.inf), np.full(count + 1, -np.inf)  # the last is that of no iteration
    if not count_by(marked, count).all():
        begun, called = launches.numbers("start_ns"), launches.numbers("launch_ns")
        np.minimum.at(start, row, np.where(np.isnan(called), begun, called))
        np.maximum.at(end, row, (begun + launches.numbers("duration_ns")).astype(np.float64))
    start[marked], end[marked] = np.inf, -np.inf
    np.minimum.at(start, marked, marks.numbers("start_ns").astype(np.float64))
    np.maximum.at(end, marked, marks.numbers("end_ns").astype(np.float64))
    return np.where(np.isfinite(start), start, np.nan)[:count], np.where(np.isfinite(end), end, np.nan)[:count]


def marked_step(profile: Profile, found: Iterations) -> tuple[int, int] | None:
    """Return start and end of the only step of a profile that marks it; None if it marks none or several.

    The step ends with its mark or with the last kernel that it launched while the mark lasted.
    """
    if len(found.numbers) != 1 or len(profile.require("step_marks")) != 1:
        return None
    start, end = found.start_ns[0], found.end_ns[0]
    launches = profile.require("launches")
    called = launches.numbers("launch_ns")
    mine = (found.of_launch == 0) & ((called <= end) | np.isnan(called))
    ends = launches.numbers("start_ns")[mine] + launches.numbers("duration_ns")[mine]
    end = np.fmax(end, ends.max() if len(ends) else np.nan)
    return (int(start), int(end)) if start == start and end > start else None


def whole_capture(profile: Profile, found: Iterations | None = None) -> Window:
    """Return the whole capture, where the reader gives no bounds: the only marked step and all kernels, if there is
    one, else from the first to the last GPU activity.
    """
    given = profile.metadata.window
    if given.start_ns is not None and given.end_ns is not None:
        return given
    numbers = found.numbers if found else np.zeros(0, np.int64)
    first, last = (int(numbers[0]), int(numbers[-1])) if len(numbers) else (None, None)
    step = marked_step(profile, found) if found else None
    starts, ends = _activity(profile, ("launches",) if step else ("launches", "memory_ops"))
    low, high = (int(starts.min()), int(ends.max())) if len(starts) else (None, None)
    if step and low is not None and high is not None:
        low, high = min(low, step[0]), max(high, step[1])
    return Window(first, last, low, high, "whole capture")


def _activity(profile: Profile, names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    tables = [profile.require(name) for name in names]
    starts = np.concatenate([t.numbers("start_ns") for t in tables])
    return starts, starts + np.concatenate([t.numbers("duration_ns") for t in tables])


def counted(window: Window, iterations: FloatArray) -> NDArray[np.bool_]:
    """Return which launches or copies count, by their iterations: those of the window, all of a whole capture."""
    if window.basis == "whole capture" or window.first is None or window.last is None:
        return np.ones(len(iterations), np.bool_)
    with np.errstate(invalid="ignore"):
        return (iterations >= window.first) & (iterations <= window.last)
