"""The products of a step in another batch."""

from __future__ import annotations

import pytest

from tcprobe.analysis.sizes.batch import gpu_batch, with_batch
from tcprobe.schema.model import Product
from tcprobe.schema.op import OpRecord, Shape
from tests.analysis import builders as b


def product(op_type: str, pass_: str, inputs: tuple[Shape, ...], output: Shape) -> Product:
    return Product(OpRecord(op_type, inputs, output, dtype="float32", pass_=pass_), "layer", 1.0, "op")


@pytest.mark.parametrize(
    ("op_type", "pass_", "inputs", "output", "then_inputs", "then_output"),
    [
        ("MatMul", "forward", ((60, 100), (100, 60)), (60, 60), ((600, 100), (100, 60)), (600, 60)),
        ("MatMul", "dgrad", ((60, 60), (100, 60)), (60, 100), ((600, 60), (100, 60)), (600, 100)),
        ("MatMul", "wgrad", ((60, 100), (60, 60)), (100, 60), ((600, 100), (600, 60)), (100, 60)),
        ("MatMul", "forward", ((120, 100), (100, 7)), (120, 7), ((1200, 100), (100, 7)), (1200, 7)),
        ("BatchMatMulV2", "forward", ((60, 5, 6), (60, 6, 7)), (60, 5, 7), ((600, 5, 6), (600, 6, 7)), (600, 5, 7)),
        (
            "Conv2D", "forward", ((60, 7, 7, 3), (5, 5, 3, 8)), (60, 7, 7, 8), ((600, 7, 7, 3), (5, 5, 3, 8)),
            (600, 7, 7, 8),
        ),
        (
            "Conv2DBackpropInput", "dgrad", ((4,), (5, 5, 3, 8), (60, 7, 7, 8)), (60, 7, 7, 3),
            ((4,), (5, 5, 3, 8), (600, 7, 7, 8)), (600, 7, 7, 3),
        ),
        (
            "Conv2DBackpropFilter", "wgrad", ((60, 7, 7, 3), (4,), (60, 7, 7, 8)), (5, 5, 3, 8),
            ((600, 7, 7, 3), (4,), (600, 7, 7, 8)), (5, 5, 3, 8),
        ),
    ],
)  # fmt: skip
def test_ten_times_the_batch(
    op_type: str, pass_: str, inputs: tuple[Shape, ...], output: Shape, then_inputs: tuple[Shape, ...],
    then_output: Shape,
) -> None:  # fmt: skip
    then = with_batch(product(op_type, pass_, inputs, output), 60, 600).record
    assert (then.input_shapes, then.output_shape) == (then_inputs, then_output)


@pytest.mark.parametrize(
    "made",
    [
        product("MatMul", "forward", ((7, 100), (100, 60)), (7, 60)),  # no multiple of the batch
        product("MatMul", "other", ((60, 100), (100, 60)), (60, 60)),  # which operand is weights is not known
        product("Einsum", "forward", ((60, 100), (100, 60)), (60, 60)),
    ],
)
def test_where_the_batch_is_not_known_nothing_is_made_up(made: Product) -> None:
    with pytest.raises(ValueError, match="batch"):
        with_batch(made, 60, 600)


def test_only_a_run_without_a_gpu_that_logs_both_has_another_batch() -> None:
    logged = b.metrics((0, "cpu_batch", 60.0, ""), (0, "gpu_batch", 4090.0, ""))
    assert gpu_batch(b.profile(logged, gpu_used=False)) == (60, 4090)
    assert gpu_batch(b.profile(logged, gpu_used=True)) is None
    assert gpu_batch(b.profile(b.metrics((0, "gpu_batch", 4090.0, "")), gpu_used=False)) is None
    assert gpu_batch(b.profile(b.metrics((0, "cpu_batch", 0.5, ""), (0, "gpu_batch", 1.0, "")), gpu_used=False)) is None
