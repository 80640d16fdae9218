"""How often ops run in a step: by the graph, by the profile, and what stands where the two differ."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import HOST_OPS, STEP_MARKS
from tests.analysis import builders as b

STEPS = 10
FLOPS = 2 * 32 * 64 * 128  # of one execution of each layer here


def profile(*ops: tuple[dict[str, Any], int], **metadata: Any) -> Profile:
    """Return a run of ten steps on a CPU: each op as the graph has it, and its calls in the profile."""
    host = [
        {"op": op["op"], "op_type": "MatMul", "calls": calls, "sum_ns": 100, "min_ns": 1, "max_ns": 9}
        for op, calls in ops
    ]
    seen = {row["op"]: row for row in host}
    marks = [{"iteration": i, "name": "train", "start_ns": 1000 * i, "end_ns": 1000 * i + 900} for i in range(STEPS)]
    graph = b.graph(*(op for op, _ in ops))
    return b.profile(
        graph, b.table(HOST_OPS, list(seen.values())), b.table(STEP_MARKS, marks), gpu_used=False, **metadata
    )


def layer(name: str, calls: float | None, at_least: bool = False, **more: Any) -> dict[str, Any]:
    return b.dense(name, 64, 128, calls_per_step=calls, at_least=at_least, **more)


def counted(found: Profile) -> dict[str, tuple[Any, Any]]:
    return {str(row["layer"]): (row["calls_per_step"], row["at_least"]) for row in found.require("gemms").rows()}


def codes(found: Profile) -> set[str]:
    return {note.code for note in found.metadata.notes}


def test_a_count_that_agrees_is_exact() -> None:
    found = analyse(profile((layer("a", 1.0), STEPS), (layer("loop", 20.0), 20 * STEPS)))
    assert counted(found) == {"a": (1.0, False), "loop": (20.0, False)}
    assert b.summary(found)["flops_per_step"]["value"] == 21 * FLOPS
    assert codes(found).isdisjoint({"executions-differ", "executions-counted"})


def test_fewer_than_computed_prove_nothing() -> None:
    found = analyse(profile((layer("a", 1.0), STEPS), (layer("loop", 20.0), 7)))
    assert counted(found)["loop"] == (20.0, False)


@pytest.mark.parametrize("calls", [None, 1.0])
def test_where_the_graph_does_not_tell_the_profile_does_at_least(calls: float | None) -> None:
    loop = layer("loop", calls, at_least=calls is not None)
    found = analyse(profile((layer("a", 1.0), STEPS), (loop, 35)))
    assert counted(found) == {"a": (1.0, False), "loop": (3.5, True)}
    row = b.summary(found)["flops_per_step"]
    assert (row["value"], row["low"], row["high"]) == (None, 4.5 * FLOPS, None)
    assert "executions-counted" in codes(found)


def test_a_forward_pass_that_a_validation_runs_too_tells_nothing() -> None:
    found = analyse(profile((layer("a", 1.0), 2 * STEPS), (layer("loop", None), 70)))
    assert counted(found) == {"a": (1.0, False), "loop": (None, False)}
    row = b.summary(found)["flops_per_step"]
    assert (row["value"], row["low"]) == (None, FLOPS)


def test_more_of_a_gradient_than_computed_is_said_and_taken() -> None:
    found = analyse(profile((layer("a", 1.0, **{"pass": "wgrad"}), 3 * STEPS)))
    assert counted(found) == {"a": (3.0, True)}
    (note,) = [note for note in found.metadata.notes if note.code == "executions-differ"]
    assert note.message.startswith("model/a/MatMul ran 30 times in 10 steps, by the graph 10 times")


def session(first: int, last: int) -> dict[str, Any]:
    return {"window": {"first_step": 2, "last_step": 9, "session": {"first_step": first, "last_step": last}}}


def test_calls_are_of_the_steps_of_the_session_marked_or_not() -> None:
    """The script's own session holds a first step that was not marked yet."""
    gradient = layer("a", 1.0, **{"pass": "wgrad"})
    found = analyse(profile((gradient, STEPS + 1), run=session(0, STEPS)))
    assert counted(found) == {"a": (1.0, False)}
    assert "executions-differ" not in codes(found)
    assert counted(analyse(profile((gradient, STEPS + 2), run=session(0, STEPS)))) == {"a": (12 / 11, True)}


