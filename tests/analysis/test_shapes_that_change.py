"""Steps whose calls have other shapes each time: figures of the mean step, and what lies around it."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.analysis.context import Options
from tcprobe.analysis.phases import of_no_shapes
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b

ROW = 2 * 64 * 128  # FLOPs of one row of a batch
OP = b.dense("head", 64, 128)["op"]


def dense(batch: int, called_in: list[int], **more: Any) -> dict[str, Any]:
    return b.dense("head", 64, 128, batch=batch, called_in=called_in, part=0, **more)


def run(*rows: dict[str, Any], launches: tuple[tuple[Any, ...], ...] = ()) -> Profile:
    """Return a run of steps 0 to 5, each of 1000 ns, of which 2 to 5 count; of a GPU where kernels are given."""
    marks = b.marks([1000 * step for step in range(6)], 900, "tcprobe_step")
    tables = [b.graph(*rows), marks]
    if launches:
        made = [(b.TC, 0, step, 1000 * step + 100, ns) for step, ns in launches]
        tables += [b.launches(*made), b.details((OP, "MatMul", "float16")), b.devices({})]
    profile = b.profile(*tables, gpu_used=bool(launches))
    return analyse(profile, Options(iter_start=2, iter_stop=5))


def test_flops_are_those_of_the_mean_counted_step_with_the_least_and_the_most() -> None:
    often = {"calls_per_step": 5 / 4}
    found = run(dense(32, [1, 2, 4], **often), dense(8, [0, 3, 5, 5], **often), b.dense("tail", 64, 128, batch=4))
    row = b.summary(found)["flops_per_step"]
    # head runs 32 rows in steps 2 and 4, 8 rows in 3, twice 8 in 5; tail always 4
    assert (row["value"], row["low"], row["high"]) == ((22 + 4) * ROW, (8 + 4) * ROW, (32 + 4) * ROW)
    assert row["reason"] == "mean of the counted steps, whose shapes change"
    calls = {(r["layer"], r["m"]): r["calls_per_step"] for r in found.require("gemms").rows()}
    assert calls == {("head", 32): 1 / 2, ("head", 8): 3 / 4, ("tail", 4): 1.0}


def test_the_mean_is_exact_where_a_step_calls_once() -> None:
    found = run(dense(32, [1, 2, 4]), dense(7, [3, 5]))
    row = b.summary(found)["flops_per_step"]
    assert (row["value"], row["low"], row["high"]) == ((2 * 32 + 2 * 7) / 4 * ROW, 7 * ROW, 32 * ROW)
    (layer,) = found.require("layers").rows()
    assert (layer["gemms"], layer["flops"], layer["at_least"]) == (1, row["value"], False)


def test_shapes_that_no_counted_step_runs_are_left_out() -> None:
    found = run(dense(32, [0, 1]), dense(8, [2, 3, 4, 5]))
    row = b.summary(found)["flops_per_step"]
    assert (row["value"], row["low"], row["high"], row["reason"]) == (8 * ROW, None, None, None)
    assert found.require("graph_ops").values("calls_per_step") == [0.0, 1.0]


def test_unknown_shapes_make_a_lower_bound() -> None:
    found = run(dense(32, [2, 4]), {**dense(0, [3, 5]), "input_shapes": [], "output_shape": None})
    row = b.summary(found)["flops_per_step"]
    assert (row["value"], row["low"], row["high"]) == (None, 16 * ROW, None)


@pytest.mark.parametrize("called", [[], [90]])
def test_a_part_that_no_counted_step_calls_goes_by_all_that_was_seen(called: list[int]) -> None:
    found = run(dense(32, called), dense(8, [0]))
    value = b.summary(found)["flops_per_step"]["value"]
    assert value == (20 if called else 8) * ROW


@pytest.mark.parametrize("text", ["[", "7", '["x"]', "[[]]"])
def test_a_damaged_list_of_steps_is_of_no_call(text: str) -> None:
    found = run({**dense(32, []), "called_in": text}, dense(8, [2, 3]))
    assert b.summary(found)["flops_per_step"]["value"] == 8 * ROW


def test_time_goes_to_the_shapes_of_the_step_that_spent_it() -> None:
    launches = ((1, 999), (2, 40), (3, 9), (4, 60), (5, 11))
    found = run(dense(32, [1, 2, 4]), dense(8, [3, 5]), launches=launches)
    assert {r["m"]: r["kernel_ns"] for r in found.require("gemms").rows()} == {32: 100, 8: 20}
    peak = b.summary(found)["achieved_tflop_per_s"]["value"]
    assert peak == pytest.approx(2 * (32 + 8) * ROW / 120 / 1e3)


def test_time_of_a_step_that_ran_several_shapes_is_nobodys() -> None:
    found = run(dense(32, [2, 3, 4]), dense(8, [3, 5]), launches=((2, 40), (3, 9), (4, 60), (5, 11)))
    assert found.require("gemms").values("kernel_ns") == [None, None]


def test_mfu_is_of_the_mean_step() -> None:
    found = run(dense(32, [2, 4]), dense(8, [3, 5]), launches=((2, 40), (3, 9), (4, 60), (5, 11)))
    row = b.summary(found)["mfu_pct"]
    assert "of the mean step: shapes change" in row["reason"]


def test_steps_that_were_not_profiled_have_unknown_shapes() -> None:
    graph = b.graph(dense(32, [2]), dense(8, [3]), b.dense("tail", 64, 128))
    assert of_no_shapes(graph).values("input_shapes") == [None, graph.values("input_shapes")[2]]
