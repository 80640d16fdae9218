"""Which names of several runs mean one thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.compare.names import compiled_names, kernel_names, layer_names, one_spelling, op_names, spelled


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        # made once more in one process: all numbers moved by 2
        (["dense", "dense_1"], ["dense_2", "dense_3"], {"dense_2": "dense", "dense_3": "dense_1"}),
        # moved by 1, though two names are in both
        (
            ["dense", "dense_1", "dense_2"],
            ["dense_1", "dense_2", "dense_3"],
            {"dense_1": "dense", "dense_2": "dense_1", "dense_3": "dense_2"},
        ),
        (["m/conv2d_6_1", "m/conv2d_6"], ["m/conv2d_6", "m/conv2d_6_1"], {}),
        (["m/conv2d_6_1"], ["m/conv2d_6_2"], {"m/conv2d_6_2": "m/conv2d_6_1"}),
        # a layer more, or unevenly numbered: the user's own, and new
        (["dense", "dense_1"], ["dense", "dense_1", "dense_2"], {}),
        (["conv_1", "conv_2"], ["conv_2", "conv_5"], {}),
        # other names are other layers
        (["dense"], ["conv"], {}),
        (["block_1/conv"], ["block_1/conv_3x3"], {}),
        (["block_1/conv", "block_2/conv"], ["block_3/conv", "block_4/conv"],
         {"block_3/conv": "block_1/conv", "block_4/conv": "block_2/conv"}),
    ],
)  # fmt: skip
def test_layers_numbered_anew(first: list[str], other: list[str], expected: dict[str, str]) -> None:
    one, two = layer_names([first, other])
    assert one == {name: name for name in first}
    assert two == {name: expected.get(name, name) for name in other}


def test_functions_alone_shorten_the_names_of_others_and_nothing_else() -> None:
    whole = ["void ns::fft<float, (bool)0>(float *)", "void ns::fft<float, (bool)1>(float *)", "void g<int>(int)"]
    one, two = kernel_names([whole, ["fft", "volta_sgemm"]])
    assert one == {whole[0]: "fft", whole[1]: "fft", whole[2]: whole[2]}
    assert two == {"fft": "fft", "volta_sgemm": "volta_sgemm"}
    (same, other) = kernel_names([whole, [*whole, "fft"]])  # a run that gives both means both
    assert (same, other) == ({n: n for n in whole}, {n: n for n in [*whole, "fft"]})


def test_a_third_run_may_have_the_names_of_the_second() -> None:
    found = layer_names([["conv"], ["dense_1"], ["dense_4"]])
    assert [dict(one) for one in found] == [{"conv": "conv"}, {"dense_1": "dense_1"}, {"dense_4": "dense_1"}]


def test_the_order_of_names_does_not_matter() -> None:
    assert layer_names([["a_1", "a_2"], ["a_9", "a_8"]])[1] == layer_names([["a_2", "a_1"], ["a_8", "a_9"]])[1]


@pytest.mark.parametrize(
    ("first", "other", "common"),
    [
        ("StatefulPartitionedCall/m/conv/Conv2D", "m/conv/Conv2D", "m/conv/Conv2D"),
        ("__inference_train_step_123", "__inference_train_step_4567", "__inference_train_step"),
        ("a/__inference_f_1/b", "a/__inference_f_2/b", "a/__inference_f/b"),
        ("while/body/_12/m/MatMul", "while/body/_7/m/MatMul", "while/body/_/m/MatMul"),
        ("gradient_tape/m/dense_1/MatMul", "gradient_tape/m/dense_3/MatMul", "gradient_tape/m/dense_1/MatMul"),
    ],
)
def test_ops_that_are_one(first: str, other: str, common: str) -> None:
    one, two = op_names([[first], [other]])
    assert (one[first], two[other]) == (common, common)


def test_kernels_that_xla_numbered_otherwise_are_one_row_for_each_kind() -> None:
    one, two = compiled_names(
        [["loop_add_fusion_3", "loop_add_fusion_4", "fusion_7", "ampere_sgemm_128x64_nn"],
         ["loop_add_fusion_3", "loop_add_fusion_9", "fusion_7", "ampere_sgemm_64x64_nn"]]
    )  # fmt: skip
    assert one == {
        "loop_add_fusion_3": "loop_add_fusion_*", "loop_add_fusion_4": "loop_add_fusion_*",
        "fusion_7": "fusion_7", "ampere_sgemm_128x64_nn": "ampere_sgemm_128x64_nn",
    }  # fmt: skip
    assert two["loop_add_fusion_9"] == "loop_add_fusion_*"
    assert two["ampere_sgemm_64x64_nn"] == "ampere_sgemm_64x64_nn"


def test_a_kind_that_one_run_alone_has_stays_as_it_is() -> None:
    assert compiled_names([["fusion_1", "fusion_2"], ["sgemm"]])[0] == {"fusion_1": "fusion_1", "fusion_2": "fusion_2"}


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_128x64_nn",
        "void fft2d_r2c_16x16<float>(float2*, int)",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x",
        "triton_poi_fused_add_0(float)",
    ],
)
def test_names_of_libraries_are_left_alone(name: str) -> None:
    assert compiled_names([[name], [name + "_1"]]) == [{name: name}, {name + "_1": name + "_1"}]


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
