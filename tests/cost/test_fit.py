"""Measured products: their CSV, and constants fitted to times that the model itself made."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.fit import START
from tcprobe.cost.constants import Constants, Multiplier, shipped
from tcprobe.cost.fit import estimates, fit, fit_rate, sample_of
from tcprobe.cost.measured import MEASUREMENT_COLUMNS, Measurement, conv_record, csv_of, gemm_record, measurements_of
from tcprobe.cost.predict import Target, op_cost
from tcprobe.cost.tiles import Chip, Work
from tcprobe.errors import WrongFormat
from tcprobe.gemm.conv import convolution_of
from tcprobe.hardware import find_gpu
from tcprobe.schema.op import OpRecord

A100 = find_gpu("a100-sxm-80")
GEMM = {"gpu": "a100-sxm-80", "library": "cublas12", "op": "gemm", "pass": "forward", "dtype": "float16"}
CONV = GEMM | {
    "op": "conv", "pass": "wgrad", "images": 32, "height": 28, "width": 30, "channels": 31, "filters": 7,
    "kernel": "5x3", "stride": "2x1", "padding": "SAME",
}  # fmt: skip


def written(path: Path, **changed: object) -> Path:
    rows = [GEMM | {"m": 8, "n": 16, "k": 24, "batch": 1, "transpose_b": 1, "time_ns": 5000.5, "source": "here"}]
    rows.append(CONV | {"time_ns": 7000} | changed)
    path.write_text(csv_of(rows), encoding="utf-8")
    return path


def measured(path: Path) -> list[Measurement]:
    return measurements_of(path.read_text(encoding="utf-8"), path)


def test_rows_are_written_and_read(tmp_path: Path) -> None:
    gemm, conv = measured(written(tmp_path / "raw.csv"))
    assert gemm == Measurement(
        "a100-sxm-80", "cublas12", gemm_record(8, 16, 24, "float16", transpose_b=True), 5000.5, "here"
    )
    known = convolution_of(conv.record, "wgrad")
    assert known is not None
    assert (known.size, known.out, known.kernel, known.strides) == ((28, 30), (14, 30), (5, 3), (2, 1))
    assert (known.batch, known.channels, known.filters, conv.record.pass_) == (32, 31, 7, "wgrad")


def test_padding_may_be_valid_or_given(tmp_path: Path) -> None:
    valid = measured(written(tmp_path / "a.csv", padding="VALID"))[1].record
    given = measured(written(tmp_path / "b.csv", padding="2x1"))[1].record
    assert convolution_of(valid, "wgrad").out == (12, 28)  # type: ignore[union-attr]
    assert convolution_of(given, "wgrad").out == (14, 30)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("time_ns", "0"), ("time_ns", "nan"), ("time_ns", ""), ("images", "0"), ("images", "x"), ("op", "sum"),
        ("library", "cublas9"), ("pass", "backward"), ("kernel", "5"), ("padding", "round"),
        ("images", str(2**40 + 1)), ("filters", "-8"), ("kernel", "-3x3"), ("stride", "0x1"), ("padding", "-1x0"),
    ],
)  # fmt: skip
def test_a_damaged_row_is_named(tmp_path: Path, column: str, value: str) -> None:
    with pytest.raises(WrongFormat, match="line 3"):
        measured(written(tmp_path / "raw.csv", **{column: value}))


def test_a_csv_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(WrongFormat, match="no column 'gpu'"):
        measurements_of(path.read_text(encoding="utf-8"), path)
    assert MEASUREMENT_COLUMNS[0] == "gpu"


TRUTH = Constants(
    "a100-sxm-80",
    "made",
    "calibrated",
    {"tc16": replace(shipped()["a100-sxm-80"].rates["tc16"], emax=0.6, bwf=0.5, t0_ns=8000.0, spread=(1.0, 1.0, 1.0))},
    {f"tc16:{pass_}": (1.5, 1.5, 1.5) for pass_ in ("forward", "dgrad", "wgrad")},
    {"gemm:tc16:odd": Multiplier(0.5, 0.5, 0.5), "conv:tc16:forward:odd": Multiplier(0.7, 0.7, 0.7)},
)


def times(records: list[OpRecord]) -> list[Measurement]:
    """Return rows whose times are those of a GPU with the constants of `TRUTH`."""
    on = Target(A100, constants=TRUTH)
    found = [(record, op_cost(record, on)) for record in records]
    return [Measurement(A100.id, "cublas12", record, cost.ns) for record, cost in found if cost is not None]


def shapes(count: int, unaligned: int = 0) -> list[OpRecord]:
    sizes = random.Random(7)
    drawn = [[8 * int(2 ** sizes.uniform(3, 10)) for _ in "mnk"] for _ in range(count)]
    odd = [gemm_record(4096, 4095 - 16 * i, 4096, "float16") for i in range(unaligned)]
    return [gemm_record(m, n, k, "float16") for m, n, k in drawn] + odd


def convs(channels: int) -> list[OpRecord]:
    return [conv_record("forward", "float16", (64, 28, 28, channels), 128 + 8 * i, (3, 3)) for i in range(15)]


def test_a_fit_finds_the_constants_behind_the_times() -> None:
    pytest.importorskip("numpy")
    found = fit(times(shapes(80, unaligned=5) + convs(128) + convs(129)), A100, "here")
    assert found is not None
    assert (found.gpu, found.source, found.basis) == ("a100-sxm-80", "here", "calibrated")
    rate = found.rates["tc16"]
    assert rate.t0_ns == pytest.approx(2500)  # what is more is the launch
    assert rate.t0_ns + rate.launch_ns == pytest.approx(8000, rel=0.15)
    assert rate.spread == pytest.approx((1.0, 1.0, 1.0), abs=0.1)
    assert found.conv["tc16:forward"] == pytest.approx((1.5, 1.5, 1.5), rel=0.15)
    assert found.multipliers["gemm:tc16:odd"].mid == pytest.approx(0.5, rel=0.15)
    assert found.multipliers["conv:tc16:forward:odd"].mid == pytest.approx(0.7, rel=0.15)
    # and predicts products that it has not seen
    unseen = gemm_record(3000, 5008, 2000, "float16")
    known, again = op_cost(unseen, Target(A100, constants=TRUTH)), op_cost(unseen, Target(A100, constants=found))
    assert known is not None and again is not None
    assert again.timed_ns == pytest.approx(known.timed_ns, rel=0.1)


def test_a_fit_from_nothing_moves_the_tiles_too() -> None:
    pytest.importorskip("numpy")
    rows = times(shapes(300))
    found = fit(rows, A100, "here", start={"tc16": START})
    assert found is not None
    assert found.rates["tc16"].tiles != START.tiles
    off = [abs(op_cost(r.record, Target(A100, constants=found)).timed_ns / r.time_ns - 1) for r in rows]  # type: ignore[union-attr]
    assert sum(off) / len(off) < 0.05


def test_too_few_products_fit_nothing() -> None:
    pytest.importorskip("numpy")
    assert fit(times(shapes(5)), A100, "here") is None
    assert fit(times(shapes(80)), find_gpu("t4"), "here") is None  # measured on another GPU


def test_the_range_of_few_products_is_that_of_products_a_fit_has_not_seen() -> None:
    """Eight products with errors that three constants can follow: left out in turn, they lie further off."""
    rng = random.Random(5)
    chip = Chip(shipped()["a100-sxm-80"].rates["tc16"], 312_000.0, 2039.0, 108, 40 * 2**20)
    works = [Work(m, n, k, 1, 2.0 * (m * n + m * k + n * k)) for m, n, k in product((256, 4096), repeat=3)]
    made = sample_of(works, [1.0] * 8)
    times = [ns * rng.uniform(0.5, 2.0) for ns in estimates(made, chip) + chip.rate.t0_ns]
    sample = sample_of(works, times)
    rate = fit_rate(sample, chip)
    seen = sorted(sample[-1] / (estimates(sample, replace(chip, rate=rate)) + rate.t0_ns))
    low, mid, high = rate.spread
    assert low <= mid <= high
    assert high / low > 1.05 * seen[-2] / seen[1]
