"""Training steps of JAX recorded on an H100 (`bench/gpu/jax_step.py`): XLA ran most of them as CUDA graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.readers.open import open_profile

RECORDED = Path(__file__).parents[2] / "fixtures" / "h100"


@pytest.mark.parametrize(
    ("name", "left_pct", "on_tensor_cores_pct"),
    [
        ("jax_bfloat16_odd", 0.0, (72.0, 72.2)),
        ("jax_tf32", 3.5, (66.3, 67.7)),
        ("jax_float32", 0.0, (0.0, 0.5)),
    ],
)
def test_kernels_of_a_command_buffer_have_an_op(
    name: str, left_pct: float, on_tensor_cores_pct: tuple[float, float]
) -> None:
    ops = analyse(open_profile(RECORDED / f"{name}.xplane.pb")).require("ops").to_pandas()
    spent = ops.groupby(ops["op"].str.startswith("command_buffer"))["sum_ns"].sum()
    assert 100 * spent.get(True, 0) / spent.sum() <= left_pct
    low, high = on_tensor_cores_pct
    assert low <= 100 * ops["tc_ns"].sum() / ops["sum_ns"].sum() <= high
    products = ops[ops["op_type"] == "dot"]
    assert set(products["tc_capable"]) == {"yes"}
    assert set(ops[ops["op_type"] == "loop fusion"]["tc_capable"]) == {"no"}
