"""The measuring program, through a framework that is made up: timing, the budget, whole rows, what fails."""

from __future__ import annotations

import ast
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.calibration import measure as package
from tcprobe.calibration.measure import base, work
from tcprobe.calibration.start import FRAMEWORKS
from tcprobe.cost.measured import MEASUREMENT_COLUMNS

FOLDER = Path(package.__file__).parent
CASE = {"op": "gemm", "dtype": "float16", "m": 8, "n": 8, "k": 8, "batch": 1}


class Clock:
    """Time that only products take."""

    now = 0

    def perf_counter_ns(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1e9


class Session:
    """A device that computes a product in a given time, once it is waited for."""

    failures = (ArithmeticError,)

    def __init__(self, clock: Clock, times: Callable[[], int], finite: bool = True) -> None:
        self.clock, self.times, self.is_finite = clock, times, finite
        self.queued: list[int] = []
        self.executed = 0
        self.made: list[int] = []

    def about(self) -> dict[str, Any]:
        return {"framework": "Made", "version": "1"}

    def function(self, case: dict[str, Any]) -> Callable[..., Any]:
        if case["dtype"] == "float8":
            raise ArithmeticError("no such dtype")
        return lambda number: self.queued.append(self.times())

    def operands(self, case: dict[str, Any]) -> tuple[Any, ...]:
        self.made.append(len(self.made))
        return (self.made[-1],)

    def together(self, function: Callable[..., Any], sets: Sequence[Any]) -> Callable[[], Any]:
        return lambda: [function(*operands) for operands in sets]

    def wait(self, results: Any) -> None:
        self.clock.now += sum(self.queued)
        self.executed += len(self.queued)
        self.queued.clear()

    def finite(self, results: Any) -> bool:
        return self.is_finite


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(work, "time", found)
    monkeypatch.setattr(work, "gc", SimpleNamespace(collect=lambda: None))  # here it would walk all that pytest holds
    return found


@pytest.mark.parametrize("ns", [3_000, 150_000, 5_000_000, 400_000_000])
@pytest.mark.parametrize("sets", [1, 5, 64])
def test_the_time_of_one_execution(clock: Clock, ns: int, sets: int) -> None:
    session = Session(clock, lambda: ns)
    assert work.time_case(session, CASE, sets) == ns
    # short products take turns on several operands even if the cache could not hold one
    assert len(session.made) == (max(sets, work.SHORT_SETS) if ns < work.SHORT_NS else sets)
    assert session.executed * ns >= work.SAMPLE_COUNT * work.SAMPLE_NS


def test_the_median_leaves_outliers_out(clock: Clock) -> None:
    samples = iter([1_000_000] * 11 + [9_000_000])
    session = Session(clock, lambda: next(samples, 1_000_000))
    assert work.time_case(session, CASE, 1) == pytest.approx(1_000_000, rel=0.01)


def test_a_result_that_is_not_finite(clock: Clock) -> None:
    with pytest.raises(work.NotFinite):
        work.time_case(Session(clock, lambda: 1000, finite=False), CASE, 1)


def done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: Session, dtypes: Sequence[str], seconds: float
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    class Backend:
        NAME = "made"

        def open(self, device: str, tf32: bool) -> Session:
            return session

    monkeypatch.setattr(work, "BACKENDS", (Backend(),))
    rows, out, orders = tmp_path / "rows.csv", tmp_path / "out.json", tmp_path / "orders.json"
    rows.write_text(",".join(MEASUREMENT_COLUMNS) + "\n", encoding="utf-8")
    cases = [{"row": {**CASE, "dtype": dtype}, "sets": 2} for dtype in dtypes]
    told = {"framework": "made", "device": "gpu:0", "tf32": True, "out": str(out), "rows": str(rows), "cases": cases}
    told |= {
        "columns": MEASUREMENT_COLUMNS,
        "source": 'a, "b"',
        "seconds": seconds,
        "sample_ms": 10,
        "warm_ms": 20,
        "warm_s": 0,
    }
    orders.write_text(json.dumps(told), encoding="utf-8")
    work.carry_out(str(orders))
    with rows.open(encoding="utf-8", newline="") as file:
        return json.loads(out.read_text(encoding="utf-8")), list(csv.DictReader(file))


def test_rows_and_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    dtypes = ["float16", "float8", "bfloat16", "float8"]
    answer, rows = done(tmp_path, monkeypatch, Session(clock, lambda: 1_000_000), dtypes, 100)
    assert answer["about"] == {"framework": "Made", "version": "1"}
    assert (answer["measured"], answer["left"]) == (2, 0)
    assert answer["failed"] == {"float8: no such dtype": 2}
    assert [(r["dtype"], r["time_ns"], r["source"]) for r in rows] == [
        ("float16", "1000000.0", 'a, "b"'), ("bfloat16", "1000000.0", 'a, "b"')
    ]  # fmt: skip


def test_after_a_failed_device_no_case_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    class Broken(Session):
        def wait(self, results: Any) -> None:
            if not self.queued:  # what `works` waits for
                raise ArithmeticError("an illegal memory access was encountered")
            super().wait(results)

    answer, rows = done(tmp_path, monkeypatch, Broken(clock, lambda: 1_000_000), ["float16", "float8", "float16"], 100)
    assert (answer["measured"], answer["failed"]) == (1, {"float8: no such dtype": 1})
    assert (answer["left"], answer["broken"]) == (0, 1)
    assert len(rows) == 1


def test_the_budget_cuts_between_products(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    seconds = 0.5
    answer, rows = done(tmp_path, monkeypatch, Session(clock, lambda: 1_000_000), ["float16"] * 50, seconds)
    assert 0 < answer["measured"] == len(rows) < 50
    assert answer["left"] == 50 - answer["measured"]
    assert 0.6 * seconds < clock.now / 1e9 <= seconds


def test_an_orphan_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    parents = iter([100, 100, 100, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    answer, rows = done(tmp_path, monkeypatch, Session(clock, lambda: 1_000_000), ["float16"] * 9, 100)
    assert (answer["measured"], answer["left"], len(rows)) == (2, 7, 2)


def test_a_framework_that_is_not_there(tmp_path: Path) -> None:
    orders, out = tmp_path / "orders.json", tmp_path / "out.json"
    for name, title in FRAMEWORKS.items():
        orders.write_text(json.dumps({"framework": name, "device": "cpu", "tf32": True, "out": str(out)}))
        bare = [sys.executable, "-S", "-E", str(FOLDER), str(orders)]  # without site-packages
        subprocess.run(bare, check=True, timeout=60, capture_output=True)
        assert json.loads(out.read_text(encoding="utf-8")) == {"unusable": f"{title} is not installed"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_it_needs_python_3_8_and_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            assert name.partition(".")[0] in sys.stdlib_module_names


def test_columns_as_the_csv_has_them() -> None:
    case = {"images": "2", "height": "9", "width": "10", "channels": "3", "filters": "5"}
    case |= {"kernel": "3x5", "stride": "2x1", "padding": "1x2"}
    assert base.conv_shapes(case) == ((2, 9, 10, 3), (3, 5, 3, 5), (2, 5, 10, 5))
    gemm = {"m": "4", "n": "5", "k": "6", "batch": "1", "transpose_a": "1", "transpose_b": ""}
    assert base.gemm_shapes(gemm) == ((6, 4), (6, 5))
    assert base.gemm_shapes(gemm | {"batch": 3, "transpose_b": 1}) == ((3, 6, 4), (3, 5, 6))
    assert base.memory_dtype({"dtype": "tf32"}) == "float32"
    with pytest.raises(base.Unusable, match="sees GPUs 0 to 1, no GPU 2"):
        base.pick("gpu:2", ["a", "b"], "Made")
    with pytest.raises(base.Unusable, match="sees no GPU"):
        base.pick("gpu:0", [], "Made")
