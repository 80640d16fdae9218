"""The units: their share of the time, and what is kept of a calibration however it ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.costs import calibrate, part, timings
from bench.gpu.costs.said import hide, problem
from bench.gpu.day import LOG, Day, NotRecorded, OutOfTime
from bench.gpu.machine import Framework, Machine
from bench.gpu.tables import read_table
from tests.calibration.made import H200, raw_csv, truth

TORCH, JAX = (Framework(name, "1", "python", "3.12", {}) for name in ("torch", "jax"))


def day(tmp_path: Path, *frameworks: Framework, dry: bool = False) -> Day:
    return Day(tmp_path / "out", Machine(H200.id, {}, 1, frameworks, None, None), dry, lambda _: None)


def test_the_first_framework_gets_most_and_what_is_left_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    kinds = [
        part.Kind(kind.name, lambda *asked: given.append(asked[3]), kind.shares, kind.least_s, kind.most_s)
        for kind in part.KINDS
    ]
    monkeypatch.setattr(part, "KINDS", kinds)
    found = day(tmp_path, JAX, TORCH)
    units = list(part.units(found))
    assert [unit.name for unit in units] == ["calibrate-torch", "pairs-torch", "calibrate-jax", "pairs-jax"]
    for unit, left in zip(units, (600, 350, 260, 100), strict=True):
        unit.record(tmp_path, left)
    assert given == pytest.approx([600 * 5 / 12, 350 * 3 / 7, 260 / 2, 100])
    place = found.folder / part.NAME / "pairs-torch"
    place.mkdir(parents=True)
    (place / "unit.json").write_text(json.dumps({"status": "done"}), encoding="utf-8")
    given.clear()
    for seconds in (225, 150, 6000):
        next(iter(part.units(found))).record(tmp_path, seconds)
    assert given == [125.0, 120.0, 300.0]  # 5/9 of 225; never below what it needs, nor above what it can use


class Program:
    """What stands in for `tcprobe calibrate`: each call does the next thing."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.asked: list[list[str]] = []

    def __call__(self, arguments: list[str], seconds: float, config: Path, log: Path) -> None:
        self.asked.append(arguments)
        self.steps.pop(0)(arguments, config, log)


def measures(name: str, cut: bool = False) -> Any:
    def step(arguments: list[str], config: Path, log: Path) -> None:
        raw = Path(arguments[arguments.index("-o") + 1])
        raw_csv(raw.with_name(name), levels=1)
        log.write_text(f"tcprobe: measuring in {raw.parent} at {Path.home()}/x\n", encoding="utf-8")
        if cut:
            raise OutOfTime

    return step


def fits(arguments: list[str], config: Path, log: Path) -> None:
    place = config / "tcprobe" / "calibration" / f"{H200.id}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(truth().to_json(), encoding="utf-8")


def refuses(arguments: list[str], config: Path, log: Path) -> None:
    log.write_text("tcprobe: error: too few products to fit\nhint: --budget gives more time\n", encoding="utf-8")


def both(*steps: Any) -> Any:
    return lambda *asked: [step(*asked) for step in steps]


def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *steps: Any) -> tuple[Path, Program]:
    program, folder = Program(*steps), tmp_path / "unit"
    folder.mkdir()
    monkeypatch.setattr(calibrate, "_calibrate", program)
    monkeypatch.setattr("bench.gpu.costs.clocks._fields", lambda: ())
    try:
        calibrate.record(day(tmp_path, TORCH), TORCH, folder, 100.0)
    finally:
        assert {p.name for p in folder.iterdir()} <= {LOG, "raw.csv.gz", "constants.json", "scores.csv.gz", "said.txt"}
    return folder, program


def test_a_calibration_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, program = recorded(tmp_path, monkeypatch, both(measures("raw.csv"), fits))
    ((asked),) = program.asked
    assert asked[asked.index("--budget") + 1] == pytest.approx("75.0") and "--dry-run" not in asked
    assert gzip.decompress((folder / "raw.csv.gz").read_bytes()).startswith(b"gpu,library,op")
    *_, total = read_table(folder / "scores.csv.gz")
    assert total["kind"] == "all" and float(total["error_pct"]) < 3 < float(total["shipped_pct"])
    assert (folder / "said.txt").read_text(encoding="utf-8") == "tcprobe: measuring in unit at ~/x\n"


