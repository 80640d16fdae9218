"""PyTorch's forward ops from the shapes of their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.resize import named_sizes, tells_features
from tcprobe.schema.op import OpRecord


def op(
    kind: str, *shapes: tuple[int, ...], out: tuple[int, ...] | None = None, pass_: str | None = "forward"
) -> OpRecord:
    return OpRecord(kind, shapes, out, {}, "float32", pass_)


def test_linear() -> None:
    record = op("linear", (8, 5, 400), (120, 400), (120,), out=(8, 5, 120))
    (found,) = gemms_of(record)
    assert (found.m, found.n, found.k, found.batch, found.flops) == (40, 120, 400, 1, 2 * 40 * 120 * 400)
    assert named_sizes(record) == [("inputs", 400), ("units", 120)]


def test_convolution() -> None:
    # 6 filters of 3 x 3 over 3 channels make 30 x 30 positions
    record = op("conv2d", (2, 3, 32, 32), (6, 3, 3, 3), (6,), out=(2, 6, 30, 30))
    (found,) = gemms_of(record)
    assert (found.m, found.n, found.k, found.batch) == (2 * 900, 6, 27, 1)
    assert named_sizes(record) == [("channels", 3), ("filters", 6)]


def test_groups_and_depthwise() -> None:
    (found,) = gemms_of(op("conv1d", (1, 8, 10), (16, 4, 3), out=(1, 16, 8)))
    assert (found.m, found.n, found.k, found.batch) == (8, 8, 12, 2)
    assert gemms_of(op("conv1d", (1, 8, 10), (8, 1, 3), out=(1, 8, 8))) == []


@pytest.mark.parametrize(
    "record",
    [
        op("linear", (8, 400), (120, 401)),
        op("linear", (8, 400), (120, 400), out=(8, 121)),
        op("linear", (8, 400), (120, 400), pass_=None),
        op("linear", (8, 400), (120, 400), pass_="other"),
        op("linear", (8, 400)),
        op("linear", (), (1, 1)),
        op("conv2d", (2, 3, 32, 32), (6, 3, 3, 3)),
        op("conv2d", (2, 3, 32, 32), (6, 2, 3, 3), out=(2, 6, 30, 30)),
        op("conv2d", (2, 0, 32, 32), (6, 0, 3, 3), out=(2, 6, 30, 30)),
    ],
)
def test_what_does_not_fit_is_unknown(record: OpRecord) -> None:
    assert [g.flops for g in gemms_of(record)] == [None]


@pytest.mark.parametrize(
    ("record", "tells"),
    [
        (op("linear", (8, 4), (2, 4)), True),
        (op("linear", (8, 4), (2, 4), pass_=None), False),
        (op("_FusedMatMul", (8, 4), (4, 2), (2,)), True),
        (op("MatMul", (8, 4), (4, 2)), False),
        (op("_MklFusedBatchMatMulV2", (8, 4, 4), (4, 2)), False),
        (op("_FusedConv2D", (1, 8, 8, 3), (3, 3, 3, 7), pass_=None), True),
        (op("Conv2D", (1, 8, 8, 3), (3, 3, 3, 7), pass_="dgrad"), False),
        (op("Relu", (8, 4)), False),
    ],
)
def test_only_weights_and_filters_tell_features(record: OpRecord, tells: Any) -> None:
    assert tells_features(record) is tells
