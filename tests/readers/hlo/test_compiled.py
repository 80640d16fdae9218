"""FLOPs of the convolutions that XLA itself makes of TensorFlow's, before and after it optimises them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.readers.hlo import gemms as hlo
from tcprobe.readers.hlo.module import read_module
from tcprobe.schema.op import OpRecord
from tests.fixtures.xplane.schema import HloProto
from tests.support import needs_tensorflow


def records(raw: bytes, pass_: str | None) -> Iterator[OpRecord]:
    """Yield the products of a serialised HloModuleProto; the compiler keeps no name of an op, which tells the pass."""
    proto = HloProto()
    proto.hlo_module.MergeFromString(raw)
    data = bytearray(proto.SerializeToString())
    module = read_module("compiled", data, (0, len(data)))
    for executed in hlo.executed_instructions(module):
        for gemm in hlo.gemms_of(module, executed.instruction):
            row = hlo.graph_row(module, gemm, executed)
            image, kernel = json.loads(str(row["input_shapes"]))
            shapes, output = (tuple(image), tuple(kernel)), tuple(json.loads(str(row["output_shape"])))
            yield OpRecord(str(row["op_type"]), shapes, output, json.loads(str(row["attributes"])), "float32", pass_)


@needs_tensorflow
@pytest.mark.parametrize("stage", ["hlo_serialized", "optimized_hlo_serialized"])
@pytest.mark.parametrize(
    ("size", "taps", "stride", "padding", "out"),
    [
        (12, 5, 1, "VALID", 8),
        (7, 3, 2, "SAME", 4),
        (9, 3, 2, "VALID", 4),
        (6, 1, 2, "VALID", 3),
        (4, 4, 1, "VALID", 1),  # the filter is larger than the output: XLA exchanges them in the input gradient
        (2, 3, 2, "SAME", 1),  # the filter is larger than the image: XLA exchanges them in the forward pass
        (2, 1, 1, [(0, 0), (1, 0), (2, 1), (0, 0)], None),  # the output is larger than the image, and is the window
    ],
)
def test_every_pass_does_as_much(size: int, taps: int, stride: int, padding: Any, out: int | None, stage: str) -> None:
    import tensorflow as tf

    x, w = tf.ones((2, size, size, 6)), tf.ones((taps, taps, 6, 8))
    y = tf.nn.conv2d(x, w, stride, padding)
    assert out in (None, y.shape[1])
    given = {"strides": [1, stride, stride, 1], "padding": padding if isinstance(padding, str) else "EXPLICIT"}
    if not isinstance(padding, str):
        given["explicit_paddings"] = [side for pair in padding for side in pair]
    raw, passes = tf.raw_ops, {
        None: lambda x, w, y: raw.Conv2D(input=x, filter=w, **given),
        "dgrad": lambda x, w, y: raw.Conv2DBackpropInput(input_sizes=x.shape, filter=w, out_backprop=y, **given),
        "wgrad": lambda x, w, y: raw.Conv2DBackpropFilter(input=x, filter_sizes=w.shape, out_backprop=y, **given),
    }  # fmt: skip
    expected = 2 * 2 * y.shape[1] * y.shape[2] * taps * taps * 6 * 8
    for pass_, run in passes.items():
        compiled = tf.function(run, jit_compile=True, autograph=False).experimental_get_compiler_ir(x, w, y)(
            stage=stage
        )
        assert [flops_of(gemms_of(record)) for record in records(compiled, pass_)] == [expected], pass_
