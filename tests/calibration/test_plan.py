"""What is measured: every alignment, dtype and pass, the most telling first, nothing that does not fit the GPU."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tcprobe.calibration.files import split_rows
from tcprobe.calibration.plan import (
    CACHES,
    LARGE,
    LONGEST_S,
    MEMORY_DIVISOR,
    MOST_SETS,
    Case,
    Conv,
    MatMul,
    both_transposed,
    cases_for,
    dry_cases,
    dtypes_to_measure,
    unaligned,
    unaligned_convs,
)
from tcprobe.cost.fit import FEWEST
from tcprobe.cost.measured import MEASUREMENT_COLUMNS, conv_record, csv_of, gemm_record, measurements_of
from tcprobe.cost.works import task_of
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.schema.op import OpRecord

H200, T4, GTX = find_gpu("h200-sxm"), find_gpu("t4"), find_gpu("gtx1660")
PLANS = {gpu.id: cases_for(gpu, "cublas12", "torch") for gpu in (H200, T4, GTX)}


def alignment(size: object) -> int:
    return min(8, int(str(size)) & -int(str(size)))


def of(dtype: str, op: str, least: int = 1, most: int = 4) -> list[Case]:
    found = [c for c in PLANS[H200.id] if c.dtype == dtype and c.row["op"] == op]
    return [case for case in found if least <= case.level <= most]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32"])
def test_each_contiguous_dimension_of_a_gemm_comes_in_each_alignment(dtype: str) -> None:
    seen = defaultdict(set)
    for case in of(dtype, "gemm"):
        row = case.row
        left = "m" if row["transpose_a"] else "k"
        right = "k" if row["transpose_b"] else "n"
        for place, name in (("left", left), ("right", right), ("result", "n")):
            seen[place].add(alignment(row[name]))
    assert seen == {place: {1, 2, 4, 8} for place in ("left", "right", "result")}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32"])
def test_all_four_layouts_come_unaligned_the_one_of_no_layer_last(dtype: str) -> None:
    level: dict[tuple[object, object], int] = {}
    for case in of(dtype, "gemm", most=5):
        if any(alignment(case.row[name]) < 8 for name in "mnk"):
            level.setdefault((case.row["transpose_a"], case.row["transpose_b"]), case.level)
    both = level.pop((1, 1))
    assert level == {(0, 0): 2, (0, 1): 2, (1, 0): 2}
    assert both == (5 if dtype == "bfloat16" else 4)


@pytest.mark.parametrize("dtype", ["float16", "tf32"])
@pytest.mark.parametrize("pass_", ["forward", "dgrad", "wgrad"])
def test_channels_and_filters_of_each_pass_come_in_each_alignment(dtype: str, pass_: str) -> None:
    convs = [case.row for case in of(dtype, "conv") if case.row["pass"] == pass_]
    for name in ("channels", "filters"):
        assert {alignment(row[name]) for row in convs} == {1, 2, 4, 8}


def test_priorities_go_from_aligned_gemms_to_more_of_each() -> None:
    levels = [case.level for case in PLANS[H200.id]]
    assert levels == sorted(levels)
    assert {case.row["op"] for case in PLANS[H200.id] if case.level <= 2} == {"gemm"}
    first = [case.row for case in PLANS[H200.id] if case.level == 1]
    assert all(alignment(row["n"]) == alignment(row["k"]) == 8 for row in first)
    # a budget that ends after any of them leaves a fit of what came before
    assert len([row for row in first if row["dtype"] in ("float16", "bfloat16")]) > 80


@pytest.mark.parametrize("gpu", [H200, T4], ids=lambda gpu: gpu.id)
def test_every_class_of_convolutions_leaves_enough_to_fit(gpu: Gpu, tmp_path: Path) -> None:
    rows = [{**case.row, "time_ns": 1, "source": ""} for case in PLANS[gpu.id] if case.level == 3]
    train, _ = split_rows(measurements_of(csv_of(rows), tmp_path))
    found: Counter[tuple[str, str]] = Counter()
    for row in train:
        task = task_of(row.record, gpu)
        assert task
        found[task.units.family, task.classes[0]] += 1
    assert len([kind for kind in found if kind[0] == "fp32"]) == 6
    assert min(found.values()) >= FEWEST


def test_the_order_within_a_priority_does_not_follow_the_size() -> None:
    sizes = [int(str(c.row["m"])) * int(str(c.row["n"])) * int(str(c.row["k"])) for c in PLANS[H200.id] if c.level == 1]
    rises = sum(a < b for a, b in pairwise(sizes))
    assert 0.4 < rises / len(sizes) < 0.6
    assert PLANS[H200.id] == cases_for(H200, "cublas12", "torch")  # seeded: the same plan each time


def test_nothing_comes_twice() -> None:
    rows = [repr(sorted(case.row.items())) for case in PLANS[H200.id]]
    assert len(rows) == len(set(rows))


def record(case: Case) -> OpRecord:
    row, whole = case.row, {name: int(str(value)) for name, value in case.row.items() if str(value).isdigit()}
    dtype = str(row["dtype"])
    if row["op"] == "gemm":
        flags = (bool(whole["transpose_a"]), bool(whole["transpose_b"]))
        return gemm_record(whole["m"], whole["n"], whole["k"], dtype, whole["batch"], *flags)
    kernel, stride, padding = (int(str(row[name]).partition("x")[0]) for name in ("kernel", "stride", "padding"))
    image = (whole["images"], whole["height"], whole["width"], whole["channels"])
    two = ((kernel, kernel), (stride, stride), (padding, padding))
    return conv_record(str(row["pass"]), dtype, image, whole["filters"], *two)


@pytest.mark.parametrize("gpu", [H200, T4, GTX], ids=lambda gpu: gpu.id)
def test_every_case_fits_the_gpu(gpu: object) -> None:
    for case in PLANS[gpu.id]:  # type: ignore[attr-defined]
        task = task_of(record(case), gpu)  # type: ignore[arg-type]
        assert task is not None and not task.units.emulated
        moved = sum(work.moved_bytes for work, _ in task.works)
        assert task.flops <= LONGEST_S * task.units.flop_per_s
        assert moved * case.sets <= gpu.memory_bytes / MEMORY_DIVISOR  # type: ignore[attr-defined]
        cached = moved * case.sets < CACHES * gpu.l2_bytes * 0.99  # type: ignore[attr-defined]
        assert not cached or case.sets == MOST_SETS or moved * (case.sets + 1) > gpu.memory_bytes / MEMORY_DIVISOR  # type: ignore[attr-defined]


def test_a_gpu_is_measured_in_what_it_can() -> None:
    assert dtypes_to_measure(H200) == ["float16", "bfloat16", "tf32", "float32"]
    assert dtypes_to_measure(T4) == ["float16", "float32"]
    assert dtypes_to_measure(GTX) == ["float32"]


def test_what_xla_pads_is_not_measured_through_jax() -> None:
    jax = cases_for(H200, "cublas12", "jax")
    for case in jax:
        sizes = [case.row[name] for name in ("m", "n", "k", "channels", "filters") if name in case.row]
        if case.dtype in ("float16", "bfloat16") and case.row["op"] == "gemm":
            assert all(alignment(size) == 8 for size in sizes[1:])
        if case.dtype == "float16" and case.row["op"] == "conv":
            assert all(alignment(size) == 8 for size in sizes)
    assert any(alignment(c.row["k"]) == 1 for c in jax if c.dtype == "tf32" and c.row["op"] == "gemm")
    assert any(alignment(c.row["channels"]) == 1 for c in jax if c.dtype == "bfloat16" and c.row["op"] == "conv")


def test_unaligned_shapes_by_hand() -> None:
    found = unaligned((64, 128, 256))
    assert MatMul(64, 121, 256) in found
    assert MatMul(64, 128, 250, transpose_b=True) in found
    assert MatMul(60, 128, 256, transpose_a=True) in found
    assert MatMul(57, 128, 256) not in found  # rows of a row-major A are not contiguous
    assert len(unaligned(LARGE[0])) == 3 * 2 * 3 + 2
    turned = both_transposed((64, 128, 256))
    assert turned[0] == MatMul(64, 128, 256, 1, True, True)
    assert turned[1:4] == [MatMul(*size, 1, True, True) for size in ((57, 128, 256), (64, 121, 256), (64, 128, 249))]
    assert len(turned) == 1 + 3 * 3
    convs = unaligned_convs(Conv(1, 8, 16, 32, 3))
    assert len(convs) == 3 * 3 * 3
    assert {(c.channels, c.filters) for c in convs if alignment(c.channels) == 1} == {(9, 32), (9, 25)}


def test_a_dry_run_is_small_and_has_everything() -> None:
    cases = dry_cases()
    assert {(c.row["op"], c.row["pass"]) for c in cases} == {
        ("gemm", "forward"), *(("conv", p) for p in ("forward", "dgrad", "wgrad"))
    }  # fmt: skip
    assert {c.dtype for c in cases} == {"float32", "float16", "bfloat16"}
    assert {c.row["gpu"] for c in cases} == {"cpu"}
    assert {name for c in cases for name in c.row} <= set(MEASUREMENT_COLUMNS)
    assert len(cases) < 40
