"""Alignment: 16 bytes, and the rule of 8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.gemm.record import all_aligned, is_aligned, multiple_for, next_size


@pytest.mark.parametrize(
    ("dtype", "multiple"),
    [("float32", 8), ("float16", 8), ("bfloat16", 8), ("float64", 8), ("int8", 16), ("float8_e4m3fn", 16), (None, 8)],
)
def test_multiple(dtype: str | None, multiple: int) -> None:
    assert multiple_for(dtype) == multiple


@pytest.mark.parametrize(
    ("size", "dtype", "aligned"),
    [
        (63, "float16", False), (64, "float16", True), (4, "float32", True), (6, "float32", False),
        (8, "int8", False), (2, "float64", True), (None, "float16", None), (64, None, None),
        (64, "float16+float32", None),
    ],
)  # fmt: skip
def test_aligned(size: int | None, dtype: str | None, aligned: bool | None) -> None:
    assert is_aligned(size, dtype) is aligned


def test_all_aligned_is_false_where_one_is_not() -> None:
    assert all_aligned((64, None, 63), "float16") is False
    assert all_aligned((64, None), "float16") is None
    assert all_aligned((64, 8), "float16") is True
    assert all_aligned((), "float16") is None


@given(st.integers(1, 10**9), st.sampled_from([8, 16]))
def test_next_size_is_the_least_multiple(size: int, multiple: int) -> None:
    found = next_size(size, multiple)
    assert found % multiple == 0
    assert 0 <= found - size < multiple
    assert next_size(found, multiple) == found
