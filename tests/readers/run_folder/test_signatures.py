"""In which shapes calls ran, as the probe writes it."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.readers.run_folder.graph import with_signatures
from tcprobe.schema.columns import Table
from tcprobe.schema.tables import STEPS

OP = {"op": "net/MatMul", "op_type": "MatMul", "executes": "yes", "input_shapes": [[16, 8]], "output_shapes": [[16, 4]]}
STEP = {"name": "__inference_step_3", "key": 7, "ops": [OP], "training": True}
SMALL = [[[[5, 8]], [[5, 4]]]]
SAME = [[OP["input_shapes"], OP["output_shapes"]]]
WIDE = {**STEP, "name": "__inference_step_9", "ops": [{**OP, "input_shapes": [[32, 8]]}]}


def steps(*starts: int) -> Table:
    rows = [{"step": 4 + row, "start_ns": start, "kind": "profiled"} for row, start in enumerate(starts)]
    return Table.from_rows(STEPS, rows)


def signature(*at_ns: int, **other: Any) -> dict[str, Any]:
    return {"key": 7, "name": "__inference_step_3", "shapes": None, "at_ns": [*at_ns], **other}


def read(*signatures: Any, function: dict[str, Any] = STEP, variants: tuple[Any, ...] = ()) -> list[Any]:
    graph = {"functions": [function], "variants": [*variants], "signatures": [*signatures]}
    return with_signatures(graph, steps(100, 200, 300, 400))


def shapes(functions: list[Any]) -> list[Any]:
    return [([op["input_shapes"] for op in one["ops"]], one.get("called_in")) for one in functions]


@pytest.mark.parametrize(
    ("signatures", "variants", "expected"),
    [
        ((), (), [([[[16, 8]]], None)]),
        ((signature(110, 210),), (), [([[[16, 8]]], None)]),
        # all calls ran in other sizes than the first one
        ((signature(110, 210, shapes=SMALL),), (), [([[[5, 8]]], None)]),
        (
            (signature(110, 210, 410), signature(310, shapes=SMALL)),
            (),
            [([[[16, 8]]], [4, 5, 7]), ([[[5, 8]]], [6])],
        ),
        # a trace of its own for other sizes; one that came before any step
        ((signature(50, 110), signature(210, name=WIDE["name"])), (WIDE,), [([[[16, 8]]], [4]), ([[[32, 8]]], [5])]),
        # sizes that made no difference
        ((signature(110), signature(210, shapes=SAME)), (), [([[[16, 8]]], None)]),
        # sizes that nobody inferred, a trace that was not kept, shapes of other ops: unknown
        ((signature(110), signature(210, shapes=[])), (), [([[[16, 8]]], [4]), ([[]], [5])]),
        ((signature(110), signature(210, name=None)), (), [([[[16, 8]]], [4]), ([[]], [5])]),
        ((signature(110), signature(210, shapes=[*SMALL, *SMALL])), (), [([[[16, 8]]], [4]), ([[]], [5])]),
        # a trace without products
        ((signature(110), signature(210, name="__inference_step_5")), (), [([[[16, 8]]], [4]), ([], [5])]),
        # of another part, and damaged
        ((signature(110), signature(210, key=8), 3, {"key": 7, "at_ns": "x"}), (), [([[[16, 8]]], None)]),
    ],
)  # fmt: skip
def test_a_function_stands_once_for_each_set_of_shapes(
    signatures: tuple[Any, ...], variants: tuple[Any, ...], expected: list[Any]
) -> None:
    assert shapes(read(*signatures, variants=variants)) == expected


def test_a_half_of_a_call_that_is_traced_apart_has_unknown_shapes_where_calls_differ() -> None:
    half = {**STEP, "name": "__backward_step_4"}
    assert shapes(read(signature(110), function=half)) == [([[[16, 8]]], None)]
    assert shapes(read(signature(110), signature(210, shapes=SMALL), function=half)) == [([[]], None)]


def test_calls_are_of_no_step_where_none_is_known() -> None:
    graph = {"functions": [STEP], "signatures": [signature(110), signature(210, shapes=SMALL)]}
    assert [one["called_in"] for one in with_signatures(graph, None)] == [[], []]
