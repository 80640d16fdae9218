"""Build the `iterations` and `devices` tables: kernel time of each step and of each GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import distinct_rows, ratio_pct, sum_by, union_by
from tcprobe.analysis.iterations import Iterations, counted
from tcprobe.analysis.kernels.launches import CLASS_COUNT, UNKNOWN, YES, Launched
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
    count = len(found.numbers)
    columns: dict[str, Any] = {
        "iteration": found.numbers,
        "in_window": counted(window, found.numbers.astype(np.float64)),
        "steps": found.steps,
        "start_ns": found.start_ns,
        "duration_ns": found.duration_ns,
    }
    if launched is not None and found.launches.any():
        columns |= _kernel_figures(found, launched)
    memory = profile.table("memory_ops")
    if memory is not None:
        row = found.of(memory.numbers("iteration"))
        placed = bool((row >= 0).any()) or not len(memory)
        spent = sum_by(row, memory.numbers("duration_ns"), count)
        columns["memory_ns"] = spent.astype(np.float64) if placed else np.full(count, np.nan)
    return Table(ITERATIONS, columns)


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
        row = _rows(devices, memory.numbers("device")[inside])
        figures["memory_ns"] = sum_by(row, memory.numbers("duration_ns")[inside], len(devices)).astype(np.float64)
    state = _state(devices, launched, figures)
    peak = profile.metadata.run.get("peak_gpu_memory_bytes")
    if type(peak) is int and 0 <= peak < 2**53 and state.count("active") == 1:  # the file may hold anything
        figures["peak_memory_bytes"] = np.array([peak if s == "active" else np.nan for s in state])
    return Table(DEVICES, {**devices.columns, **figures, "state": state})


def _rows(devices: Table, ordinals: NDArray[Any]) -> IntArray:
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
    device = _rows(devices, groups.device)
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
    row = _rows(devices, np.where(np.isnan(device), known, device))
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
