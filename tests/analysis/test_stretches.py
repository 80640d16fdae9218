"""Captures without steps: the start-up that is cut off, and stretches in which the GPU is unlike as busy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.flows.report import make_report
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS
from tests.analysis.builders import FP32, OTHER, TC, devices, marks, profile, table
from tests.support import ROOT

NSYS = ROOT.parent / "shared" / "samples" / "nsys"
MS = 1_000_000
UNIT = (TC, OTHER, FP32)


def ran(*spans: tuple[float, float], names: tuple[str, ...] = (TC,), device: int = 0) -> list[dict[str, Any]]:
    """Launches by start and length in ms."""
    return [
        {
            "device": device, "stream": 7, "kernel": names[at % len(names)], "op_id": -1, "config_id": -1,
            "start_ns": int(start * MS), "duration_ns": int(length * MS), "thread": 1,
            "launch_ns": int(start * MS) - 10,
        }
        for at, (start, length) in enumerate(spans)
    ]  # fmt: skip


def evenly(start: float, end: float, every: float, busy: float) -> list[tuple[float, float]]:
    return [(float(at), every * busy) for at in np.arange(start, end, every)]


def captured(*launches: dict[str, Any], copied: tuple[float, ...] = (), **more: Any) -> Profile:
    copies = [
        {"device": 0, "stream": 7, "start_ns": int(at * MS), "duration_ns": 10, "kind": "MemcpyH2D"} for at in copied
    ]
    tables = (table(MEMORY_OPS, copies),) if copied else ()
    gpus = devices(*({"device": at} for at in sorted({row["device"] for row in launches})))
    return profile(Table.from_rows(LAUNCHES, list(launches)), gpus, *tables, gpu_used=True, **more)


# --- start-up -------------------------------------------------------------------------------------------------


def test_what_runs_once_before_the_units_is_cut_off_and_counts_nowhere() -> None:
    once = ran(*evenly(0, 30, 10, 0.1), names=("a", "b", "c"))
    units = ran(*evenly(1000, 1600, 10, 0.5), names=UNIT)
    analysed = analyse(captured(*once, *units, copied=(1, 2, 1005)))
    cut = analysed.start_up
    assert cut is not None
    assert (cut.length_ns, cut.kernels, cut.copies, cut.basis) == (1000 * MS, 3, 2, "units")
    assert analysed.value("kernels") == 60 and analysed.value("kernel_time_ns") == 60 * 5 * MS
    assert analysed.metadata.window.start_ns == 1000 * MS
    assert analysed.value("gpu_busy_pct") == pytest.approx(50, abs=1)
    assert set(analysed.require("kernels").values("kernel")) == set(UNIT)


def test_first_units_that_are_slow_are_start_up_too() -> None:
    slow = ran(*evenly(0, 300, 100, 0.05), names=UNIT)  # one unit in 300 ms, later ones in 30
    usual = ran(*evenly(300, 900, 10, 0.5), names=UNIT)
    cut = analyse(captured(*slow, *usual)).start_up
    assert cut is not None and (cut.length_ns, cut.kernels, cut.basis) == (300 * MS, 3, "units")


def test_first_units_that_are_slow_are_a_part_of_the_run_where_they_are_many_or_take_much_kernel_time() -> None:
    """5 units of 480 ms, then 7 of 300: 15 of 36 kernels; one unit that takes 150 of 300 ms of kernels."""
    slow = ran(*evenly(0, 2400, 160, 0.5), names=UNIT)
    usual = ran(*evenly(2400, 4500, 100, 0.5), names=UNIT)
    long = ran(*evenly(0, 300, 100, 0.5), names=UNIT)
    after = ran(*evenly(300, 600, 10, 0.5), names=UNIT)
    for launches in ([*slow, *usual], [*long, *after]):
        analysed = analyse(captured(*launches))
        assert analysed.start_up is None and analysed.value("kernels") == len(launches)


def test_a_pause_of_seconds_is_cut_off_without_units_too() -> None:
    random = np.random.default_rng(3)
    names = tuple(f"kernel_{n}" for n in random.integers(0, 500, 400))
    later = ran(*evenly(5000, 9000, 10, 0.5), names=names)
    for first in (ran((0.0, 1.0)), []):
        analysed = analyse(captured(*first, *later, copied=(10, 20)))
        cut = analysed.start_up
        assert cut is not None
        assert (cut.kernels, cut.copies, cut.basis) == (len(first), 2, "pause")
        assert analysed.metadata.window.start_ns == 5000 * MS


@pytest.mark.parametrize(
    ("before", "start"),
    [
        ([(0.0, 1.0)], 40.0),  # too short to matter
        (evenly(0, 500, 10, 0.5), 1000.0),  # too many kernels
        ([(0.0, 900.0)], 1000.0),  # too much of their time
    ],
)
def test_what_is_short_or_a_part_of_the_run_stays(before: list[tuple[float, float]], start: float) -> None:
    names = tuple(f"kernel_{n}" for n in range(50))
    units = ran(*evenly(start, start + 600, 10, 0.5), names=UNIT)
    analysed = analyse(captured(*ran(*before, names=names), *units))
    assert analysed.start_up is None and analysed.value("kernels") == len(before) + 60


def test_where_steps_are_marked_these_tell_what_counts() -> None:
    units = ran(*evenly(5000, 5600, 10, 0.5), names=UNIT)
    steps = marks([5000 * MS, 5300 * MS], 299 * MS)
    analysed = analyse(captured(*ran((0.0, 1.0)), *units).with_tables(steps))
    assert analysed.start_up is None and len(analysed.require("step_marks")) == 2


# --- stretches ------------------------------------------------------------------------------------------------


def stretches(*launches: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = analyse(captured(*launches)).require("stretches").rows()
    return [(row["device"], row["start_ns"] / MS, row["end_ns"] / MS, round(row["busy_pct"], 1)) for row in rows]


def test_two_stretches_are_parted_by_the_pause_between_them() -> None:
    found = stretches(*ran(*evenly(0, 600, 1, 0.95), *evenly(640, 1000, 1, 0.3)))
    assert found == [(0, 0.0, 599.95, 95.0), (0, 640.0, 999.3, pytest.approx(30.1, abs=0.1))]


def test_three_stretches_and_the_gpus_apart() -> None:
    three = ran(*evenly(0, 400, 1, 0.9), *evenly(400, 800, 1, 0.2), *evenly(800, 1200, 1, 0.6))
    even = ran(*evenly(0, 1200, 1, 0.9), device=1)
    found = stretches(*three, *even)
    assert [(device, busy) for device, _, _, busy in found] == [
        (0, pytest.approx(90, abs=1)), (0, pytest.approx(20, abs=1)), (0, pytest.approx(60, abs=1)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "launches",
    [
        ran(*evenly(0, 1000, 1, 0.9)),
        ran(*evenly(0, 500, 1, 0.6), *evenly(500, 1000, 1, 0.5)),  # little difference
        ran(*evenly(0, 100, 1, 0.1), *evenly(100, 1000, 1, 0.9)),  # a short one
        ran(*((float(at), length) for at, length in enumerate(np.random.default_rng(1).random(900) * 0.9))),
        ran(*evenly(0, 1000, 100, 0.5)),  # each bin is busy or idle
        ran((0.0, 1.0)), ran((0.0, 0.0)), ran((0.0, 1.0), (0.0, 1.0)), ran((0.0, 0.0), (5.0, 2.0)),
        ran((0.0, 10.0), (16.0, 3.0)),
    ],
    ids=["even", "alike", "short", "random", "coarse", "one", "empty", "together", "no length", "two"],
)  # fmt: skip
def test_a_capture_that_is_as_busy_throughout_has_none(launches: list[dict[str, Any]]) -> None:
    assert not stretches(*launches)


def test_the_order_of_rows_does_not_matter() -> None:
    launches = ran(*evenly(0, 600, 1, 0.95), *evenly(640, 1000, 1, 0.3))
    assert stretches(*np.random.default_rng(1).permutation(np.array(launches, object)).tolist()) == stretches(*launches)


@pytest.mark.skipif(not NSYS.is_dir(), reason="the samples of Nsight Systems are not here")
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 6])
def test_two_recorded_solves_are_two_stretches(rank: int) -> None:
    report = make_report(NSYS / f"v100_mpi_rank{rank}.sqlite")
    first, second = report.require("stretches").rows()
    assert first["busy_pct"] == pytest.approx(97.7, abs=0.15) and second["busy_pct"] == pytest.approx(30.2, abs=0.35)
    assert (first["launches"], second["launches"]) == (1001, 1001) and report.start_up is None


@pytest.mark.skipif(not NSYS.is_dir(), reason="the samples of Nsight Systems are not here")
def test_a_recorded_start_up_is_cut_off() -> None:
    report = make_report(NSYS / "titanrtx_fp16_inference_nsys2022.sqlite")
    assert report.start_up is not None and report.start_up.kernels == 1060
    assert report.value("gpu_busy_pct") == pytest.approx(24, abs=0.5)
