"""Bad sizes: which are listed, what is said of them."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.ops.gemms import one_trace_each
from tcprobe.schema.tables import OP_DETAILS
from tests.analysis import builders as b
from tests.support import shared


def bad(*records: dict[str, Any], **options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    run = b.profile(b.graph(*records), gpu_used=False, **options.pop("metadata", {}))
    return {(r["layer"], r["dimension"]): r for r in b.rows(analyse(run, Options(**options)), "bad_sizes")}


def test_the_generator_of_the_gan_with_bad_sizes() -> None:
    found = bad(
        b.dense("dense", 100, 3087, batch=4090), b.conv("conv2d", 7, 63, 63), b.conv("conv2d_1", 14, 63, 31),
        b.conv("conv2d_2", 28, 31, 7), b.conv("conv2d_3", 28, 7, 1),
    )  # fmt: skip
    assert {(*key, row["size"], row["next_size"]) for key, row in found.items()} == {
        ("dense", "inputs", 100, 104), ("dense", "units", 3087, 3088),
        ("conv2d", "channels", 63, 64), ("conv2d", "filters", 63, 64),
        ("conv2d_1", "channels", 63, 64), ("conv2d_1", "filters", 31, 32),
        ("conv2d_2", "channels", 31, 32), ("conv2d_2", "filters", 7, 8),
        ("conv2d_3", "channels", 7, 8), ("conv2d_3", "filters", 1, 8),
    }  # fmt: skip
    assert "4090" not in {str(row["size"]) for row in found.values()}
    assert "3087 = 49 x 63" in found["dense", "units"]["advice"]
    assert "3136 units" in found["dense", "units"]["advice"]
    assert found["conv2d_1", "channels"]["advice"].endswith("it follows from what feeds this layer: change it there")
    assert found["conv2d_1", "filters"]["advice"].endswith("of an aligned one on an A100 (estimated)")
    assert found["dense", "units"]["advice"].startswith(
        "predicted: forward runs at 55-85 % of an aligned one on an A100"
    )
    # of the forward pass alone; its weight gradient is what may fall to CUDA cores
    assert found["conv2d_3", "filters"]["advice"] == (
        "nothing: 1 output channel, and 8 filters would cost as much as they gain"
    )


def test_outside_any_layer_the_line_of_the_call_is_named() -> None:
    raw = {**b.dense("a", 100, 64, source=None, called_from="train.py:12"), "layer": None, "layer_class": None}
    assert {row["source"] for row in bad(raw, b.dense("b", 100, 64)).values()} == {"train.py:12", "model.py:3"}


def test_good_sizes_are_not_listed_whatever_the_batch() -> None:
    assert bad(b.dense("a", 128, 64, batch=4090), b.conv("c", 28, 24, 64, batch=7)) == {}


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_are_left_alone(channels: int) -> None:
    found = bad(b.conv("first", 28, channels, 24))
    said = "1 input channel is" if channels == 1 else f"{channels} input channels are"
    assert found["first", "channels"]["advice"].startswith(f"nothing: {said} an image's")


def test_units_are_an_images_where_the_image_is_square() -> None:
    sizes = {"image": 49 * 63, "oblong": 51 * 63, "tiny": 9 * 63}
    layers = (b.dense(layer, 64, units, batch=65536) for layer, units in sizes.items())
    found = bad(*layers, b.conv("conv2d", 7, 63, 64))
    told = {layer for layer in sizes if "images of 63 channels" in found[layer, "units"]["advice"]}
    assert told == {"image"}


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float16", {"target_gpu": "gtx1650"}),
        ("float32", {"metadata": {"precision": "float32"}}),
        ("float32", {"target_gpu": "t4"}),
    ],
)
def test_one_filter_costs_nothing_off_the_tensor_cores(dtype: str, options: dict[str, Any]) -> None:
    found = bad(b.conv("last", 28, 64, 1, input_dtypes=[dtype] * 2), **options)
    assert found["last", "filters"]["advice"].startswith("no effect")


def test_without_tensor_cores_nothing_is_to_be_changed_upstream() -> None:
    advice = bad(b.conv("c", 28, 63, 64), target_gpu="gtx1650")["c", "channels"]["advice"]
    assert advice.endswith("has no Tensor Cores")


def test_of_equal_cost_the_slower_size_comes_first() -> None:
    found = bad(b.dense("a", 100, 3087, batch=None))  # type: ignore[arg-type]
    assert list(found) == [("a", "units"), ("a", "inputs")]  # 40 and 63 % of the aligned rate


def test_a_small_dimension_of_any_product_is_left_alone() -> None:
    scores = {
        "op": "m/mha/MatMul", "op_type": "BatchMatMulV2", "input_shapes": [[2, 4, 64, 12], [2, 4, 64, 12]],
        "input_dtypes": ["float16"] * 2, "output_shape": [2, 4, 64, 64], "attributes": {"adj_x": False, "adj_y": True},
    }  # fmt: skip
    assert bad(scores)["m/mha/MatMul", "features"]["advice"].startswith("nothing")


def test_tiny_heads_are_left_alone_and_come_last() -> None:
    found = bad(b.dense("hidden", 4090, 4090), b.dense("head", 4096, 10))
    assert found["head", "units"]["advice"].startswith("nothing")
    assert list(found)[-1] == ("head", "units")


@pytest.mark.parametrize(
    ("dtype", "size", "options", "words"),
    [
        ("float16", 4090, {}, "63 %"),
        ("bfloat16", 4091, {"target_gpu": "h100-sxm"}, "22 %"),
        ("float32", 4090, {}, "61 %"),
        ("float32", 4092, {}, "nothing for TF32"),
        ("float32", 4090, {"metadata": {"precision": "float32"}}, "no effect"),
        ("float32", 4090, {"target_gpu": "t4"}, "no effect"),
        ("float64", 4090, {}, "no effect while this layer computes in float64"),
        ("float16", 4090, {"target_gpu": "p100"}, "no Tensor Cores"),
    ],
)
@pytest.mark.parametrize("batch", [None, 4096])
def test_cost_follows_dtype_and_gpu(
    dtype: str, size: int, options: dict[str, Any], words: str, batch: int | None
) -> None:
    """Of an op of known sizes the predicted rates are told; of others that of large products."""
    found = bad(b.dense("a", 4096, size, batch=batch, dtype=dtype), **options)  # type: ignore[arg-type]
    told = {"63 %": "at 55-62 %", "22 %": "at 15-25 %", "61 %": "at 52-58 %"}
    assert (told.get(words, words) if batch else words) in found["a", "units"]["advice"]


def test_passes_time_and_share() -> None:
    forward = b.dense("a", 100, 64)
    dgrad = {
        **forward, "op": "grad/a/MatMul", "pass": "dgrad", "input_shapes": [[32, 64], [100, 64]],
        "output_shape": [32, 100], "attributes": {"transpose_a": False, "transpose_b": True},
    }  # fmt: skip
    rows = [(b.TC, op, i, 1000 * i + 400 * op, 300) for i in range(5) for op in (0, 1)]
    names = b.details(("model/a/MatMul", "MatMul"), ("grad/a/MatMul", "MatMul"))
    out = analyse(b.profile(b.launches(*rows), names, b.devices({}), b.graph(forward, dgrad)), Options())
    (row,) = b.rows(out, "bad_sizes")
    assert (row["dimension"], row["size"], row["passes"]) == ("inputs", 100, "forward, dgrad")
    assert (row["kernel_ns"], row["share_pct"], row["flops_pct"]) == (3000, 100.0, 100.0)


def test_a_share_of_flops_that_may_be_more_is_an_upper_bound() -> None:
    """What runs an unknown number of times has no share itself, and the others' shares are of at least so much."""
    looped = b.dense("b", 100, 64, at_least=True)
    found = bad(b.dense("a", 100, 64), looped)
    assert (found["a", "inputs"]["flops_pct"], found["a", "inputs"]["flops_at_most"]) == (50.0, True)
    assert (found["b", "inputs"]["flops_pct"], found["b", "inputs"]["flops_at_most"]) == (None, None)
    assert bad(b.dense("a", 100, 64))["a", "inputs"]["flops_at_most"] is False


