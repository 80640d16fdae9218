"""Kernels that two tools spell in other ways are one; what differs in a type or a number is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.compare.spelling import one_spelling, spelled

SAME = [  # as Nsight Systems 2026 and CUPTI with c++filt print them
    (
        "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
        "std::array<char *, (unsigned long)1>>(int, T2, T3)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
        "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
    ),
    (
        "void fft2d_r2c_32x32<float, (bool)0, (unsigned int)5, (bool)1>(float2 *, const T1 *, int)",
        "void fft2d_r2c_32x32<float, false, 5u, true>(float2*, float const*, int)",
    ),
    ("void f<g::h(int)::[lambda(float) (instance 2)]>(int)", "void f<g::h(int)::{lambda(float)#2}>(int)"),
    ("axpy(const float *, const unsigned char*, const a::v<const b, 2>::c &)",
     "axpy(float const*, unsigned char const*, a::v<b const, 2>::c const&)"),
    ("k<(cutlass::gemm::Mode)0, (-1)>()", "k<0, (-1)>()"),
]  # fmt: skip
OTHER = [
    ("f<4>(int)", "f<8>(int)"),
    ("f<float>(int)", "f<double>(int)"),
    ("f(float const*)", "f(float*)"),
    ("f<true>()", "f<false>()"),
    ("f<4>()", "f<4.0>()"),
    ("a::f<4>()", "b::f<4>()"),
    ("f(int)", "f(long)"),
    ("gemm_4u", "gemm_4"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_kernel(one: str, other: str) -> None:
    assert one_spelling([[one], [other]]) == [{one: one}, {other: one}]
    assert one_spelling([[other], [one]]) == [{other: other}, {one: other}]


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_two_kernels(one: str, other: str) -> None:
    assert one_spelling([[one], [other]]) == [{one: one}, {other: other}]


def test_two_of_one_run_stay_apart() -> None:
    both = ["f<(int)4>(int)", "f<4>(int)"]
    assert one_spelling([["f<4>(int)"], both]) == [{both[1]: both[1]}, {name: name for name in both}]


@given(st.lists(st.text("ab<>(),*& :14u\n", max_size=20), max_size=4))
def test_any_text_has_a_spelling(names: list[str]) -> None:
    """Spelling a spelled name changes nothing, and a run alone keeps its names."""
    assert [spelled(spelled(name)) for name in names] == [spelled(name) for name in names]
    assert one_spelling([names]) == [{name: name for name in names}]
