"""The roofline of a run's ops: FLOP/s over FLOP per byte, below the GPU's peaks and its memory's bandwidth.

Bytes are those of operands and result, each moved once. An op that reads some again moves more, and lies further to
the left; one whose operands stay in the cache may lie above the slope.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tcprobe import formatting as f
from tcprobe.hardware import Gpu, lookup_gpu
from tcprobe.report.drawn import Ceiling, Point, Roofline
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.profile import Profile

MOST_POINTS: Final = 300
SAME_PEAK: Final = 0.02  # how far the peak of an op may lie from one of the GPU
TONES: Final = {"used": "on Tensor Cores", "off": "not on Tensor Cores", "unknown": "Tensor Cores? unknown"}
PEAKS: Final = {"tf32": "TF32", "float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "float8": "float8"}
NOTE: Final = "Bytes: operands and result once each, so that a point may lie further to the left. As large as its time."


def roofline_of(profile: Profile) -> Roofline | str:
    """Return the roofline of an analysed profile, else why there is none."""
    rows = [row for row in profile.require("ops").rows() if row["achieved_tflop_per_s"] and row["flop_per_byte"]]
    if not len(profile.require("ops")):
        return profile.absent.get("ops", "this source names no ops")
    if not rows:
        return "of no op are FLOPs, bytes and time all known"
    named = {str(row["name"]) for row in profile.require("devices").rows() if row["state"] == "active"}
    gpu = lookup_gpu(next(iter(named))) if len(named) == 1 else None
    if gpu is None:
        return "its ceilings are unknown: " + ("several models of GPU ran" if len(named) > 1 else "so is the GPU")
    rows.sort(key=lambda row: (-float(row["sum_ns"] or 0), str(row["op"])))
    peaks = _peaks(gpu, rows)
    scale = _Scale(rows, gpu, max(peaks.values()))
    left = len(rows) - MOST_POINTS
    notes = (NOTE, *((f"The costliest {MOST_POINTS} of {len(rows):,} are drawn.",) if left > 0 else ()))
    points = tuple(_points(rows[:MOST_POINTS], scale))
    tones = Counter(point.tone for point in points)
    return Roofline(
        f"Roofline of ops, {gpu.name}", points, tuple(_ceilings(gpu, peaks, scale)), scale.across, scale.up,
        ("FLOP per byte", "TFLOP/s"), tuple((tone, what) for tone, what in TONES.items() if tones[tone]), notes,
    )  # fmt: skip


def _peaks(gpu: Gpu, rows: Sequence[Row]) -> dict[str, float]:
    """Return the peaks, in TFLOP/s, that ops are held against, and that of the CUDA cores."""
    found = {name: peak / 1e12 for name in PEAKS if (peak := gpu.peak_flop_per_s(name))}
    against = [
        100.0 * float(row["achieved_tflop_per_s"] or 0) / float(row["peak_pct"]) for row in rows if row["peak_pct"]
    ]
    used = {n for n, peak in found.items() if any(abs(one / peak - 1.0) < SAME_PEAK for one in against)}
    dtypes = {str(row["dtype"]) for row in rows}
    return {n: peak for n, peak in found.items() if n == "float32" or (n in used and (n == "tf32" or n in dtypes))}


class _Scale:
    """Places of figures on two logarithmic scales of whole decades."""

    def __init__(self, rows: Sequence[Row], gpu: Gpu, peak: float) -> None:
        self.tb_per_s = gpu.bandwidth_bytes_per_s / 1e12
        ridge = peak / self.tb_per_s
        self._x = _decades([float(row["flop_per_byte"] or 0) for row in rows] + [ridge])
        self._y = _decades([float(row["achieved_tflop_per_s"] or 0) for row in rows] + [peak])
        self.across, self.up = (tuple(_marks(ends)) for ends in (self._x, self._y))

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest FLOP per byte."""
        return 10.0 ** self._x[0], 10.0 ** self._x[1]

    def x(self, flop_per_byte: Value) -> float:
        return _place(float(flop_per_byte or 0), self._x)

    def y(self, tflop_per_s: Value) -> float:
        return _place(float(tflop_per_s or 0), self._y)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = (math.log10(end) for end in (min(values), max(values)))
    return math.floor(low), max(math.floor(low) + 1, math.ceil(high + 0.02))


def _marks(ends: tuple[int, int]) -> Iterator[tuple[float, str]]:
    for power in range(ends[0], ends[1] + 1):
        yield _place(10.0**power, ends), f.full_number(10.0**power, 1)


def _place(value: float, ends: tuple[int, int]) -> float:
    share = (math.log10(value) - ends[0]) / (ends[1] - ends[0])
    return round(100.0 * min(1.0, max(0.0, share)), 2)


def _ceilings(gpu: Gpu, peaks: dict[str, float], scale: _Scale) -> Iterator[Ceiling]:
    """Yield the slope of the memory's bandwidth, up to the highest peak, and each peak from the slope on."""
    first, last = scale.ends
    floor = scale.tb_per_s * first
    highest = max(peaks.values())
    begins = first if floor >= 10.0 ** scale._y[0] else 10.0 ** scale._y[0] / scale.tb_per_s
    memory = f"memory, {f.rate(gpu.bandwidth_bytes_per_s)}"
    yield Ceiling(memory, *_ends(scale, (begins, begins * scale.tb_per_s), (highest / scale.tb_per_s, highest)))
    for name, peak in peaks.items():
        what = f"{PEAKS[name]}{' on CUDA cores' if name == 'float32' else ''}, {f.full_number(peak, 4)} TFLOP/s"
        yield Ceiling(what, *_ends(scale, (max(first, peak / scale.tb_per_s), peak), (last, peak)))


def _ends(scale: _Scale, begin: tuple[float, float], end: tuple[float, float]) -> tuple[float, float, float, float]:
    return scale.x(begin[0]), scale.y(begin[1]), scale.x(end[0]), scale.y(end[1])


def _points(rows: Sequence[Row], scale: _Scale) -> Iterator[Point]:
    longest = max(float(row["sum_ns"] or 0) for row in rows) or 1.0
    for row in rows:
        spent = float(row["sum_ns"] or 0)
        tone = "used" if row["tc_ns"] else "unknown" if row["unknown_ns"] else "off"
        share = "" if row["peak_pct"] is None else f", {f.percent(row['peak_pct'])} of its peak"
        rate = f"{f.full_number(float(row['achieved_tflop_per_s'] or 0), 3)} TFLOP/s{share}"
        dense = f"{f.full_number(float(row['flop_per_byte'] or 0), 3)} FLOP per byte"
        facts = (TONES[tone], *(row[name] for name in ("dtype", "layer", "pass", "source")))
        what = "; ".join(str(fact) for fact in facts if fact)
        x, y = scale.x(row["flop_per_byte"]), scale.y(row["achieved_tflop_per_s"])
        text = f"{row['op']}: {rate}, {dense}, {f.duration(row['sum_ns'])}; {what}"
        yield Point(str(row["op"]), text, x, y, spent / longest, tone)