def test_pruned_ops_do_not_count() -> None:
    assert bad(b.dense("a", 100, 64, executes="no")) == {}


def test_products_of_activations_stand_for_themselves() -> None:
    scores = {
        "op": "m/mha/MatMul", "op_type": "BatchMatMulV2", "input_shapes": [[2, 4, 16, 12], [2, 4, 16, 12]],
        "input_dtypes": ["float16"] * 2, "output_shape": [2, 4, 16, 16], "attributes": {"adj_x": False, "adj_y": True},
    }  # fmt: skip
    assert [(k, r["size"]) for k, r in bad(scores).items()] == [(("m/mha/MatMul", "features"), 12)]


def test_transposed_convolution_keeps_the_layers_own_words() -> None:
    up = {
        "op": "m/up/conv", "op_type": "Conv2DBackpropInput", "layer": "up", "layer_class": "Conv2DTranspose",
        "input_shapes": [[4], [5, 5, 31, 64], [4, 7, 7, 64]], "input_dtypes": ["int32", "float16", "float16"],
        "output_shape": [4, 14, 14, 31],
        "attributes": {"data_format": "NHWC", "strides": [1, 2, 2, 1], "padding": "SAME"},
    }  # fmt: skip
    assert list(bad(up)) == [("up", "filters")]


