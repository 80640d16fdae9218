"""Runs without a GPU: what they cost on the host, and what they do not have."""

from __future__ import annotations

import pytest

from tcprobe.analysis import analyse
from tcprobe.schema.tables import DEVICES, KERNELS, LAUNCHES, MEMORY_OPS
from tests.analysis import builders as b

CALL = ("__inference_step_1", "EagerLocalExecute", 3, 5000)


def test_calls_of_whole_functions_are_no_ops() -> None:
    run = b.profile(
        b.host_ops(
            CALL, ("StatefulPartitionedCall", "StatefulPartitionedCall", 3, 4000), ("while", "While", 3, 3500),
            ("model/a/MatMul", "MatMul", 3, 900), ("model/a/Relu", "Relu", 3, 90), ("loss/Mean", "Mean", 3, 950),
            ("__inference_step_7", "__inference_step_7", 3, 4500),
        ),
        b.graph(b.dense("a", 100, 3087)),
        gpu_used=False,
    )  # fmt: skip
    out = analyse(run)
    assert [(row["op"], row["host_ns"]) for row in b.rows(out, "ops")] == [
        ("loss/Mean", 950), ("model/a/MatMul", 900), ("model/a/Relu", 90),
    ]  # fmt: skip
    assert {row["op_type"] for row in b.rows(out, "host_ops")} == {"MatMul", "Relu", "Mean"}
    assert {row["layer"]: row["host_ns"] for row in b.rows(out, "layers")} == {"a": 990, "(no layer)": 950}
    assert len(run.require("host_ops")) == 7


@pytest.mark.parametrize(("used", "why"), [(False, "the run used no GPU"), (None, "the source records no kernels")])
def test_tables_of_a_gpu_are_absent_without_one(used: bool | None, why: str) -> None:
    empty = [b.table(spec, []) for spec in (LAUNCHES, MEMORY_OPS, KERNELS, DEVICES)]
    run = b.profile(b.host_ops(("a/MatMul", "MatMul", 3, 9)), b.marks([0, 10, 20], 9), *empty, gpu_used=used)
    out = analyse(run)
    assert {"launches", "memory_ops", "kernels", "devices"}.isdisjoint(out.tables)
    assert out.absent["kernels"] == out.absent["devices"] == why
    assert [row["iteration"] for row in b.rows(out, "iterations")] == [0, 1, 2]
    for column in ("launches", "sum_ns", "union_ns", "tc_ns", "unknown_ns", "memory_ns", "tc_kernel_time_pct"):
        assert {row[column] for row in b.rows(out, "iterations")} == {None}, column
