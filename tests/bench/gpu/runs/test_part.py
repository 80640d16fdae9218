"""What is run, in which order, and what the log and the ranges of a run become."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bench.gpu.day import Clock, Day, NotRecorded
from bench.gpu.machine import Framework, Machine
from bench.gpu.runs import cases, fake_nsys, part
from bench.gpu.runs.logged import logged
from bench.gpu.runs.ranges import read_ranges, summed
from bench.gpu.runs.run import Run

TENSORFLOW = Framework("tensorflow", "2.21.0", "/nowhere/python", "3.11.7", {})
MACHINE = Machine(
    None, {}, 0, (TENSORFLOW,), None, None, (replace(TENSORFLOW, version="2.10.1", python="/old/python"),)
)


def test_every_unit_has_a_name_of_its_own() -> None:
    names = [name for *_, name in cases.plan(["2.21.0", "2.10.1"])]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[a-z0-9.-]+", name) for name in names)
    assert names[0] == "train-gan-tf32-good" and "train-gan-mixed-float16-good-tf2.10.1" in names
    profiled = {(case.precision, case.sizes) for kind, case in cases.PLAN if kind == "profile"}
    assert profiled == {(p, s) for p in ("float32", "tf32", "mixed_float16", "mixed_bfloat16") for s in ("good", "bad")}


def test_options_stand_before_the_workload_and_its_own_behind() -> None:
    case = cases.Case("mixed_float16", "bad", "none", xla=True)
    assert (case.options(), case.words(False)) == (
        ["--precision", "mixed_float16", "--xla"],
        ["--sizes", "bad", "--loss-scale", "none"],
    )
    assert (case.batch(False), case.batch(True)) == (4090, 3)
    assert (cases.TRACED.asked()[2:], cases.TRACED.options()[2:]) == (["--iter-start", "12", "--iter-stop", "15"], [])


def test_without_tensorflow_one_line_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    day = Day(tmp_path, replace(MACHINE, frameworks=(), further=()), False, said.append)
    for unit in part.units(day):
        day.do(part.NAME, unit, Clock(60))
    assert said == ["runs: tensorflow: failed: no interpreter has TensorFlow (--python names one that has)"]


def test_an_interpreter_that_sees_no_gpu_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def record(run: Run, place: Path, seconds: float) -> None:
        tried.append(run.framework.python)
        run._check(place, False, 0)

    monkeypatch.setattr(Run, "record", record)
    said: list[str] = []
    day = Day(tmp_path, MACHINE, False, said.append)
    for unit in part.units(day):
        day.do(part.NAME, unit, Clock(60))
    assert tried == ["/nowhere/python", "/old/python"]
    assert said[0].startswith("runs: train-gan-tf32-good: failed: TensorFlow 2.21.0 sees no GPU (a build for CUDA")


def test_the_workloads_log_becomes_steps() -> None:
    line = "2026-11-22 20:38:{} - INFO - (0, {}), G Loss: {}, D Loss: 0.7, step_time: {}, throughput: {} img/s.\n"
    first, second = (
        line.format("11,868", 0, 0.7, "2.000", "16.000"),
        line.format("12,118", 1, "nan", "0.250", "128.000"),
    )
    text = f"noise\n{first}{second}throughput  128.0  img/s\n"
    assert logged(text, 16) == [
        {"step": 0, "at_ms": 0, "step_ns": 2_000_000_000},
        {"step": 1, "at_ms": 250, "step_ns": 250_000_000},
    ]
    assert logged("", 16) == []


HEARD = """push\t7/7\ttcprobe\tregistered\ttrain
push\t7/7\tother\ttext\tnoise
push\t7/7\ttcprobe\tregistered\tstep 8
pop\t7/7\ttcprobe
pop\t7/7\ttcprobe
push\t7/9\ttcprobe\tregistered\tstep 8
"""


def test_ranges_of_our_domain_are_read_and_summed(tmp_path: Path) -> None:
    (tmp_path / "heard").write_text(HEARD, encoding="utf-8")
    fake_nsys.export(tmp_path / "heard", tmp_path / "out.sqlite")
    found = read_ranges(tmp_path / "out.sqlite")
    assert found == [("train", 0, 4, 7), ("step 8", 2, 3, 7), ("step 8", 5, None, 9)]
    one = {"count": 1, "first_ns": 0, "open": 0, "sum_ns": 4, "min_ns": 4, "max_ns": 4, "threads": 1}
    two = {"count": 2, "first_ns": 2, "open": 1, "sum_ns": 1, "min_ns": 1, "max_ns": 1, "threads": 2}
    assert summed(found) == [{"range": "train", **one}, {"range": "step 8", **two}]


def test_an_export_without_our_ranges_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "out.sqlite"
    with pytest.raises(NotRecorded, match="exported nothing"):
        read_ranges(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    with pytest.raises(NotRecorded, match="no such table: NVTX_EVENTS"):
        read_ranges(path)
    path.unlink()
    (tmp_path / "heard").write_text("push\t7/7\tother\ttext\tnoise\n", encoding="utf-8")
    fake_nsys.export(tmp_path / "heard", path)
    with pytest.raises(NotRecorded, match="no range of NVTX domain tcprobe"):
        read_ranges(path)
