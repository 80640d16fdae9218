"""Sum up how long the GPU waits in a step: the length of the step less the time in which a kernel ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from tcprobe.analysis.grouping import ratio_pct, union_by
from tcprobe.analysis.iterations import Iterations, marked_step
from tcprobe.analysis.summary.reported import Reported
from tcprobe.analysis.summary.step_time import StepTime, profiled_lengths
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import StepLength, Waiting

WALL: Final = "summary report / wall clock time (ns)"
ITERATIONS: Final = "iterations / aggregated iterations"


def with_waiting(profile: Profile, found: Iterations, length: StepTime | None) -> Profile:
    """Add how long the GPU waits; where the profiler reports longer steps than the window, GPUs are busy in those."""
    waiting, window = waiting_of(profile, found, length), profile.metadata.window
    profile = replace(profile, waiting=waiting)
    devices, steps = profile.table("devices"), window_steps(profile)
    if waiting is None or waiting.length != "reported" or devices is None or not steps:
        return profile
    span = np.full(len(devices), waiting.step_ns * steps)
    if window.basis != "whole capture" or not (span > devices.numbers("window_ns")).any():
        return profile
    share = ratio_pct(devices.numbers("union_ns"), span)
    return profile.with_tables(devices.with_columns(window_ns=span.round(), gpu_busy_pct=share))


def waiting_of(profile: Profile, found: Iterations, length: StepTime | None) -> Waiting | None:
    """Return how long a step takes and the GPU waits in it, the mean over the GPUs that ran kernels.

    Where no step is known, the window stands in: the span of the capture. None where no clock tells, or no kernel ran.

    Args:
        profile: with devices and iterations built.
        found: its iterations.
        length: of a step, if one is known.
    """
    if length is None or (length.length == "between steps" and _counts_all(profile)):
        return _capture(profile)
    busy = _busy_in_step(profile, found, length)
    return None if busy is None else _waiting(length.ns, length.length, busy)


def _counts_all(profile: Profile) -> bool:
    """Return whether kernels of no step count, warm-up among them: their share of the capture is none of a step."""
    return profile.metadata.window.first is None and len(profile.require("launches")) > 0


def _waiting(step_ns: float, length: StepLength, busy_ns: float) -> Waiting | None:
    """Return the parts of a step; kernels that the profiler slowed may seem to run longer than the step."""
    if not step_ns > 0:
        return None
    busy = min(max(busy_ns, 0.0), step_ns)
    return Waiting(step_ns, length, busy, step_ns - busy)


def _capture(profile: Profile) -> Waiting | None:
    """Return the whole window as if it were a step; by the profiler's own figures where no launch has a time."""
    share, span = _busy_share(profile), profile.metadata.window.length_ns
    if share is not None and span is not None:
        return _waiting(float(span), "capture", share * span)
    reported = Reported(profile)
    wall, busy = reported.get(WALL), reported.gpu_busy_pct
    return None if not wall or busy is None else _waiting(wall, "capture", wall * busy / 100.0)


def _busy_in_step(profile: Profile, found: Iterations, length: StepTime) -> float | None:
    """Return the time of a step during which a kernel ran; None if unknown."""
    if length.length == "marked step" and (only := marked_step(profile, found)) is not None:
        return mean_union(profile, only)
    lengths = profiled_lengths(profile)
    known, share = lengths[~np.isnan(lengths)], _busy_share(profile)
    if share is not None and len(known):
        return share * float(np.median(known))
    steps, ran = window_steps(profile), _mean_device(profile, "union_ns")
    if ran is not None and steps:
        return ran / steps
    return _reported_busy(profile, length.ns, steps)


def mean_union(profile: Profile, bounds: tuple[int, int]) -> float | None:
    """Return the time between `bounds` during which a kernel ran, the mean over the GPUs that ran some; None: none."""
    launches = profile.require("launches")
    devices = sorted(set(launches.numbers("device").tolist()))
    if not devices:
        return None
    place = np.searchsorted(devices, launches.numbers("device")).astype(np.int32)
    spans = launches.numbers("start_ns"), launches.numbers("duration_ns")
    return float(union_by(place, *spans, len(devices), bounds).mean())


def _busy_share(profile: Profile) -> float | None:
    """Return the share of the window during which a kernel ran, 0-1."""
    share = _mean_device(profile, "gpu_busy_pct")
    return None if share is None else share / 100.0


def _mean_device(profile: Profile, column: str) -> float | None:
    """Return the mean of a column over the GPUs that ran kernels; None where none has a value."""
    values = of_active(profile, column)
    return float(values.mean()) if len(values) else None


def of_active(profile: Profile, column: str) -> FloatArray:
    """Return the values of a column of `devices` that are known, of the GPUs that ran kernels."""
    devices = profile.require("devices")
    values: FloatArray = devices.numbers(column)
    return values[devices.names("state").among("active") & ~np.isnan(values)]


def busiest_gpu(profile: Profile) -> tuple[int, float]:
    """Return how many GPUs are known to have run kernels, at least 1, and the share of their time on the busiest one.

    That is 1 where it is not known which ran what.
    """
    spent = [ns for ns in of_active(profile, "sum_ns").tolist() if ns]
    return len(spent) or 1, max(spent) / sum(spent) if spent else 1.0


def kernel_steps(profile: Profile) -> float | None:
    """Return how many steps the kernel times are of; the whole capture is one where it stands for a step.

    None where that is not known, and where autotuning, which is no part of a step, is among them.

    Args:
        profile: with its summary.
    """
    if profile.tuning is not None:
        return None
    return 1.0 if profile.waiting and profile.waiting.length == "capture" else steps_of(profile)


def steps_of(profile: Profile) -> float | None:
    """Return how many steps the sums over the window are of; None where kernels of no step may be among them."""
    if profile.metadata.window.first is not None:
        return profile.counted_steps
    if profile.waiting is not None and profile.waiting.length == "capture":
        return None
    row = profile.figure("iterations_in_window")
    told = None if row is None else row["value"]
    return float(told) if told else None


def window_steps(profile: Profile) -> float | None:
    """Return how many steps the window holds, by the marks or as the profiler reports it; None if unknown."""
    return profile.marked_steps or Reported(profile).get(ITERATIONS)


def _reported_busy(profile: Profile, step_ns: float, steps: float | None) -> float | None:
    """Return the busy time by the profiler's own figures: its share, at most the summed time of the kernels."""
    reported = Reported(profile)
    share, times = reported.gpu_busy_pct, reported.kernel_times
    gpus = len(profile.require("devices")) or 1
    bounds = [] if share is None else [step_ns * share / 100.0]
    if times is not None and times.total > 0 and steps:
        spent = times.total / steps / gpus
        bounds = [min(*bounds, spent)] if share else [spent]  # a share below 0.05 % is reported as 0.0
    return bounds[0] if bounds else None
