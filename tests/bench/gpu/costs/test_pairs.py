"""The resize pairs: what an audit advises, one size changed at a time; and what times them, on a device made up."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.costs import timed_pairs
from bench.gpu.costs.pairs import FIRST, NARROW, THEN, Order, orders, record_of, shape_text
from bench.gpu.tables import PAIRS
from tcprobe.calibration.measure import timing
from tcprobe.calibration.shapes import Conv, MatMul
from tcprobe.hardware import find_gpu

H200 = find_gpu("h200-sxm")
CORES, PLAIN = orders(H200.l2_bytes, H200.memory_bytes, one_byte=True, dry=False)


def row(order: Order) -> dict[str, Any]:
    found = order["row"]
    assert isinstance(found, dict)
    return found


def test_both_sides_differ_in_one_size_and_are_told_in_full() -> None:
    for order in (*CORES, *PLAIN):
        before, after, told = order["from"], order["to"], row(order)
        assert isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys()
        assert len([name for name in before if before[name] != after[name]]) == 1, told
        assert told["op"] == before["op"] and before["dtype"] == after["dtype"] == told["dtype"]
        for side, shape in ((before, "shape_from"), (after, "shape_to")):
            record = record_of(told, shape)
            sizes = {size for one in (*record.input_shapes, record.output_shape or ()) if one for size in one}
            names = ("m", "n", "k") if told["op"] == "gemm" else ("images", "channels", "filters")
            assert {int(side[name]) for name in names} <= sizes
            assert told["op"] == "gemm" or record.pass_ == told["pass"]


def test_every_dtype_and_pass_comes_the_most_telling_first() -> None:
    seen = [(row(o)["dtype"], row(o)["pass"]) for o in CORES]
    for dtype in ("float16", "bfloat16", "tf32"):
        assert {kind for of, kind in seen if of == dtype} == {"forward", "dgrad", "wgrad"}
    assert {kind for of, kind in seen if of in ("int8", "float8_e4m3fn")} == {"forward"}
    assert [dtype for dtype, _ in seen][:60] == ["float16"] * 30 + ["tf32"] * 30
    assert {row(o)["dtype"] for o in PLAIN} == {"float32"}
    names = [pair.name for pair in (*FIRST, *THEN)]
    assert names[0] == "dense inputs 4090 to 4096"
    for asked in ("dense outputs 50257 to 50304", "image filters 1 to 8", "scores size 60 to 64", "dense batch 4090"):
        assert any(name.startswith(asked) for name in names)
    without = orders(H200.l2_bytes, H200.memory_bytes, one_byte=False, dry=False)[0]
    assert len(CORES) - len(without) == 2 * len(NARROW)
    assert len(orders(1e6, 8e9, one_byte=True, dry=True)[0]) < 12


def test_what_takes_too_much_memory_is_left_out() -> None:
    small = orders(4e6, 4e9, one_byte=True, dry=False)[0]
    assert 0 < len(small) < len(CORES)
    assert "dense outputs 50257 to 50304" not in {row(o)["pair"] for o in small if row(o)["dtype"] == "tf32"}


def test_shapes_by_hand() -> None:
    assert shape_text(MatMul(1, 2, 3, 4, True, False)) == "m=1 n=2 k=3 layout=tn batch=4"
    conv = "images=1 size=8 channels=3 filters=5 kernel=3 stride=2"
    assert shape_text(Conv(1, 8, 3, 5, 3, 2)) == conv
    record = record_of({"op": "conv", "pass": "wgrad", "dtype": "float16", "shape_to": conv}, "shape_to")
    assert record.input_shapes == ((1, 8, 8, 3), (4,), (1, 4, 4, 5))
    dense = FIRST[0].layer.passes()
    assert [shape_text(product) for product in dense.values()] == [
        "m=4096 n=4096 k=4090 layout=nn",
        "m=4096 n=4090 k=4096 layout=nt",
        "m=4090 n=4096 k=4096 layout=tn",
    ]


class Made:
    """A framework that takes 100 ns for a product, and so much less for an aligned one."""

    failures = (ArithmeticError,)

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.broken = False

    def operands(self, case: dict[str, Any]) -> None:
        if self.broken:
            raise ArithmeticError("an illegal memory access was encountered")

    def wait(self, results: None) -> None:
        pass

    def sampler(self, session: Any, case: dict[str, Any], sets: int, *lengths: int) -> Callable[[], float]:
        if case["dtype"] == "bfloat16":
            raise ArithmeticError("no such\ndtype")
        drift = iter((1.0, 1.1, 1.2, 2.0, 1.0, 1.0, 1.0))

        def sample() -> float:
            self.taken.append(int(case["k"]))
            return (50.0 if int(case["k"]) % 8 == 0 else 100.0) * next(drift)

        return sample


def timed(made: Made, tmp_path: Path, pairs: list[dict[str, Any]], seconds: float) -> tuple[Any, list[dict[str, str]]]:
    rows = tmp_path / "rows.csv"
    rows.write_text(",".join(PAIRS) + "\n", encoding="utf-8")
    told = {"framework": "torch", "device": "cpu", "pairs": pairs, "rows": str(rows), "columns": PAIRS, "rounds": 3}
    told |= {"sample_ms": 1, "warm_ms": 0, "warm_s": 0.0}

    class Timing:
        sampler, median, NotFinite = made.sampler, staticmethod(timing.median), timing.NotFinite
        works = staticmethod(timing.works)

    answer = timed_pairs.timed(made, told, timed_pairs.time.monotonic() + seconds, Timing)
    return answer, list(csv.DictReader(io.StringIO(rows.read_text(encoding="utf-8"))))


def test_samples_are_taken_in_turns_and_the_ratio_is_that_of_medians(tmp_path: Path) -> None:
    made, order = Made(), json.loads(json.dumps(CORES[0]))
    broken = json.loads(json.dumps(next(o for o in CORES if row(o)["dtype"] == "bfloat16")))
    answer, (first, second) = timed(made, tmp_path, [order, broken], 60)
    assert answer == {"timed": 1, "failed": 1, "left": 0, "broken": 0}
    assert made.taken == [4090, 4096] * 3
    assert (first["from_ns"], first["to_ns"], first["ratio"]) == ("110.0", "55.0", "0.5000")
    assert (first["spread_pct"], first["rounds"], first["status"]) == ("0.00", "3", "ran")
    assert (second["ratio"], second["status"]) == ("", "no such dtype")


def test_the_spread_is_the_largest_deviation_of_a_round() -> None:
    found = timed_pairs.figures([(100.0, 50.0), (100.0, 60.0), (200.0, 110.0)], timing.median)
    assert found == {"from_ns": "100.0", "to_ns": "60.0", "ratio": "0.6000", "spread_pct": "9.09"}


def test_no_pair_begins_when_the_time_is_up_or_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = json.loads(json.dumps(CORES[0]))
    answer, rows = timed(Made(), tmp_path, [order] * 3, -1)
    assert answer == {"timed": 0, "failed": 0, "left": 3, "broken": 0} and rows == []
    numbers = iter((1, 1, 2))
    monkeypatch.setattr(os, "getppid", lambda: next(numbers))
    answer, rows = timed(Made(), tmp_path, [order] * 3, 60)
    assert answer == {"timed": 1, "failed": 0, "left": 2, "broken": 0} and len(rows) == 1


def test_after_a_failed_device_no_pair_is_blamed(tmp_path: Path) -> None:
    made, order = Made(), json.loads(json.dumps(CORES[0]))
    made.broken = True
    failing = json.loads(json.dumps(next(o for o in CORES if row(o)["dtype"] == "bfloat16")))
    answer, rows = timed(made, tmp_path, [failing, order, order], 60)
    assert answer == {"timed": 0, "failed": 1, "left": 2, "broken": 1} and len(rows) == 1
