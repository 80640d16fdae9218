"""Predictions set beside measurements, worked by hand."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.gpu.costs.calibrate import CONSTANTS
from bench.gpu.costs.pairs import record_of
from bench.gpu.costs.predicted import pairs, products, ratio
from bench.gpu.costs.timings import TABLE
from bench.gpu.tables import PAIRS, write_table
from tcprobe.calibration.check import split_rows
from tcprobe.calibration.shapes import Conv, MatMul
from tcprobe.cost.measured import csv_of, measurements_of
from tcprobe.cost.predict import Cost, Target, op_cost
from tests.calibration.made import H200, truth

BEFORE, AFTER = (Cost(low, ns, high, "compute", "yes") for low, ns, high in ((80.0, 100.0, 120.0), (40.0, 50.0, 90.0)))


def test_ends_are_compared_with_each_other() -> None:
    assert ratio(BEFORE, AFTER) == pytest.approx((0.5, 0.5, 0.75))
    launched = replace(BEFORE, launch_ns=10.0), replace(AFTER, launch_ns=10.0)
    assert ratio(*launched) == pytest.approx((60 / 110, 60 / 110, 100 / 130))  # 50 / 90 is no less than the likely one


def test_an_unaligned_rate_has_an_error_of_its_own() -> None:
    # the least saving is 50 - hypot(100 - 80, 90 - 50), the largest 50 + hypot(120 - 100, 50 - 40); of 100 ns
    found = ratio(replace(BEFORE, own_rate=True), AFTER)
    assert found == pytest.approx((1 - 0.7236, 0.5, 1 - 0.0528), abs=1e-4)


def row(**changed: str) -> dict[str, str]:
    cells = {
        "pair": "dense inputs 4090 to 4096", "op": "gemm", "pass": "forward", "dtype": "float16",
        "shape_from": "m=4096 n=4096 k=4090 layout=nn", "shape_to": "m=4096 n=4096 k=4096 layout=nn",
        "from_ns": "400000.0", "to_ns": "200000.0", "ratio": "0.5000", "spread_pct": "1.50", "rounds": "7",
        "status": "ran", "library": "cublas12",
    }  # fmt: skip
    return {**cells, **changed}


def folder(tmp_path: Path, framework: str = "torch") -> Path:
    place = tmp_path / f"pairs-{framework}"
    place.mkdir()
    (place / "unit.json").write_text(json.dumps({"status": "done", "framework": framework}), encoding="utf-8")
    failed = {"status": "no such dtype", "from_ns": "", "to_ns": "", "ratio": "", "spread_pct": "", "rounds": ""}
    write_table(place / TABLE, PAIRS, [row(), row(dtype="int8", **failed)])
    return place


def test_pairs_are_predicted_with_shipped_and_with_the_days_constants(tmp_path: Path) -> None:
    place = folder(tmp_path)
    own = tmp_path / "calibrate-torch"
    own.mkdir()
    (own / CONSTANTS).write_text(truth().to_json(), encoding="utf-8")
    (found,) = pairs(place, H200.id)
    assert (found["ratio"], found["spread_pct"], found["dtype"]) == (0.5, 1.5, "float16")
    for name, constants in (("shipped", None), ("calibrated", truth())):
        target = Target(H200, "cublas12", tf32=False, constants=constants)
        costs = [op_cost(record_of(row(), shape), target) for shape in ("shape_from", "shape_to")]
        assert costs[0] and costs[1]
        assert found[name] == pytest.approx(costs[1].timed_ns / costs[0].timed_ns)
        low, high = found[f"{name}_low"], found[f"{name}_high"]
        assert (
            isinstance(low, float) and isinstance(high, float) and low <= costs[1].timed_ns / costs[0].timed_ns <= high
        )
    assert isinstance(found["calibrated"], float) and 0.5 < found["calibrated"] < 0.52  # an even size has half the rate


def test_nothing_is_predicted_for_an_unknown_gpu_or_from_anothers_constants(tmp_path: Path) -> None:
    place = folder(tmp_path, "jax")
    assert {pairs(place, None)[0][name] for name in ("shipped_low", "shipped", "calibrated")} == {None}
    own = tmp_path / "calibrate-jax"
    own.mkdir()
    (own / CONSTANTS).write_text(truth().to_json(), encoding="utf-8")
    (found,) = pairs(place, "a100-sxm-80")
    assert found["shipped"] is not None and found["calibrated"] is None


def test_xla_pads_what_jax_multiplies(tmp_path: Path) -> None:
    through = {name: pairs(folder(tmp_path, name), H200.id)[0]["shipped"] for name in ("torch", "jax")}
    assert isinstance(through["torch"], float) and isinstance(through["jax"], float)
    assert through["torch"] < 0.6 < through["jax"]


def test_products_by_kind(tmp_path: Path) -> None:
    shapes = [
        (MatMul(4096, 4096, 4096, 1, True, True), "float16", 1.25), (MatMul(4096, 4096, 2048), "float16", 0.8),
        (MatMul(2048, 4096, 4096), "float16", 1.25), (MatMul(4096, 4095, 4096, 2, transpose_b=True), "tf32", 1.0),
        (Conv(64, 28, 128, 128, 3, 1, "wgrad"), "float16", 4.0),
    ]  # fmt: skip
    rows: list[dict[str, object]] = [
        {"gpu": H200.id, "library": "cublas12", "dtype": dtype, "time_ns": 1, "source": "made", **shape.columns()}
        for shape, dtype, _ in shapes
    ]
    path = tmp_path / "raw.csv"
    for line, read, (_, _, slower) in zip(rows, measurements_of(csv_of(rows), path), shapes, strict=True):
        cost = op_cost(read.record, Target(H200, "cublas12", tf32=False))
        assert cost is not None
        line["time_ns"] = repr(cost.timed_ns * slower)
    text = csv_of([*rows, {**rows[0], "gpu": "a100-sxm-80"}])
    (tmp_path / "raw.csv.gz").write_bytes(gzip.compress(text.encode()))
    found = {(one["kind"], one["part"], one["dtype"]): one for one in products(tmp_path / "raw.csv.gz", H200.id)}
    assert {key: one["products"] for key, one in found.items()} == {
        ("aligned GEMMs", "nn", "float16"): 2, ("aligned GEMMs", "tt", "float16"): 1,
        ("unaligned GEMMs", "nt", "tf32"): 1, ("aligned convolutions", "wgrad", "float16"): 1, ("all", "", ""): 5,
    }  # fmt: skip
    both = found["aligned GEMMs", "nn", "float16"]
    assert (both["error_pct"], both["bias_pct"]) == pytest.approx((22.5, 2.5))  # 25 % too slow, 20 % too fast
    assert found["aligned convolutions", "wgrad", "float16"]["bias_pct"] == pytest.approx(-75)
    assert found["unaligned GEMMs", "nt", "tf32"]["in_range_pct"] == 100
    assert found["aligned convolutions", "wgrad", "float16"]["in_range_pct"] == 0
    path.write_text(text, encoding="utf-8")
    held = split_rows(one for one in measurements_of(text, path) if one.gpu == H200.id)[1]
    fitted = products(path, H200.id, truth())
    assert sum(int(one["products"] or 0) for one in fitted if one["kind"] != "all") == len(held) < 5
