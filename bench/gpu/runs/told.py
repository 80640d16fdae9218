"""What the recorded runs say: one row per unit, for the summary and for `consistency.py`.

Steps have three kinds of length: by steps.csv, from one step's start to the next one's, where the clock stands still
while the profiler starts and stops; as the workload logs them, the call alone, with all that tcprobe does in it; and
as the report says. A figure that a unit lacks is None.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bench.gpu.day import status_of
from bench.gpu.runs.cases import Kind
from bench.gpu.runs.logged import IMAGES
from bench.gpu.runs.marks import steps_in
from bench.gpu.tables import read_table

OUTSIDE: Final = {"measured", "after"}
"""Kinds of steps.csv: settled, and not under the profiler."""
INSIDE: Final = {"profiled"}
Key = tuple[str, str, str, str | None, bool, int]


@dataclass(frozen=True, slots=True)
class Told:
    """What one unit says.

    Attributes:
        unit: its name.
        kind: profile, plain or nvtx.
        tensorflow, precision, sizes, loss_scale, xla, batch: what ran.
        exit_code: of `tcprobe profile`, or of the plain workload.
        gpu_used: whether TensorFlow used a GPU.
        steps: numbers of the steps of steps.csv.
        logged: steps that the workload logged.
        window_steps: steps under the profiler, as steps.csv says.
        step_ns: of the report.
        outside_ns, inside_ns: medians by steps.csv, outside the profiled window (settled ones) and in it.
        logged_ns: median as logged, outside the window, without the step in which the profiler's session ends; of plain
            runs in the second half.
        around_ns: the median of the same steps by steps.csv.
        first_ns: how much longer the first step of the profiler's session took than those outside, by steps.csv.
        opened_ns, closed_ns: how long the session took to start and to end, in the calls of two steps.
        throughput: of the report, images/s; logged_throughput: the median as logged, outside the window.
        tc_low_pct, tc_high_pct: share of kernel time that uses Tensor Cores.
        coverage_pct: share of kernel time whose class is known.
        busy_pct, kernels, kernel_ns, window_ns, flops_per_step, tflop_per_s, peak_pct: of the report.
        union_ns: of the GPUs, the longest time during which kernels ran in the window.
        devices: GPUs that ran kernels.
        peak_bytes: peak of TensorFlow's allocator.
        notes: codes of what the report and the run say.
        marked: numbers of the steps with NVTX ranges, as these began; None where none were recorded.
        open_ranges: NVTX ranges that never ended.
        plain_ns: median as logged without tcprobe, of the steps outside the window.
        outside_pct, inside_pct: what steps outside and in the window take more than without tcprobe.
        plain_peak_bytes: peak of TensorFlow's allocator without tcprobe.
    """

    unit: str
    kind: Kind
    tensorflow: str
    precision: str
    sizes: str
    loss_scale: str | None
    xla: bool
    batch: int
    exit_code: int
    gpu_used: bool | None = None
    steps: tuple[int, ...] = ()
    logged: int = 0
    window_steps: int = 0
    step_ns: float | None = None
    outside_ns: float | None = None
    inside_ns: float | None = None
    logged_ns: float | None = None
    around_ns: float | None = None
    first_ns: float | None = None
    opened_ns: float | None = None
    closed_ns: float | None = None
    throughput: float | None = None
    logged_throughput: float | None = None
    tc_low_pct: float | None = None
    tc_high_pct: float | None = None
    coverage_pct: float | None = None
    busy_pct: float | None = None
    kernels: float | None = None
    kernel_ns: float | None = None
    window_ns: float | None = None
    union_ns: float | None = None
    devices: int | None = None
    flops_per_step: float | None = None
    tflop_per_s: float | None = None
    peak_pct: float | None = None
    peak_bytes: int | None = None
    notes: tuple[str, ...] = ()
    marked: tuple[int, ...] | None = None
    open_ranges: int | None = None
    plain_ns: float | None = None
    outside_pct: float | None = None
    inside_pct: float | None = None
    plain_peak_bytes: int | None = None


def tell(folder: Path) -> list[Told]:
    """Return a row for each unit of ``folder/runs`` that is done, by its name."""
    done = [place for place in sorted((folder / "runs").glob("[!.]*")) if status_of(place) == "done"]
    runs = [place for place in done if (place / "ran.json").exists()]
    rows = {place: _row(place) for place in runs}
    plain = {_key(row): (place, row) for place, row in rows.items() if row.kind == "plain"}
    return [_beside(place, row, *plain.get(_key(row), (None, None))) for place, row in rows.items()]


def _key(row: Told) -> Key:
    return row.tensorflow, row.precision, row.sizes, row.loss_scale, row.xla, row.batch


def _row(place: Path) -> Told:
    ran, unit = _json(place / "ran.json"), _json(place / "unit.json")
    what = {name: ran[name] for name in ("kind", "precision", "sizes", "loss_scale", "xla", "batch", "exit_code")}
    logged = _logged(place)
    row = Told(unit=place.name, tensorflow=unit["version"], logged=len(logged), **what)
    if row.kind == "plain":
        second = _median(logged, range(len(logged) // 2, len(logged)))
        return replace(row, gpu_used=ran["gpu_used"], peak_bytes=ran["peak_gpu_memory_bytes"], logged_ns=second)
    row = replace(_with_steps(row, place, logged), **_ranges(place))
    return replace(row, **_reported(place, _json(place / "run.json")))


def _with_steps(row: Told, place: Path, logged: Mapping[int, int]) -> Told:
    """Return a row with what steps.csv and the workload's log say."""
    kinds, lengths = _steps(place)
    first, closing = _session(place)
    outside = [step for step in _of(kinds, OUTSIDE) if step != closing]
    usual, call = _median(lengths, _of(kinds, OUTSIDE)), _median(logged, outside)
    both = [step for step in outside if step in lengths]
    return replace(
        row,
        steps=tuple(kinds),
        window_steps=len(_of(kinds, INSIDE)),
        outside_ns=usual,
        inside_ns=_median(lengths, _of(kinds, INSIDE)),
        logged_ns=_median(logged, both),
        around_ns=_median(lengths, both),
        logged_throughput=IMAGES * row.batch / call * 1e9 if call else None,
        first_ns=_more(lengths.get(first), usual),
        opened_ns=_more(logged.get(first), lengths.get(first)),
        closed_ns=_more(logged.get(closing), lengths.get(closing)),
    )


