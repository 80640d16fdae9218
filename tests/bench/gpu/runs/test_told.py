"""What recorded runs say, worked by hand on small units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.gpu.runs.told import tell
from bench.gpu.tables import write_table
from tests.bench.gpu.runs.making import CALLS, LENGTHS, MS, logged, plain, profiled, unit


def test_a_profiled_run_says_its_steps_and_its_report(tmp_path: Path) -> None:
    profiled(tmp_path)
    (row,) = tell(tmp_path)
    assert (row.unit, row.kind, row.tensorflow, row.precision, row.batch) == (
        "run",
        "profile",
        "2.15.1",
        "mixed_float16",
        16,
    )
    assert (row.steps, row.logged, row.window_steps) == (tuple(range(8)), 8, 2)
    assert row.outside_ns == 20 * MS  # of 20, 20 and 22: the last step's length is not known
    assert (row.logged_ns, row.around_ns) == (20 * MS, 21 * MS)  # of steps 5 and 6: the session ends in step 4
    assert row.inside_ns == 27.5 * MS  # of 25 and 30
    assert (row.first_ns, row.opened_ns, row.closed_ns) == (5 * MS, 6 * MS, 99 * MS)  # 25 - 20, 31 - 25, 119 - 20
    assert row.logged_throughput == pytest.approx(2 * 16 / 0.019)  # of 19, 21, 17
    assert (row.step_ns, row.coverage_pct, row.devices, row.union_ns) == (20 * MS, 95, 1, 44 * MS)
    assert (row.tc_low_pct, row.tc_high_pct, row.peak_bytes) == (60, 65, 3000)
    assert row.notes == ("few-steps", "gap")
    assert row.plain_ns is None and row.outside_pct is None and row.marked is None


def test_overhead_is_of_the_same_steps_without_tcprobe(tmp_path: Path) -> None:
    profiled(tmp_path)
    plain(tmp_path, (800, 90, 20, 20, 15, 16, 20, 16))
    bare, row = tell(tmp_path)
    assert (bare.kind, bare.peak_bytes, bare.logged_ns) == ("plain", 2500, 16 * MS)  # of 15, 16, 20, 16
    assert row.plain_ns == 16 * MS and row.plain_peak_bytes == 2500  # of 16, 20, 16
    assert row.outside_pct == pytest.approx(18.75)  # 19 of 19, 21, 17 against 16
    assert row.inside_pct == pytest.approx(45)  # 29 against 20: the session starts in the other one


def test_a_run_of_another_size_is_no_measure(tmp_path: Path) -> None:
    profiled(tmp_path)
    logged(unit(tmp_path, "plain", "plain", batch=8, gpu_used=True, peak_gpu_memory_bytes=None))
    assert tell(tmp_path)[1].plain_ns is None


def test_several_steps_of_one_call_share_its_length(tmp_path: Path) -> None:
    place = profiled(tmp_path)
    rows = [{"step": 0, "start_ns": 0, "kind": "after"}, {"step": 4, "start_ns": 80 * MS, "kind": "after"}]
    write_table(place / "steps.csv.gz", ("step", "start_ns", "kind"), rows)
    assert tell(tmp_path)[0].outside_ns == 20 * MS


def test_what_is_not_done_or_not_there_says_nothing(tmp_path: Path) -> None:
    (profiled(tmp_path, "failed") / "unit.json").write_text(json.dumps({"status": "failed"}), encoding="utf-8")
    (profiled(tmp_path, "bare") / "report.json.gz").unlink()
    (row,) = tell(tmp_path)
    assert (row.unit, row.step_ns, row.kernels, row.notes) == ("bare", None, None, ("gap",))
    assert tell(tmp_path / "nothing") == []


def test_ranges_are_steps_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    place = profiled(tmp_path)
    counted = [("train_step", 8, 1), ("step 6", 1, 0), ("step 7", 2, 0)]
    rows = [{"range": name, "count": count, "open": still} for name, count, still in counted]
    write_table(place / "ranges.csv.gz", ("range", "count", "open"), rows)
    (row,) = tell(tmp_path)
    assert row.marked == (6, 7, 7) and row.open_ranges == 1
    assert len(CALLS) == len(LENGTHS) == row.logged
