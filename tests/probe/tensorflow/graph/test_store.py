"""Which traces graph.json holds."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.eager.parts import Body
from tcprobe.probe.tensorflow.graph.store import KEPT, KEPT_IN_ALL, RETRACING, Function, Store


def called() -> None:
    """Stand for a tf.function."""


def store(*keys: int) -> Store:
    made = Store(Gaps())
    for key in keys:
        made.functions[key] = Function(called, f"module.function_{key}")
        made.trains(key)
    return made


def record(name: str, rows: int = 8) -> dict[str, Any]:
    op = {
        "op": "dense/MatMul",
        "op_type": "MatMul",
        "executes": "yes",
        "input_shapes": [[rows, 4]],
        "input_dtypes": ["float32"],
    }
    times = {"repeats": 3.0, "at_least": False, "in_steps_loop": False}
    return {"name": name, "python_name": "f", "ops": [{**op, "layer": "dense", **times}]}


def names(document: dict[str, Any], key: str) -> list[str]:
    return [f["name"] for f in document[key]]


def test_a_trace_like_an_earlier_one_takes_its_place() -> None:
    held = store(1)
    for number in range(20):
        held.keep(1, record(f"__inference_step_{number}", rows=8 + number % 2))
    document = held.document("2.21.0")
    assert names(document, "functions") == ["__inference_step_18"]
    assert names(document, "variants") == ["__inference_step_19"]
    assert document["variants"][0]["variant_of"] == "__inference_step_18"


def test_of_many_different_traces_the_first_and_the_last_are_kept() -> None:
    held = store(1)
    for number in range(20):
        held.keep(1, record(f"__inference_step_{number}", rows=number))
    document = held.document(None)
    assert names(document, "functions") == ["__inference_step_0"]
    assert names(document, "variants") == [f"__inference_step_{n}" for n in range(21 - KEPT, 20)]


def test_what_stands_for_a_trace_is_told() -> None:
    held = store(1)
    for number in range(20):
        held.keep(1, record(f"__inference_step_{number}", rows=number))
    held.keep(1, record("__inference_step_20", rows=19))
    held.keep(1, record("__inference_step_21", rows=19))
    held.without_products.add("__inference_other_1")
    asked = (0, 1, 18, 19, 20, 21, 22)
    assert [held.standing(f"__inference_step_{n}") for n in asked] == [
        "__inference_step_0", None, "__inference_step_18", *["__inference_step_21"] * 3, None,
    ]  # fmt: skip
    assert held.standing("__inference_other_1") == "__inference_other_1"


def test_functions_of_one_name_are_not_mixed_up() -> None:
    held = store(1, 2)
    held.keep(1, record("__inference_step_1"))
    held.keep(2, record("__inference_step_2"))
    assert names(held.document(None), "functions") == ["__inference_step_1", "__inference_step_2"]


def test_the_forward_and_backward_halves_of_a_call_are_both_functions() -> None:
    held = store(1)
    held.keep(1, record("__inference_step_1"))
    held.keep(1, record("__backward_step_2"))
    assert names(held.document(None), "functions") == ["__inference_step_1", "__backward_step_2"]


def test_the_program_keeps_a_bounded_number() -> None:
    held = store(*range(200))
    for key in range(200):
        held.keep(key, record(f"__inference_step_{key}"))
    assert len(held.document(None)["functions"]) == KEPT_IN_ALL


def test_retracing_is_told_once() -> None:
    held = store(1)
    for number in range(2 * RETRACING):
        held.functions[1].traces += 1
        held.keep(1, record(f"__inference_step_{number}"))
    assert [note["code"] for note in held._gaps.notes] == ["retracing"]


def test_an_eager_step_stands_without_a_name() -> None:
    held = store()
    assert held.document(None)["functions"] == []
    held.keep_part(1, "tape", [Body(record("x")["ops"], Counter(), 1.0)])
    (found,) = held.document(None)["functions"]
    assert (found["name"], found["executed_basis"], found["training"]) == (None, "eager", True)


def once(rows: int) -> list[dict[str, Any]]:
    return [{**op, "repeats": 1.0} for op in record("x", rows)["ops"]]


def test_an_eager_part_tells_what_share_of_its_calls_runs_a_body_and_calls_a_function() -> None:
    """Two bodies of one tape run in half of its calls each; one of them calls a function twice."""
    held = store(7)
    held.training.clear()
    held.keep(7, record("__inference_forward_1"))
    held.keep_part(1, "tape", [Body(once(rows), Counter({7: calls}), 0.5) for rows, calls in ((8, 2), (4, 0))])
    first, second, forward = held.document(None)["functions"]
    assert [(f["key"], f["python_name"], f["share"]) for f in (first, second)] == [(1, "tape", 0.5)] * 2
    assert [op["op"] for f in (first, second) for op in f["ops"]] == ["dense/MatMul", "dense/MatMul_1"]
    assert (forward["training"], forward["callers"]) == (True, [{"key": 1, "calls": 1.0}])
    held.keep_part(2, "other", [Body([], Counter({7: 3}), 1.0)])
    (forward,) = [f for f in held.document(None)["functions"] if f["key"] == 7]
    assert forward["callers"] == [{"key": 1, "calls": 1.0}, {"key": 2, "calls": 3.0}]


def test_only_what_knows_its_steps_writes_the_calls_in_one() -> None:
    held = store(1)
    held.keep(1, record("__inference_step_1"))
    assert held.document(None)["functions"][0]["calls_per_step"] is None
    held.calls_per_step[1] = 5.0
    assert held.document(None)["functions"][0]["calls_per_step"] == 5.0


def test_what_is_seen_later_of_a_part_replaces_what_was_seen_before() -> None:
    held = store()
    for rows in (8, 4):
        held.keep_part(1, "tape", [Body(once(rows), Counter(), 1.0)])
    (function,) = held.document(None)["functions"]
    assert function["ops"][0]["input_shapes"] == [[4, 4]]