def _session(place: Path) -> tuple[int, int]:
    """Return the steps in whose calls the profiler's session starts and ends; none has these numbers without one."""
    session = (_json(place / "run.json").get("window") or {}).get("session")
    return (session["first_step"], session["last_step"] + 1) if session else (-1, -1)


def _beside(place: Path, row: Told, plain_place: Path | None, plain: Told | None) -> Told:
    """Return a row with what the same steps took without tcprobe."""
    if plain is None or plain_place is None or row.kind == "plain":
        return row
    kinds, logged, without = _steps(place)[0], _logged(place), _logged(plain_place)
    first, closing = _session(place)
    outside = [step for step in _of(kinds, OUTSIDE) if step != closing]
    inside = [step for step in _of(kinds, INSIDE) if step != first]
    return replace(
        row,
        plain_ns=_median(without, outside),
        plain_peak_bytes=plain.peak_bytes,
        outside_pct=_percent(_median(logged, outside), _median(without, outside)),
        inside_pct=_percent(_median(logged, inside), _median(without, inside)),
    )


def _reported(place: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return what report.json and run.json say."""
    codes = {note["code"] for note in run["notes"]}
    known = {"gpu_used": run["gpu_used"], "peak_bytes": run["peak_gpu_memory_bytes"], "notes": tuple(sorted(codes))}
    try:
        report = json.loads(gzip.decompress((place / "report.json.gz").read_bytes()))
    except OSError:
        return known
    summary = {row["metric"]: row for row in report["summary"]}
    value = {name: row["value"] for name, row in summary.items()}
    share = summary.get("tc_kernel_time_pct", {})
    active = [device for device in report["tables"].get("devices", ()) if device["launches"]]
    return {
        **known,
        "notes": tuple(sorted(codes | {note["code"] for note in report["notes"]})),
        "step_ns": value.get("step_time_ns"),
        "throughput": value.get("throughput"),
        "tc_low_pct": share.get("low"),
        "tc_high_pct": share.get("high"),
        "coverage_pct": value.get("coverage_pct"),
        "busy_pct": value.get("gpu_busy_pct"),
        "kernels": value.get("kernels"),
        "kernel_ns": value.get("kernel_time_ns"),
        "window_ns": value.get("window_ns"),
        "union_ns": max((device["union_ns"] for device in active), default=None),
        "devices": len(active),
        "flops_per_step": value.get("flops_per_step"),
        "tflop_per_s": value.get("achieved_tflop_per_s"),
        "peak_pct": value.get("peak_pct"),
    }


def _ranges(place: Path) -> dict[str, Any]:
    path = place / "ranges.csv.gz"
    if not path.exists():
        return {}
    rows = read_table(path)
    begun = [name for row in rows for name in [row["range"]] * int(row["count"])]
    return {"marked": tuple(steps_in(begun)), "open_ranges": sum(int(row["open"]) for row in rows)}


def _steps(place: Path) -> tuple[dict[int, str], dict[int, float]]:
    """Return kinds and lengths by step; the last one has no length, and of several in one call each has its share."""
    rows = read_table(place / "steps.csv.gz") if (place / "steps.csv.gz").exists() else []
    starts = [(int(row["step"]), int(row["start_ns"])) for row in rows]
    lengths = {
        step: (next_start - start) / (next_step - step)
        for (step, start), (next_step, next_start) in pairwise(starts)
        if next_step > step
    }
    return {int(row["step"]): row["kind"] for row in rows}, lengths


def _logged(place: Path) -> dict[int, int]:
    return {int(row["step"]): int(row["step_ns"]) for row in read_table(place / "logged.csv.gz")}


def _of(kinds: Mapping[int, str], wanted: Collection[str]) -> list[int]:
    return [step for step, kind in kinds.items() if kind in wanted]


def _median(lengths: Mapping[int, float], steps: Iterable[int]) -> float | None:
    found = [lengths[step] for step in steps if step in lengths]
    return statistics.median(found) if found else None


def _more(length: float | None, usual: float | None) -> float | None:
    return None if length is None or usual is None else length - usual


def _percent(length: float | None, plain: float | None) -> float | None:
    return None if length is None or not plain else 100 * (length / plain - 1)


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))
