"""What XLA ran of the graph: by name, else by sizes; each instruction is given out once, and the rest does not run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis.flow import analyse
from tcprobe.analysis.ops.xla import XlaJoin, join_xla
from tcprobe.schema.profile import Note
from tests.analysis import builders as b
from tests.support import examples

Row = dict[str, Any]


def traced(op: str, units: int, inputs: int = 8, executes: str = "unknown", **more: Any) -> Row:
    """A MatMul of 32 rows that XLA compiles."""
    made = b.dense(op, inputs, units, executes=executes, executes_basis="traced")
    return {**made, "op": op, "executed_op": None, "executed_type": None, **more}


def ran(instruction: str, op: str | None, sizes: list[int], module: str = "step(1)", **more: Any) -> Row:
    """A dot of an HLO module; without `op` it has no name."""
    attributes = {} if op else {"unnamed": True}
    row = {"op": op or instruction, "op_type": "dot", "executed_op": instruction, "executed_type": "dot"}
    return {**row, "function": module, "output_shape": sizes, "attributes": attributes, "pass": None, **more}


def joined(rows: Sequence[Row], *codes: str) -> XlaJoin:
    profile = b.profile(b.graph(*rows), notes=tuple(Note(code, code) for code in codes))
    return join_xla(profile)


def verdicts(rows: Sequence[Row], *codes: str) -> dict[str, tuple[Any, Any]]:
    """Return what is said of each traced op, and why."""
    columns = (joined(rows, *codes).graph.values(c) for c in ("op", "op_type", "executes", "executes_basis"))
    return {str(op): (said, why) for op, kind, said, why in zip(*columns, strict=True) if kind != "dot"}


YES, NO, OPEN = ("yes", "optimised HLO"), ("no", "optimised HLO"), ("unknown", "traced")


def test_an_instruction_names_its_op_whatever_stands_around_it() -> None:
    rows = [
        traced("a/MatMul", 16),
        traced("StatefulPartitionedCall/b/MatMul", 16),
        ran("dot.1", "jit/a/MatMul", [32, 16]),
        ran("dot.2", "b/MatMul", [32, 16]),
    ]
    assert verdicts(rows) == {"a/MatMul": YES, "StatefulPartitionedCall/b/MatMul": YES}
    assert joined(rows).runs_as == {("step(1)", "dot.1"): (0,), ("step(1)", "dot.2"): (1,)}


def test_one_without_a_name_is_the_op_of_its_sizes_without_those_of_1() -> None:
    rows = [traced("a/MatMul", 16), traced("b/MatMul", 1), ran("dot.1", "a/MatMul", [32, 16]), ran("x", None, [32])]
    assert verdicts(rows) == {"a/MatMul": YES, "b/MatMul": YES}


def test_what_no_module_holds_does_not_execute() -> None:
    rows = [traced("a/MatMul", 16), traced("b/MatMul", 24), ran("dot.1", "a/MatMul", [32, 16])]
    assert verdicts(rows)["b/MatMul"] == NO


def test_a_contraction_of_length_1_is_no_product() -> None:
    rows = [traced("a/MatMul", 16), traced("b/MatMul", 24, inputs=1), ran("dot.1", "a/MatMul", [32, 16])]
    assert verdicts(rows)["b/MatMul"] == ("no", "length 1")


def test_dead_ops_stay_dead_unless_a_module_shows_them_by_name() -> None:
    dead = {"executes": "no", "executes_basis": "liveness"}
    rows = [traced("a/MatMul", 16), traced("b/MatMul", 24, **dead), traced("c/MatMul", 24, **dead)]
    rows += [ran("dot.1", "a/MatMul", [32, 16]), ran("x", None, [32, 24]), ran("dot.2", "c/MatMul", [32, 24])]
    assert verdicts(rows) == {"a/MatMul": YES, "b/MatMul": ("no", "liveness"), "c/MatMul": YES}


def test_ops_outside_the_clusters_stay_as_the_partition_graph_has_them() -> None:
    rows = [traced("a/MatMul", 16), {**traced("b/MatMul", 24, executes="yes"), "executes_basis": "graph collection"}]
    assert verdicts([*rows, ran("dot.1", "a/MatMul", [32, 16])])["b/MatMul"] == ("yes", "graph collection")


def test_nothing_is_said_without_modules_nor_of_functions_that_none_holds() -> None:
    assert verdicts([traced("a/MatMul", 16)]) == {"a/MatMul": OPEN}
    assert verdicts([traced("a/MatMul", 16), ran("dot.1", "other/MatMul", [32, 24])]) == {"a/MatMul": OPEN}


@pytest.mark.parametrize("code", ["xla-modules-missing", "xla-calls-unread", "events-lost"])
def test_what_was_not_read_proves_nothing_absent(code: str) -> None:
    rows = [traced("a/MatMul", 16), traced("b/MatMul", 24), ran("dot.1", "a/MatMul", [32, 16])]
    assert verdicts(rows, code) == {"a/MatMul": YES, "b/MatMul": OPEN}


def test_what_cannot_be_told_apart_stays_unknown() -> None:
    named = [traced("a/MatMul", 16), ran("dot.1", "a/MatMul", [32, 16])]
    rivals = [traced("b/MatMul", 24), traced("c/MatMul", 24)]
    assert verdicts([*named, *rivals, ran("x", None, [32, 24])])["b/MatMul"] == OPEN
    merged = [traced("a/MatMul", 16), ran("dot.1", "a/MatMul", [32, 48]), *rivals]  # three dots made one
    assert verdicts(merged)["c/MatMul"] == OPEN
    unclear = [*named, traced("b/MatMul", 24, output_shape=[None, 24])]
    assert verdicts(unclear)["b/MatMul"] == OPEN


def test_an_instruction_of_a_branch_may_not_run() -> None:
    rows = [traced("a/MatMul", 16), ran("dot.1", "a/MatMul", [32, 16], executes="unknown")]
    assert verdicts(rows)["a/MatMul"][0] == "unknown"


def test_calls_of_one_function_are_one_in_its_module() -> None:
    calls = ["StatefulPartitionedCall", "StatefulPartitionedCall_1", "StatefulPartitionedCall_2"]
    rows = [traced(f"{call}/{op}/MatMul", units) for call in calls for op, units in (("a", 16), ("b", 24))]
    rows += [ran("dot.1", "a/MatMul", [32, 16]), ran("x", None, [32, 24])]
    assert set(verdicts(rows).values()) == {YES}


def test_a_module_is_of_the_function_of_which_it_holds_most() -> None:
    first = [traced(f"{name}/MatMul", 16, function="d_step") for name in ("shared", "d")]
    second = [traced(f"{name}/MatMul", 16, function="g_step") for name in ("shared", "g")]
    rows = [*first, *second, ran("dot.1", "shared/MatMul", [32, 16]), ran("dot.2", "d/MatMul", [32, 16])]
    graph = joined(rows).graph
    assert graph.values("executes") == ["yes", "yes", "unknown", "unknown"]


def test_products_of_xla_itself_are_listed_apart_and_charged_to_no_layer() -> None:
    rows = [traced("m/a/MatMul", 16, layer="a"), ran("dot.1", "m/a/MatMul", [32, 16])]
    rows += [ran("conv.1", "m/up/ResizeBilinear", [32, 99]), ran("dot.9", "test/MatMul", [32, 7], module="test(2)")]
    analysed = analyse(b.profile(b.graph(*rows)))
    assert [(row["op"], row["layer"]) for row in b.rows(analysed, "gemms")] == [("m/a/MatMul", "a")]
    assert b.summary(analysed)["flops_per_step"]["value"] == 2 * 32 * 8 * 16
    notes = {note.code: note.message for note in analysed.metadata.notes}
    assert "m/up/ResizeBilinear" in notes["xla-own-products"]
    assert "test/MatMul" not in notes["xla-own-products"]


def test_a_kernel_of_an_instruction_without_name_is_of_the_op_that_it_stands_for() -> None:
    rows = [traced("a/MatMul", 16, layer="a"), traced("b/MatMul", 24, layer="b")]
    rows += [ran("dot.1", "a/MatMul", [32, 16]), ran("dot.2", None, [32, 24])]
    details = b.details(("dot.2", "dot")).with_columns(hlo_op=["dot.2"], hlo_module=["step(1)"])
    tables = (b.graph(*rows), details, b.launches((b.TC, 0, 0, 0, 100)), b.devices({}), b.marks([0], 100))
    analysed = analyse(b.profile(*tables, gpu_used=True))
    assert [(row["layer"], row["sum_ns"]) for row in b.rows(analysed, "ops")] == [("b", 100)]


SIZES = st.lists(st.sampled_from([8, 16, 24]), max_size=6)


@settings(deadline=None, max_examples=examples(75))
@given(live=SIZES, unnamed=SIZES, dead=SIZES, seed=st.integers(0, 99))
def test_each_instruction_is_given_out_at_most_once_in_any_order(
    live: list[int], unnamed: list[int], dead: list[int], seed: int
) -> None:
    rows = [traced("named/MatMul", 48), ran("dot.0", "named/MatMul", [32, 48])]
    rows += [traced(f"live{i}/MatMul", units) for i, units in enumerate(live)]
    rows += [traced(f"dead{i}/MatMul", units, executes="no") for i, units in enumerate(dead)]
    rows += [ran(f"dot.{i + 1}", None, [units, 32]) for i, units in enumerate(unnamed)]
    said = verdicts(rows)
    for units in (8, 16, 24):
        mine = [said[f"live{i}/MatMul"] for i, size in enumerate(live) if size == units]
        assert mine.count(YES) <= unnamed.count(units)
        if len(mine) <= unnamed.count(units):
            assert mine == [YES] * len(mine)
    assert all(said[f"dead{i}/MatMul"][0] == "no" for i in range(len(dead)))
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert verdicts(shuffled) == said