def test_calls_of_several_phases_tell_nothing_of_one() -> None:
    gradient = layer("a", 1.0, part=0, repeats=1.0, **{"pass": "wgrad"})
    phases = b.phases((0, 9, {0: 1.0}), (10, 19, {0: 1.0}))
    for last, calls in ((9, 2.0), (19, 1.0)):
        found = profile((gradient, 2 * STEPS), run=session(0, last)).with_tables(phases)
        assert counted(analyse(found))["a"][0] == calls


def test_ops_of_one_name_are_held_against_their_sum() -> None:
    same = {"op": "while_15/body/_1/while/MatMul", "pass": "wgrad"}
    one, other = (layer(name, 5.0, **same) for name in ("one", "other"))
    assert counted(analyse(profile((one, 0), (other, 10 * STEPS)))) == {"one": (5.0, False), "other": (5.0, False)}
    assert counted(analyse(profile((one, 0), (other, 11 * STEPS)))) == {"one": (5.0, True), "other": (5.0, True)}


def test_layers_and_rates_say_that_they_are_lower_bounds() -> None:
    found = analyse(profile((layer("a", 1.0), 0), (layer("loop", 1.0, at_least=True), 0), (layer("branch", None), 0)))
    layers = {row["layer"]: (row["flops"], row["gemms"], row["at_least"]) for row in found.require("layers").rows()}
    assert layers == {"a": (FLOPS, 1, False), "loop": (FLOPS, 1, True), "branch": (None, 1, True)}
    assert b.summary(found)["flops_per_step"]["low"] == 2 * FLOPS


@pytest.mark.parametrize(
    ("seen", "exact"),
    [
        ({"a": ("forward", 115), "b": ("wgrad", 115)}, ("a", "b")),  # a loop of 11.5 turns
        ({"a": ("forward", 115), "b": ("wgrad", 114)}, ()),  # a call was missed
        ({"a": ("forward", 115), "b": ("forward", 115)}, ()),  # a validation may run it
        ({"a": ("forward", 5), "b": ("wgrad", 5)}, ()),  # fewer than the graph knows
        ({"a": ("forward", 115), "b": ("wgrad", 115), "c": ("wgrad", 30)}, ("a", "b")),
    ],
    ids=str,
)
def test_calls_that_ops_of_a_loop_have_in_common_are_exact(
    seen: dict[str, tuple[str, int]], exact: tuple[str, ...]
) -> None:
    ops = [(layer(name, 1.0, at_least=True, **{"pass": which}), calls) for name, (which, calls) in seen.items()]
    found = analyse(profile(*ops))
    each = counted(found)
    assert {name for name, (_, at_least) in each.items() if not at_least} == set(exact)
    assert all(each[name][0] == seen[name][1] / STEPS for name in exact)
    assert bool(exact) == any("counts them alike" in note.message for note in found.metadata.notes)
    if len(exact) == len(seen):
        assert b.summary(found)["flops_per_step"]["value"] == 2 * 11.5 * FLOPS


def test_what_another_thread_trains_is_told_and_is_no_part_of_the_step() -> None:
    """The other thread's model runs 17 times beside ten steps, under names that its own part of the graph has."""
    mine, other = layer("mine", 1.0, part=0), layer("other", 0.0, part=1, function="__inference_step_2")
    note = Note("threads", "threads train at once", None, "note")
    found = analyse(profile((mine, 3 * STEPS), (other, 17)).with_notes(note))
    assert counted(found) == {"mine": (1.0, False)}
    assert b.summary(found)["flops_per_step"]["value"] == FLOPS
    ops = {row["layer"]: (row["calls"], row["flops"], row["dtype"]) for row in found.require("ops").rows()}
    assert ops == {"mine": (3 * STEPS, FLOPS, "float16"), "other": (17, FLOPS, "float16")}
    assert [note.code for note in found.metadata.notes if note.code in ("threads", "not-in-step")] == ["threads"]
