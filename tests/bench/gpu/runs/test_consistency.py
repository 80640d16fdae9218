"""Each breach is found, and a run without one has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.runs.consistency import violations
from bench.gpu.runs.told import Told, tell
from tests.bench.gpu.runs.making import MS, plain, profiled


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("day")
    profiled(folder)
    return replace(tell(folder)[0], logged_throughput=1684.2)


def test_a_whole_run_breaks_nothing(tmp_path: Path) -> None:
    profiled(tmp_path)
    profiled(tmp_path, "again")
    plain(tmp_path, (800, 90, 20, 20, 15, 16, 20, 16))
    assert violations(tell(tmp_path)) == []


@pytest.mark.parametrize(
    ("changed", "kind", "figures"),
    [
        ({"exit_code": 2}, "exit code", {"exit_code": 2}),
        ({"kernels": None}, "no kernels", {"notes": "few-steps gap"}),
        ({"logged": 9}, "steps lost", {"steps": 8, "logged": 9}),
        ({"window_steps": 0}, "no window", {"notes": "few-steps gap"}),
        ({"step_ns": 22 * MS}, "step time", {"report_ns": 22 * MS, "steps_ns": 20 * MS}),
        ({"logged_ns": 22 * MS}, "logged time", {"steps_ns": 21 * MS, "logged_ns": 22 * MS}),
        ({"throughput": 800.0}, "throughput", {"report": 800.0, "logged": 1684.2}),
        ({"kernel_ns": 56 * MS}, "kernel time", {"kernel_ns": 56 * MS, "window_ns": 55 * MS, "devices": 1}),
        ({"busy_pct": 101.0}, "busy", {"busy_pct": 101.0}),
        ({"coverage_pct": 89.0}, "unknown kernels", {"coverage_pct": 89.0}),
        ({"peak_pct": 101.0}, "beyond peak", {"peak_pct": 101.0, "tflop_per_s": 0.25}),
        ({"precision": "float32"}, "tensor cores", {"tc_low_pct": 60.0, "expected_pct": 0.0}),
        ({"tc_high_pct": 0.0}, "tensor cores", {"tc_high_pct": 0.0}),
    ],
)
def test_each_breach_of_a_profile_is_told(
    row: Told, changed: dict[str, Any], kind: str, figures: dict[str, Any]
) -> None:
    (found,) = violations([replace(row, **changed)])
    assert (found.kind, found.unit) == (kind, "run")
    assert found.figures == figures


def test_two_gpus_have_room_for_twice_the_time_of_one(row: Told) -> None:
    assert violations([replace(row, kernel_ns=100 * MS, devices=2)]) == []


def test_what_is_unknown_or_of_a_cpu_breaks_nothing(row: Told) -> None:
    unknown = dict.fromkeys(
        ("step_ns", "throughput", "kernel_ns", "busy_pct", "coverage_pct", "peak_pct", "tc_low_pct")
    )
    assert violations([replace(row, **unknown)]) == []  # type: ignore[arg-type]
    assert violations([replace(row, gpu_used=False, kernels=None)]) == []


@pytest.mark.parametrize(
    ("marked", "left_open", "kinds"),
    [
        ((8, 9, 10), 0, []),
        ((8, 9, 9, 10), 0, ["marks"]),
        ((8, 10, 9), 0, ["marks"]),
        ((8, 9, 10, 11), 0, ["marks"]),
        ((8, 10), 1, ["range left open", "unmarked"]),
        ((), 0, ["unmarked"]),
    ],
)
def test_each_step_is_marked_once_in_order(
    row: Told, marked: tuple[int, ...], left_open: int, kinds: list[str]
) -> None:
    heard = replace(
        row, kind="nvtx", exit_code=2, steps=tuple(range(11)), logged=11, marked=marked, open_ranges=left_open
    )
    assert [one.kind for one in violations([heard])] == kinds


def test_the_same_sizes_have_the_same_flops(row: Told) -> None:
    other = replace(row, unit="other", precision="tf32", flops_per_step=5.1e9)
    (found,) = violations(
        [row, other, replace(other, unit="small", batch=8), replace(other, unit="none", flops_per_step=None)]
    )
    assert (found.kind, found.unit) == ("FLOPs", "other")
    assert found.figures == {"flops": 5.1e9, "other": "run", "other_flops": 5e9}
