"""Ranges that mark steps: what follows where the source itself marks none, or somebody names them."""

from __future__ import annotations

import numpy as np
import pytest

from tcprobe.errors import UsageError
from tcprobe.schema.columns import concatenate
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS, THREADS
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


def test_steps_of_several_threads_are_called_out() -> None:
    mine, rank_1 = ("step", "s", 100, 200), ("step", "s", 150, 250, 2)
    assert not told(profile(called(125), ranges(mine))).metadata.notes
    found = told(profile(called(125), ranges(mine, rank_1)))
    assert [n.code for n in found.metadata.notes] == ["steps-of-one-thread"]
    assert "2 threads" in found.metadata.notes[0].message


def test_launches_count_to_the_steps_of_their_own_process() -> None:
    """The second process is a step behind, as ranks of one job are."""
    mine = [("step", "s", 100 * n, 100 * n + 90, 1, {"step": n}) for n in range(3)]
    rank_1 = [("step", "s", 100 * n + 100, 100 * n + 190, 2, {"step": n}) for n in range(2)]
    launches = concatenate(LAUNCHES, [called(10, 110, 210), called(110, 210, thread=2), called(110, thread=3)])
    threads = table(THREADS, [{"thread": n, "process": n > 1} for n in (1, 2, 3)])
    found = told(profile(launches, ranges(*mine, *rank_1), threads))
    assert found.require("launches").values("iteration") == [0, 1, 2, 0, 1, 0]
    assert found.require("step_marks").values("start_ns") == [0, 100, 200]
    assert [n.code for n in found.metadata.notes] == ["steps-by-process"]
    unnumbered = ranges(*mine, *(("step", "s", *row[2:5]) for row in rank_1))
    found = told(profile(launches, unnumbered, threads))
    assert "steps-of-one-thread" in [n.code for n in found.metadata.notes]


def test_steps_of_the_source_itself_stay() -> None:
    own = profile(called(125), marks([0, 100], 90), ranges(("step", "s", 0, 500)))
    assert told(own).require("step_marks").values("name") == ["train", "train"]


def test_copies_belong_to_the_step_that_called_them() -> None:
    row = {"device": 0, "stream": 7, "start_ns": 900, "duration_ns": 5, "kind": "MemcpyH2D", "launch_ns": 110}
    found = told(profile(called(125), table(MEMORY_OPS, [row]), ranges(("step", "s", 100, 200))))
    assert found.require("memory_ops").values("iteration") == [0]


def batches() -> Profile:
    marked = ranges(
        ("step", "its own", 0, 90), ("op", "batch 7 of 9", 100, 150), (None, "other", 160, 170),
        ("op", "batch 8 of 9", 200, 250), ("op", "batch of 9", 300, 310, 2),
    )  # fmt: skip
    return profile(called(50, 120, 165, 220, None), marks([0, 100], 90), marked)


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        (r"^batch \d", [7, 8]), (r"batch (\d+)", [7, 8]), (r"batch \d+ of (?P<step>\d+)", [0, 1]),
        (r"batch (?P<step>\d+) of (\d+)", [7, 8]), ("^bat", [0, 1]), (r"^(?:batch|other)( x)?", [0, 1, 2]),
    ],
)  # fmt: skip
def test_ranges_of_given_names_are_the_steps(pattern: str, numbers: list[int]) -> None:
    found = told(batches(), pattern)
    assert found.require("step_marks").values("iteration") == numbers
    during = numbers[1] if len(numbers) > 2 else numbers[0]
    assert found.require("launches").values("iteration") == [None, numbers[0], during, numbers[-1], None]


def test_given_steps_are_no_ops_any_more() -> None:
    found = told(batches(), "^batch")
    assert set(found.require("ranges").values("kind")) == {"step", None}
    assert "op_details" not in found.tables


def test_names_that_no_range_has_are_an_error_that_names_the_frequent_ones() -> None:
    with pytest.raises(UsageError, match="no range of this profile has such a name") as caught:
        told(batches(), "nothing")
    assert "its own (1)" in str(caught.value.hint) and "--step-range" in str(caught.value.hint)
    with pytest.raises(UsageError, match="records no ranges"):
        told(profile(called(5)), "step")


def test_steps_may_be_started_on_one_thread_and_ended_on_another() -> None:
    more = {"nests": False, "end_thread": 2}
    marked = ranges(("step", "a", 0, 100, 1, more), ("step", "b", 100, 200, 1, more))
    assert told(profile(called(50, 150), marked)).require("launches").values("iteration") == [0, 1]


def test_a_recording_without_kernels_has_steps() -> None:
    found = told(Profile(Metadata("nsys")).with_tables(ranges(("step", "a", 0, 10), ("step", "b", 10, 20))))
    assert found.require("step_marks").values("iteration") == [0, 1]


def test_names_that_no_range_bears_any_more_are_not_offered() -> None:
    marked = ranges(("step", "iteration", 0, 10), ("step", "left out", 20, 30))
    rest = marked.take(np.array([0], np.int64))
    with pytest.raises(UsageError) as refused:
        told(profile(rest), "^step")
    assert "the most frequent are iteration (1): give" in str(refused.value.hint)
