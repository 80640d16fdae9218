"""Units of recorded runs made by hand: two steps of warm-up, two under the profiler, four after it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from bench.gpu.tables import LOGGED, write_table

MS = 1_000_000
LENGTHS = (900, 100, 25, 30, 20, 20, 22, 18)
"""ms of each step by steps.csv; the last one's is not known there."""
CALLS = (899, 99, 31, 29, 119, 19, 21, 17)
"""ms of each step as the workload logs it; the session starts in the call of step 2, and ends in that of step 4."""
KINDS = ("warm-up", "warm-up", "profiled", "profiled", "after", "after", "after", "after")
ASKED: dict[str, Any] = {"precision": "mixed_float16", "sizes": "good", "loss_scale": None, "xla": False, "batch": 16}
RUN: dict[str, Any] = {
    "gpu_used": True,
    "peak_gpu_memory_bytes": 3000,
    "window": {"first_step": 2, "last_step": 3, "session": {"first_step": 2, "last_step": 3}},
    "notes": [{"code": "gap"}],
}
FIGURES = {
    "step_time_ns": 20.0 * MS,
    "throughput": 1680.0,
    "coverage_pct": 95.0,
    "gpu_busy_pct": 80.0,
    "kernels": 12.0,
    "kernel_time_ns": 44.0 * MS,
    "window_ns": 55.0 * MS,
    "flops_per_step": 5e9,
    "achieved_tflop_per_s": 0.25,
    "peak_pct": 0.1,
}
DEVICE = {"launches": 12, "union_ns": 44 * MS}


def unit(folder: Path, name: str, kind: str = "profile", **ran: Any) -> Path:
    """Make the unit of a run; `ran` changes what was asked for."""
    place = folder / "runs" / name
    place.mkdir(parents=True)
    (place / "unit.json").write_text(json.dumps({"status": "done", "version": "2.15.1"}), encoding="utf-8")
    told = {"kind": kind, **ASKED, "exit_code": 0, **ran}
    (place / "ran.json").write_text(json.dumps(told), encoding="utf-8")
    return place


def logged(place: Path, calls: tuple[int, ...] = CALLS) -> None:
    """Add what the workload logged: ms of each step."""
    write_table(place / "logged.csv.gz", LOGGED, [{"step": n, "step_ns": ms * MS} for n, ms in enumerate(calls)])


def plain(folder: Path, calls: tuple[int, ...], peak: int | None = 2500) -> None:
    """Make the unit of the same run without tcprobe."""
    logged(unit(folder, "plain", "plain", gpu_used=True, peak_gpu_memory_bytes=peak), calls)


def profiled(folder: Path, name: str = "run", **figures: float | None) -> Path:
    """Make the unit of a run under `tcprobe profile`; `figures` changes what its report says."""
    place = unit(folder, name)
    (place / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    starts = [sum(LENGTHS[:n]) * MS for n in range(len(KINDS))]
    rows = [
        {"step": n, "start_ns": start, "kind": kind} for n, (start, kind) in enumerate(zip(starts, KINDS, strict=True))
    ]
    write_table(place / "steps.csv.gz", ("step", "start_ns", "kind"), rows)
    logged(place)
    summary = [{"metric": name, "value": value} for name, value in {**FIGURES, **figures}.items()]
    share = {"metric": "tc_kernel_time_pct", "value": 60.0, "low": 60.0, "high": 65.0}
    report = {"summary": [share, *summary], "tables": {"devices": [DEVICE]}, "notes": [{"code": "few-steps"}]}
    (place / "report.json.gz").write_bytes(gzip.compress(json.dumps(report).encode()))
    return place
