"""Ranges that mark steps: what follows where the source itself marks none, or somebody names them."""

from __future__ import annotations

from tcprobe.schema.tables import MEMORY_OPS
from tests.analysis.builders import marks, table
from tests.analysis.ranges.made import called, profile, ranges, told


def test_steps_are_numbered_as_the_source_numbers_them() -> None:
    marked = ranges(("step", "step 7", 100, 150, 1, {"step": 7}), ("step", "step 8", 200, 250, 1, {"step": 8}))
    found = told(profile(called(50, 120, 160, 200, None), marked))
    assert found.require("step_marks").values("iteration") == [7, 8]
    assert found.require("step_marks").values("end_ns") == [150, 250]
    assert found.require("launches").values("iteration") == [None, 7, 7, 8, None]


def test_steps_without_numbers_and_steps_inside_steps() -> None:
    marked = ranges(
        ("step", "b", 200, 250), ("step", "a", 100, 180), ("step", "inner", 120, 130), ("step", "other", 0, 400, 2)
    )  # fmt: skip
    found = told(profile(called(125, 210), marked))
    assert found.require("step_marks").values("name") == ["a", "b"]
    assert found.require("launches").values("iteration") == [0, 1]


def test_numbers_that_repeat_are_replaced_with_a_note() -> None:
    marked = ranges(("step", "s", 100, 150, 1, {"step": 1}), ("step", "s", 200, 250, 1, {"step": 1}))
    found = told(profile(called(125), marked))
    assert found.require("step_marks").values("iteration") == [0, 1]
    assert [n.code for n in found.metadata.notes] == ["step-numbers-repeat"]


def test_steps_of_the_source_itself_stay() -> None:
    own = profile(called(125), marks([0, 100], 90), ranges(("step", "s", 0, 500)))
    assert told(own).require("step_marks").values("name") == ["train", "train"]


def test_copies_belong_to_the_step_that_called_them() -> None:
    row = {"device": 0, "stream": 7, "start_ns": 900, "duration_ns": 5, "kind": "MemcpyH2D", "launch_ns": 110}
    found = told(profile(called(125), table(MEMORY_OPS, [row]), ranges(("step", "s", 100, 200))))
    assert found.require("memory_ops").values("iteration") == [0]
