"""Batches of cases, run by a program of the test's in a framework's place, and counted by the fake Nsight Compute."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from bench.gpu.classification import part
from bench.gpu.classification.cases import Case, plan
from bench.gpu.day import Clock, Day
from bench.gpu.machine import Framework, Machine
from bench.gpu.tables import read_table

PROGRAM = """
import os
import loop

orders = loop.orders()

def prepare(case):
    if case["op"] == "conv":
        os._exit(1)
    if case["dtype"] == "tf32":
        raise loop.Lacking("it has no TF32")
    if case["dtype"] == "float32":
        raise ValueError("no kernel in /home/someone/lib.so\\nmore")
    return lambda: None

loop.run(orders, loop.open_ranges(orders), prepare)
"""


def day(folder: Path, *names: str) -> Day:
    frameworks = tuple(Framework(name, "1.0", sys.executable, "3.11", {}) for name in names)
    return Day(folder, Machine(None, {}, 0, frameworks, None, None), True, lambda _: None)


def test_frameworks_take_turns() -> None:
    units = list(part.units(day(Path(), "torch", "jax")))
    assert [unit.name for unit in units] == ["ncu-torch-1", "ncu-jax-1", "ncu-torch-2", "ncu-jax-2"]
    real = Day(Path(), day(Path(), "torch").machine, False, lambda _: None)
    assert sum(unit.about["cases"] for unit in part.units(real)) == len(plan())


def test_a_batch_that_the_clock_took_whole_is_tried_once_more(tmp_path: Path) -> None:
    recording = day(tmp_path, "torch")
    names = []
    for unit in part.units(recording):
        names.append((unit.name, unit.about["cases"]))
        place = tmp_path / part.NAME / unit.name
        place.mkdir(parents=True)
        (place / "unit.json").write_text('{"status": "out of time"}')
    assert names == [("ncu-torch-1", 30), ("ncu-torch-2", 30), ("ncu-torch-3", 10), ("ncu-torch-4", 10)]


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, cases: list[Case]) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    shutil.copy(part.PROGRAMS / "loop.py", programs)
    (programs / "torch_ops.py").write_text(program)
    monkeypatch.setattr(part, "PROGRAMS", programs)
    monkeypatch.setattr(part, "planned", lambda _: cases)


def recorded(recording: Day) -> list[dict[str, str]]:
    """Record what is left, and return what became of the cases by unit."""
    names = [unit.name for unit in part.units(recording) if recording.do(part.NAME, unit, Clock(60.0)) == "done"]
    tables = [read_table(recording.folder / part.NAME / name / "cases.csv.gz") for name in names]
    return [{row["case"]: row["status"] for row in rows} for rows in tables]


def test_what_the_clock_cut_off_is_counted_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in plan() if case.op == "gemm" and case.dtype == "bfloat16"][:4]
    slow = f"""
orders["cases"] = orders["cases"][:2]
def prepare(case):
    if case["case"] == "{cases[1].name}":
        os._exit(1)
    return lambda: None
"""
    program = PROGRAM[: PROGRAM.index("def prepare")] + slow + PROGRAM[PROGRAM.index("loop.run") :]
    stand_in(tmp_path, monkeypatch, program, cases)
    monkeypatch.setattr(
        part, "DRY_S", 1e9
    )  # too little time is left for a second attempt: what did not end was cut off
    recording = day(tmp_path / "out", "torch")
    first, second, third, fourth = (case.name for case in cases)
    assert recording.do(part.NAME, next(part.units(recording)), Clock(60.0)) == "done"
    (tmp_path / "programs" / "torch_ops.py").write_text(PROGRAM)
    (recording.folder / part.NAME / "ncu-torch-3").mkdir()  # not begun, by a call before
    before, later = recorded(recording)
    assert before == {first: "ran", second: part.LATE}
    assert list(later.items()) == [(third, "ran"), (fourth, "ran"), (second, "ran")]
    assert {place.name for place in (recording.folder / part.NAME).iterdir()} == {"ncu-torch-1", "ncu-torch-2"}


def test_a_case_that_fails_or_crashes_does_not_lose_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case in plan()[:8] if case.op == "gemm"] + [case for case in plan() if case.op == "conv"][:1]
    order = [cases[0], cases[-1], *cases[1:-1]]
    stand_in(tmp_path, monkeypatch, PROGRAM, order)
    (statuses,) = recorded(day(tmp_path / "out", "torch"))
    place = tmp_path / "out" / part.NAME / "ncu-torch-1"
    assert statuses == {
        order[0].name: "ran",
        order[1].name: part.CRASHED,
        "gemm-forward-float16-nn-4096x4096x4096": "ran",
        "gemm-forward-tf32-nn-4096x4096x4096": "it has no TF32",
        "gemm-forward-float32-nn-4096x4096x4096": "ValueError: no kernel in lib.so",
    }
    rows = read_table(place / "kernels.csv.gz")
    assert [(row["case"], row["launch"]) for row in rows] == [(order[0].name, "0"), (order[2].name, "1")]
    assert {path.name for path in place.iterdir()} == {
        "cases.csv.gz", "kernels.csv.gz", "ncu.csv.gz", "count.json", "unit.json",
    }  # fmt: skip


def test_nothing_more_is_tried_where_nothing_can_be_counted(tmp_path: Path) -> None:
    recording = day(tmp_path, "torch", "jax")
    recording = Day(tmp_path, recording.machine, False, lambda _: None)
    tried = [recording.do(part.NAME, unit, Clock(600.0)) for unit in part.units(recording)]
    assert tried == ["failed"]
    told = json.loads((tmp_path / part.NAME / "ncu-torch-1" / "unit.json").read_text())
    assert "no Nsight Compute" in told["reason"]
    assert not list((tmp_path / part.NAME / "ncu-torch-1").glob("attempt*"))