def test_float8_needs_multiples_of_16() -> None:
    row = bad(b.dense("a", 64, 24, dtype="float8_e4m3fn"))["a", "units"]
    assert (row["multiple"], row["next_size"]) == (16, 32)


def test_repeated_traces_count_once() -> None:
    first = {**b.dense("a", 100, 64, batch=None), "function": "__inference_step_12", "executes": "unknown"}  # type: ignore[arg-type]
    second = {**b.dense("a", 100, 64), "function": "__inference_step_345"}
    other = {**b.dense("z", 100, 64), "function": "__inference_other_7"}
    assert one_trace_each(b.graph(first, second, other)) == [1, 2]


def test_instructions_of_xla_do_not_count_beside_traced_ops() -> None:
    hlo = {"op": "m/a/MatMul", "op_type": "dot", "function": "module(1)", "input_shapes": [[8, 8], [8, 8]]}
    assert one_trace_each(b.graph(b.dense("a", 100, 64), hlo)) == [0]
    assert one_trace_each(b.graph(hlo)) == [0]


def test_shapes_of_the_profile_tell_where_no_graph_was_recorded() -> None:
    shapes = {"a/MatMul": "[[32, 100], [100, 31], [31]]", "b/MatMul": "[[30, 100], [100, 31]]"}
    kinds = {"a/MatMul": "_FusedMatMul", "b/MatMul": "MatMul"}
    made = [{"op": op, "op_type": kinds[op], "dtype": "float16", "input_shapes": s} for op, s in shapes.items()]
    rows = [(b.TC, i % 2, i // 2, 500 * i, 300) for i in range(12)]
    out = analyse(b.profile(b.launches(*rows), b.table(OP_DETAILS, made), b.devices({})))
    found = {(r["layer"], r["dimension"]): r for r in b.rows(out, "bad_sizes")}
    # MatMul may multiply activations, and its 30 rows may be the batch; the fused one has a bias
    assert set(found) == {("a", "inputs"), ("a", "units")}
    assert {(r["basis"], r["kernel_ns"], r["share_pct"]) for r in found.values()} == {("shape", 1800, 50.0)}
    assert b.summary(out)["bad_size_count"]["basis"] == "shape"


def test_a_profile_of_pytorch_by_dlprof() -> None:
    from tcprobe.readers.open import open_profile

    out = analyse(open_profile(shared("samples/dlprof/pytorch_1.8")))
    found = {(str(r["layer"]).rpartition("/")[2], r["dimension"], r["size"]) for r in b.rows(out, "bad_sizes")}
    assert {("linear", "units", 84), ("conv2d", "filters", 6), ("conv2d", "channels", 3)} <= found
    gemms = {(r["op_type"], r["m"], r["n"], r["k"]) for r in b.rows(out, "gemms")}
    assert {("conv2d", 900, 6, 27), ("linear", 1, 120, 400)} <= gemms
    assert b.summary(out)["gemm_layers"]["reason"] == "the source names no layers"


def test_ops_without_shapes_make_flops_a_lower_bound() -> None:
    made = [
        {"op": "a/MatMul", "op_type": "MatMul", "input_shapes": "[[32, 100], [100, 31]]"},
        {"op": "b/MatMul", "op_type": "MatMul"},
    ]
    rows = [(b.TC, i % 2, i // 2, 500 * i, 300) for i in range(12)]
    summary = b.summary(analyse(b.profile(b.launches(*rows), b.table(OP_DETAILS, made), b.devices({}))))
    layers = summary["gemm_layers"]
    assert (layers["value"], layers["low"], layers["high"]) == (None, 1, None)
    found = summary["flops_per_step"]
    assert (found["value"], found["low"], found["basis"]) == (None, 2 * 32 * 100 * 31, "shape")
    assert found["reason"] == "1 of 2 matrix multiplications have unknown shapes: a lower bound"