def test_what_the_clock_cut_off_is_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, program = recorded(tmp_path, monkeypatch, measures("raw.csv.part", cut=True), fits)
    assert [asked[0] for asked in program.asked] == ["--framework", "--from"] and "--force" in program.asked[1]
    assert "ended by the clock" in (folder / "said.txt").read_text(encoding="utf-8")
    assert (folder / "constants.json").exists() and (folder / "raw.csv.gz").exists()


def test_too_little_is_said_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotRecorded, match="too few products to fit") as caught:
        recorded(tmp_path, monkeypatch, both(measures("raw.csv"), refuses), refuses)
    assert caught.value.remedy == "give more --minutes, and --only costs"
    assert (tmp_path / "unit" / "raw.csv.gz").exists()


def test_nothing_measured_is_a_failure_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotRecorded, match="too few"):
        recorded(tmp_path, monkeypatch, refuses)


def test_a_log_names_no_path(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{tmp_path}/a/raw.csv: kept\nTraceback\nBoom: {tmp_path}\n", encoding="utf-8")
    assert hide(log) == f"raw.csv: kept\nTraceback\nBoom: {tmp_path.name}\n"
    assert problem(tmp_path / "none") == ("it ended without a word", None)


def test_pairs_count_however_the_program_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "unit"
    folder.mkdir()
    line = "dense,gemm,forward,float16,a,b,2.0,1.0,0.5,0.1,7,ran,\n"

    def run(command: list[str], seconds: float, **_: Any) -> int:
        told = json.loads(Path(command[-1]).read_text(encoding="utf-8"))
        with Path(told["rows"]).open("a", encoding="utf-8") as rows:
            rows.write(line if told["tf32"] else "")
        if told["tf32"]:
            raise OutOfTime
        about = {"framework": "PyTorch", "version": "2", "cuda": "13.0", "gpu": "NVIDIA H200"}
        answer = {"about": about, "timed": 0, "failed": 0, "left": 66, "broken": 0}
        Path(told["out"]).write_text(json.dumps(answer), encoding="utf-8")
        return 0

    monkeypatch.setattr(timings, "run", run)
    monkeypatch.setattr("bench.gpu.costs.clocks._fields", lambda: ())
    timings.record(day(tmp_path, TORCH), TORCH, folder, 60.0)
    (row,) = read_table(folder / "pairs.csv.gz")
    assert (row["ratio"], row["library"]) == ("0.5", "cublas12")
    said = (folder / "said.txt").read_text(encoding="utf-8").splitlines()
    assert said[0] == "PyTorch 2, CUDA 13.0, NVIDIA H200"
    assert said[1].startswith("ended before its end") and said[2].endswith("66 left for want of time")
    assert {path.name for path in folder.iterdir()} == {"pairs.csv.gz", "said.txt"}
    line = ""
    with pytest.raises(NotRecorded):
        timings.record(day(tmp_path, TORCH), TORCH, folder, 60.0)


def test_a_framework_that_sees_no_gpu_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def timed(*_: Any) -> dict[str, str]:
        asked.append(1)
        return {"unusable": "PyTorch sees no GPU"}

    monkeypatch.setattr(timings, "_timed", timed)
    monkeypatch.setattr("bench.gpu.costs.clocks._fields", lambda: ())
    with pytest.raises(NotRecorded, match="PyTorch sees no GPU"):
        timings.record(day(tmp_path, TORCH), TORCH, tmp_path, 60.0)
    assert asked == [1] and list(tmp_path.iterdir()) == []


def test_a_gpu_that_the_list_lacks_has_to_be_added(tmp_path: Path) -> None:
    unknown = Day(tmp_path, Machine(None, {"name": "NVIDIA H900"}, 1, (TORCH,), None, None), False, lambda _: None)
    with pytest.raises(NotRecorded, match=r"gpus\.csv does not have NVIDIA H900"):
        calibrate.record(unknown, TORCH, tmp_path, 60.0)
    assert timings._memory(unknown)[0] >= 96 * 2**20
