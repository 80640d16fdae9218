"""The plan of what is counted: each op, dtype and alignment is there, and shapes are what they say."""

from __future__ import annotations

import re

import pytest

from bench.gpu.classification.cases import BYTES, DTYPES, Case, attention, conv, gemm, plan

PLAN = plan()


def of(op: str) -> list[Case]:
    return [case for case in PLAN if case.op == op]


def test_names_are_distinct_and_fit_for_ranges() -> None:
    names = [case.name for case in PLAN]
    assert len(set(names)) == len(names) > 200
    assert all(re.fullmatch(r"[a-z0-9_-]+", name) for name in names)


def test_every_dtype_aligned_and_not() -> None:
    assert {(case.dtype, case.aligned) for case in of("gemm")} == {
        (dtype, way) for dtype in DTYPES for way in (True, False)
    }
    for direction in ("forward", "dgrad", "wgrad"):
        found = {(case.dtype, case.aligned) for case in of("conv") if case.direction == direction}
        assert found == {(d, way) for d in ("float32", "tf32", "float16", "bfloat16") for way in (True, False)}
    assert {case.kind for case in of("gemm")} == {"nn", "nt", "tn"}
    assert {case.kind for case in of("attention")} == {"flash", "cudnn", "efficient", "math"}
    for op in ("normalisation", "softmax", "elementwise", "reduction", "copy", "gather"):
        assert {case.dtype for case in of(op)} == {"float32", "float16", "bfloat16"}
        assert {case.aligned for case in of(op)} == {None}


def test_sizes_that_matter_are_there() -> None:
    assert {1, 2, 4, 8} <= {-case.sizes["k"] % 16 for case in of("gemm")}
    assert {1, 3, 8, 64} <= {case.sizes["c"] for case in of("conv")}
    assert {1, 2, 4, 8, 16} <= {case.sizes["m"] for case in of("gemm")}
    assert any(case.sizes["k"] >= 256 * case.sizes["m"] for case in of("gemm"))  # split-k


def test_the_first_cases_tell_most() -> None:
    first = PLAN[:30]
    assert {case.dtype for case in first if case.op == "gemm"} == set(DTYPES)
    assert {case.direction for case in first if case.op == "conv"} == {"forward", "dgrad", "wgrad"}
    assert {case.op for case in first} == {case.op for case in PLAN}


@pytest.mark.parametrize(
    ("case", "aligned"),
    [
        (gemm(4095, 4096, 4096, "float16"), True),  # rows are not contiguous
        (gemm(4096, 4096, 4095, "float16"), False),
        (gemm(4095, 4096, 4096, "float16", "tn"), False),
        (gemm(4096, 4092, 4092, "float16"), False),
        (gemm(4096, 4092, 4092, "tf32"), True),
        (gemm(4088, 4088, 4088, "int8", "nt"), False),
        (conv("forward", "bfloat16", 3, 64), False),
        (conv("wgrad", "bfloat16", 8, 64), True),
        (attention("forward", "bfloat16", "flash", 1000, 60), False),
    ],
)
def test_alignment_is_of_contiguous_bytes(case: Case, aligned: bool) -> None:
    assert case.aligned is aligned
    assert case.row()["aligned"] == int(aligned)


def test_a_rehearsal_is_small_and_as_aligned() -> None:
    for case in PLAN:
        small = case.small()
        assert max(small.sizes.values()) <= 32
        assert small.aligned == case.aligned
        assert [size % 16 for size in small.sizes.values()] == [size % 16 for size in case.sizes.values()]


def test_a_row_says_the_shape() -> None:
    assert gemm(1, 2, 3, "tf32", "tn").row() == {
        "case": "gemm-wgrad-tf32-tn-1x2x3",
        "op": "gemm",
        "pass": "wgrad",
        "dtype": "tf32",
        "shape": "m=1 n=2 k=3 layout=tn",
        "aligned": 0,
    }
    assert BYTES["tf32"] == 4
