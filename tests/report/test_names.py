"""Names shortened for a terminal: within the width, at words, and distinct where they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.formatting import distinct, shortened
from tcprobe.visible import columns

OPS = [f"gradient_tape/alex_net/conv2d_{n}/Conv2D/Conv2DBackpropFilter" for n in (1, 2, 13)]
KERNEL = "void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, __half, float, int, (bool)1, (bool)0>(int, float*)"


@pytest.mark.parametrize("width", [24, 30, 40])
def test_ops_that_differ_in_a_layer_keep_it(width: int) -> None:
    for name, short in zip(OPS, distinct(OPS, width), strict=True):
        assert name.split("/")[2] in short and columns(short) <= width


def test_a_kernel_loses_its_arguments_first() -> None:
    assert shortened(KERNEL, 60) == "cudnn::cnn::wgrad2d_grouped_direct_kernel"
    assert shortened(KERNEL, len(KERNEL)) == KERNEL


def test_kernels_that_differ_in_an_argument_keep_it() -> None:
    one, two = distinct([KERNEL, KERNEL.replace("<__half", "<float")], 60)
    assert "__half" in one and "float" in two and one != two


def test_a_name_is_cut_where_words_begin() -> None:
    assert shortened("cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4", 30) == "cutlass_80..16x4_nn_align4"


names = st.lists(st.text(st.sampled_from("ab/_.:<>(), é漢"), min_size=1, max_size=60), min_size=1, max_size=6)


@given(names, st.integers(8, 50))
def test_any_names_fit(found: list[str], width: int) -> None:
    short = distinct(found, width)
    assert all(columns(one) <= width for one in short)
    assert [one for one, name in zip(short, found, strict=True) if columns(name) <= width] == [
        name for name in found if columns(name) <= width
    ]
