"""Rows of ops: what makes one, in what order they stand, what keeps them off the Tensor Cores."""

from __future__ import annotations

import pytest

from tcprobe.analysis import analyse
from tcprobe.rules.words import short_name
from tcprobe.schema.tables import OP_DETAILS
from tests.analysis import builders as b

WGRAD = "void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, __half, int, float, 0, 1>(cudnn::cnn::Params)"


def test_one_op_under_several_shapes_is_one_row() -> None:
    shapes = [f"[[{batch}, 64], [64, 32]]" for batch in (8, 16)]
    details = b.table(OP_DETAILS, [{"op": "m/a/MatMul", "op_type": "MatMul", "input_shapes": s} for s in shapes])
    rows = [(b.TC, i % 2, i, 1000 * i, 100 + 100 * (i % 2)) for i in range(6)]
    out = analyse(b.profile(b.launches(*rows), details, b.devices({})))
    found = b.rows(out, "ops")
    assert [(row["op"], row["launches"], row["sum_ns"], row["shapes"]) for row in found] == [
        ("m/a/MatMul", 6, 900, None)
    ]
    assert [row["m"] for row in b.rows(out, "gemms")] == [8, 16]
    assert len(b.rows(out, "kernels")) == 1


def test_the_choice_of_the_library_is_named() -> None:
    # The weight gradient of a convolution with one filter: capable, float16, a V100, and kernels without Tensor Cores
    op = "gradient_tape/generator/conv2d_3/Conv2D/Conv2DBackpropFilter"
    details = b.details((op, "Conv2DBackpropFilter", "float16"))
    rows = [row for i in range(6) for row in ((WGRAD, 0, i, 1000 * i, 400), (b.OTHER, 0, i, 1000 * i + 400, 50))]
    (found,) = b.rows(analyse(b.profile(b.launches(*rows), details, b.devices({}))), "ops")
    assert (found["tc_capable"], found["tc_blocker"]) == ("yes", "library choice: ran wgrad2d_grouped_direct_kernel")
    record = {
        "op": op, "op_type": "Conv2DBackpropFilter", "layer": "conv2d_3", "pass": "wgrad",
        "input_shapes": [[32, 28, 28, 8], [4], [32, 28, 28, 1]], "input_dtypes": ["float16", "int32", "float16"],
        "output_shape": [5, 5, 8, 1], "attributes": {"data_format": "NHWC", "strides": [1, 1, 1, 1], "padding": "SAME"},
    }  # fmt: skip
    (known,) = b.rows(analyse(b.profile(b.launches(*rows), details, b.devices({}), b.graph(record))), "ops")
    assert known["tc_blocker"] == (
        "a contiguous dimension is no multiple of 16 bytes, and the library ran wgrad2d_grouped_direct_kernel"
    )


def test_eager_ops_of_one_type_are_no_single_call() -> None:
    """They run under one name: their FLOPs are of no one call, and the row of no layer has no layer's line."""
    eager = {"executed_op": "MatMul", "executed_type": "MatMul", "executes_basis": "eager", "source": "train.py:7"}
    ops = [b.dense("first", 64, 32, **eager), b.dense("second", 32, 16, **eager)]
    launches = b.launches(*[(b.TC, 0, i, 1000 * i, 400) for i in range(4)])
    out = analyse(b.profile(launches, b.details(("MatMul", "MatMul", "float16")), b.devices({}), b.graph(*ops)))
    (found,) = b.rows(out, "ops")
    assert (found["launches"], found["flops"], found["shapes"], found["source"]) == (4, None, None, "train.py:7")
    layers = {row["layer"]: row["source"] for row in b.rows(out, "layers")}
    assert layers == {"first": "train.py:7", "second": "train.py:7", "(no layer)": None}
    unseen = b.rows(analyse(b.profile(b.graph(*ops), gpu_used=False)), "layers")
    assert [row["layer"] for row in unseen] == ["first", "second"]
    alike = b.graph(*[b.dense(name, 64, 32, **eager) for name in ("first", "second")])
    (same,) = b.rows(
        analyse(b.profile(launches, b.details(("MatMul", "MatMul", "float16")), b.devices({}), alike)), "ops"
    )
    assert same["flops"] == 2 * 32 * 64 * 32


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        (WGRAD, "wgrad2d_grouped_direct_kernel"),
        ("volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        ("void (anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("<unnamed>", "<unnamed>"),
        ("", ""),
    ],
)
def test_short_names(kernel: str, short: str) -> None:
    assert short_name(kernel) == short
