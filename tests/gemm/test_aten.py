"""PyTorch's own ops from the shapes of their arguments, FLOPs by hand."""

from __future__ import annotations

import pytest

from tcprobe.gemm.ops import contiguous_sizes, gemms_of
from tcprobe.schema.op import OpRecord, Shape

NONE: Shape = ()


def op(kind: str, *shapes: Shape | None) -> OpRecord:
    return OpRecord(f"aten::{kind}", shapes, None, {}, "float16")


PRODUCTS = [
    (op("mm", (64, 784), (784, 250)), (64, 250, 784, 1), 2 * 64 * 784 * 250),
    (op("addmm", (250,), (64, 784), (784, 250), NONE, NONE), (64, 250, 784, 1), 25_088_000),
    (op("bmm", (12, 128, 64), (12, 64, 128)), (128, 128, 64, 12), 2 * 12 * 128 * 128 * 64),
    (op("baddbmm", (12, 128, 128), (12, 128, 64), (12, 64, 128)), (128, 128, 64, 12), 25_165_824),
    (op("linear", (8, 5, 400), (120, 400), (120,)), (40, 120, 400, 1), 2 * 40 * 120 * 400),
    (op("matmul", (8, 5, 400), (400, 120)), (40, 120, 400, 1), 3_840_000),
    (op("matmul", (8, 1, 5, 40), (3, 40, 12)), (5, 12, 40, 24), 2 * 24 * 5 * 12 * 40),
    (op("_scaled_mm", (16, 32), (32, 64), NONE, NONE), (16, 64, 32, 1), 65_536),
]


@pytest.mark.parametrize(("record", "sizes", "flops"), PRODUCTS, ids=[r.op_type for r, _, _ in PRODUCTS])
def test_products(record: OpRecord, sizes: tuple[int, ...], flops: int) -> None:
    (found,) = gemms_of(record)
    assert (found.m, found.n, found.k, found.batch) == sizes
    assert found.flops == flops


def test_how_an_operand_lies_is_unknown_unless_it_does_not_matter() -> None:
    assert contiguous_sizes(gemms_of(op("mm", (64, 784), (784, 256)))) == (784, 256, 256)
    assert contiguous_sizes(gemms_of(op("mm", (64, 784), (784, 250)))) == (784, None, 250)
    assert contiguous_sizes(gemms_of(op("linear", (64, 784), (250, 784)))) == (784, 784, 250)


def test_convolutions_tell_their_features() -> None:
    # stride and padding are not recorded: neither is the size of the result
    (found,) = gemms_of(op("cudnn_convolution", (2, 64, 32, 32), (128, 32, 3, 3)))
    assert (found.m, found.n, found.k, found.batch, found.flops) == (None, 64, None, 2, None)
    assert contiguous_sizes([found]) == (32, 64)
    (found,) = gemms_of(op("convolution_backward", (2, 128, 30, 30), (2, 64, 32, 32), (128, 64, 3, 3)))
    assert (found.flops, contiguous_sizes([found])) == (None, (64, 128))
    assert gemms_of(op("conv2d", (2, 64, 32, 32), (64, 1, 3, 3))) == []


def test_attention_tells_the_size_of_a_head() -> None:
    query, key = (2, 12, 128, 64), (2, 12, 256, 64)
    for record in (
        op("_scaled_dot_product_flash_attention", query, key, key),
        op("_flash_attention_forward", query, key, key),
        op("_scaled_dot_product_efficient_attention_backward", query, query, key, key),
    ):
        found = gemms_of(record)
        assert [g.flops for g in found] == [None, None]
        assert set(contiguous_sizes(found)) == {64}


@pytest.mark.parametrize(
    "record",
    [
        *(op("mm", (64, 784), (785, 250)), op("mm", (64,), (64, 2)), op("mm"), op("mm", None, (3, 4))),
        *(op("bmm", (12, 8, 64), (11, 64, 8)), op("linear", NONE, (3, 4)), op("einsum", NONE, (3, 4), (4, 5))),
        *(op("convolution", (2, 64, 32, 32), (64, 64, 3, 3)), op("cudnn_convolution", (2, 64, 32), (64, 64, 3, 3))),
        *(op("conv2d", (2, 0, 3, 3), (1, 0, 3, 3)), op("conv2d", (2, 6, 3, 3), (5, 3, 3, 3)), op("_cudnn_rnn", (1,))),
        op("scaled_dot_product_attention"),
    ],
)
def test_what_does_not_fit_or_is_not_told_is_unknown(record: OpRecord) -> None:
    assert [g.flops for g in gemms_of(record)] == [None]


@pytest.mark.parametrize("kind", ["add", "copy_", "t", "softmax", "mean"])
def test_other_ops_multiply_nothing(kind: str) -> None:
    assert gemms_of(op(kind, (3, 4), (4, 5))) == []
    assert gemms_of(OpRecord("mm", ((3, 4), (4, 5)))) == []
