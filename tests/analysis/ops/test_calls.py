"""How often ops that ranges name ran, and the GEMMs of PyTorch's ops end to end."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.analysis.ops.counts import calls_per_step
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, OP_DETAILS, RANGES
from tests.analysis import builders as b

STEP = 100_000
STEPS = 4
CALLS = ((10, 0), (20, 0), (30, 1))
"""When each step calls aten::mm, and with which shapes."""
SHAPES = ("[[64, 128], [128, 256]]", "[[64, 256], [256, 32]]")
FLOPS = (2 * 64 * 128 * 256, 2 * 64 * 256 * 32)


def profile(*more: dict[str, Any], steps: bool = True) -> Profile:
    """Return steps of three aten::mm, each within an aten::matmul without kernels of its own; two kernels a call."""
    ranges: list[dict[str, Any]] = list(more)
    launches: list[dict[str, Any]] = []
    for step in range(STEPS):
        if steps:
            ranges.append({"name": f"step {step}", "kind": "step", "start_ns": step * STEP, "duration_ns": STEP - 1})
        for at, shape in CALLS:
            start = step * STEP + at * 1000
            for name, inset in (("aten::matmul", 0), ("aten::mm", 10)):
                told = {"name": name, "kind": "op", "op_type": name, "input_shapes": SHAPES[shape], "thread": 1}
                ranges.append({**told, "start_ns": start + inset, "duration_ns": 900 - 2 * inset})
            for number, kernel in enumerate((b.TC, b.OTHER)):
                launches.append(
                    {
                        "device": 0,
                        "stream": 7,
                        "kernel": kernel,
                        "op_id": -1,
                        "config_id": -1,
                        "thread": 1,
                        "launch_ns": start + 20 + 100 * number,
                        "start_ns": start + 500 * (1 + number),
                        "duration_ns": 400 if number == 0 else 50,
                    }
                )
    stepped = [{"thread": 1, **row} for row in ranges]
    return b.profile(b.table(LAUNCHES, launches), b.table(RANGES, stepped), b.devices({}))


def test_each_shape_is_a_product_that_counts_as_often_as_it_ran() -> None:
    out = analyse(profile())
    found = {row["k"]: row for row in b.rows(out, "gemms")}
    assert {k: (row["op"], row["flops"], row["calls_per_step"]) for k, row in found.items()} == {
        128: ("aten::mm", FLOPS[0], 2.0),
        256: ("aten::mm", FLOPS[1], 1.0),
    }
    steps = out.counted_steps or 0
    assert steps > 0
    assert {k: row["kernel_ns"] for k, row in found.items()} == {128: 900 * steps, 256: 450 * steps}
    figure = out.figure("flops_per_step")
    assert figure is not None
    assert figure["value"] == 2 * FLOPS[0] + FLOPS[1]


def test_an_op_that_only_calls_another_has_no_row() -> None:
    assert {row["op"] for row in b.rows(analyse(profile()), "ops")} == {"aten::mm"}
    (op,) = b.rows(analyse(profile()), "ops")
    assert (op["tc_capable"], op["flops"]) == ("yes", None)  # of two shapes, it is of no one call


def test_without_steps_nobody_knows_how_often_a_step_calls_it() -> None:
    rows = b.rows(analyse(profile(steps=False)), "gemms")
    assert [row["calls_per_step"] for row in rows] == [None, None]


def test_ops_that_no_range_names_count_once() -> None:
    details = b.table(OP_DETAILS, [{"op": "m/MatMul", "op_type": "MatMul", "input_shapes": SHAPES[0]}])
    launches = b.launches(*((b.TC, 0, i // 2, 1000 * i, 100) for i in range(8)))
    out = analyse(b.profile(launches, details, b.devices({})))
    assert [row["calls_per_step"] for row in b.rows(out, "gemms")] == [1.0]
    assert calls_per_step(out, {}) == {}


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_of_each_thread_are_its_own(threads: int) -> None:
    """A range of another thread that began later holds none of these launches."""
    late = {"name": "aten::mm", "kind": "op", "op_type": "aten::mm", "duration_ns": 5, "thread": threads}
    out = analyse(profile(*({**late, "start_ns": step * STEP + 10_015} for step in range(STEPS))))
    found = {row["k"]: row["calls_per_step"] for row in b.rows(out, "gemms")}
    assert found[128] == 2.0
