"""Which names of several runs mean one thing."""

from __future__ import annotations

import pytest

from tcprobe.analysis.compare.names import compiled_names, kernel_names, layer_names, op_names


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
