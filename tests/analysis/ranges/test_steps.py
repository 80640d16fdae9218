"""Ranges that mark steps: what follows where the source itself marks none, or somebody names them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcprobe.analysis.ranges.steps import families
from tcprobe.errors import UsageError
from tcprobe.schema.columns import Table, concatenate
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


KERNELS = called(*range(5, 1000, 10))
"""Ten in each hundred ns."""


def each(*names: str, start: int = 0, length: int = 95, every: int = 100, thread: int = 1) -> list[tuple[Any, ...]]:
    return [(None, name, start + every * at, start + every * at + length, thread) for at, name in enumerate(names)]


def numbered(name: str, *numbers: int) -> list[str]:
    return [name.replace("#", str(number)) for number in numbers]


def why(given: Profile) -> dict[str, str | None]:
    return {one.pattern: one.why_not for one in families(given)}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("iteration #", r"^iteration (\d+)$"), ("token_#_processing", r"^token_(\d+)_processing$"),
        ("step:#", r"^step:(\d+)$"), ("resnet50 batch [#] (8 GPUs)", r"^resnet50 batch \[(\d+)\] \(8 GPUs\)$"),
    ],
)  # fmt: skip
def test_ranges_whose_number_rises_and_that_hold_the_kernels_are_steps(name: str, pattern: str) -> None:
    given = profile(KERNELS, ranges(*each(*numbered(name, *range(7, 17)))))
    assert why(given) == {pattern: None}
    found = told(given)
    assert found.require("step_marks").values("iteration") == list(range(7, 17))
    assert found.require("launches").values("iteration")[::10] == list(range(7, 17))
    (row,) = found.require("step_ranges").rows()
    assert (row["calls"], row["numbers"], row["kernels"], row["share_pct"]) == (10, "rising", 9.0, 90.0)
    again = told(given, pattern)
    assert again.require("step_marks").values("iteration") == found.require("step_marks").values("iteration")


def test_a_name_that_comes_again_and_again_is_a_step_and_of_fewer_than_five_nobody_knows() -> None:
    found = told(profile(KERNELS, ranges(*each(*["train"] * 10))))
    assert found.require("step_marks").values("iteration") == list(range(10))
    kernels = called(*range(5, 400, 10))
    assert why(profile(kernels, ranges(*each(*["train"] * 4)))) == {"^train$": "few"}
    assert not why(profile(kernels, ranges(*each("train", length=300))))
    assert why(profile(kernels, ranges(*each("pass 1", "pass 2", "pass 3", "pass 4")))) == {r"^pass (\d+)$": None}


def test_numbers_that_come_again_are_no_steps() -> None:
    given = profile(KERNELS, ranges(*each(*numbered("layer_#", 0, 1, 2, 3, 4, 0, 1, 2, 3, 4))))
    assert why(given) == {r"^layer_\d+$": "number_recurs"}
    assert not len(told(given).require("step_marks")) and len(told(given).require("step_ranges")) == 1


@pytest.mark.parametrize("name", ["layer_#", "rank #", "TransformerBlock.#", "epoch #", "micro-batch #"])
def test_parts_of_one_step_are_none_though_their_number_rises(name: str) -> None:
    assert list(why(profile(KERNELS, ranges(*each(*numbered(name, *range(10)))))).values()) == ["part"]


def test_ranges_that_hold_few_kernels_or_very_different_numbers_are_no_steps() -> None:
    names = numbered("iteration #", *range(10))
    assert why(profile(KERNELS, ranges(*each(*names, length=40)))) == {r"^iteration (\d+)$": "few_kernels"}
    assert not why(profile(KERNELS, ranges(*each(*names, length=4))))
    lengths = [3, 300, 3, 300, 3, 300, 3, 70, 3, 5]
    starts = np.cumsum([0, *lengths])
    uneven = [(None, name, int(starts[at]), int(starts[at + 1])) for at, name in enumerate(names)]
    assert why(profile(KERNELS, ranges(*uneven))) == {r"^iteration (\d+)$": "uneven"}


def test_calls_after_each_of_which_several_the_rest_of_a_pass_follows_are_no_steps() -> None:
    """Four passes of five alike; after the last, what the head launches."""
    rows = [row for at in range(4) for row in each(*["Attention"] * 5, start=250 * at, length=39, every=40)]
    assert why(profile(KERNELS, ranges(*rows))) == {"^Attention$": "irregular"}


def test_of_several_the_numbered_one_that_holds_more_counts_and_the_others_are_listed() -> None:
    rows = [*each(*numbered("iteration #", *range(10))), *each(*["forward"] * 10, length=60)]
    given = profile(KERNELS, ranges(*rows))
    assert why(given) == {r"^iteration (\d+)$": None, "^forward$": "other_chosen"}
    assert told(given).require("step_marks").values("name") == numbered("iteration #", *range(10))


def test_steps_that_a_reader_or_a_profiler_marks_stay_and_nothing_is_listed() -> None:
    rows = ranges(*each(*numbered("iteration #", *range(10))), ("step", "s", 0, 400), ("step", "s", 400, 900))
    for given in (profile(KERNELS, rows), profile(KERNELS, ranges(*each("i 1", "i 2", "i 3")), marks([0, 500], 400))):
        found = told(given)
        assert len(found.require("step_marks")) == 2 and found.table("step_ranges") is None


def test_ops_and_layers_that_a_reader_knows_are_no_candidates() -> None:
    rows = [("op", name, at * 100, at * 100 + 95) for at, name in enumerate(numbered("aten::op_#", *range(10)))]
    assert not why(profile(KERNELS, ranges(*rows)))


def test_the_kernels_of_another_process_do_not_count() -> None:
    launches = concatenate(LAUNCHES, [KERNELS, *[called(*range(5, 1000, 10), thread=2)] * 3])
    threads = table(THREADS, [{"thread": 1, "process": 0}, {"thread": 2, "process": 1}])
    marked = ranges(*each(*numbered("iteration #", *range(10))))
    (one,) = families(profile(launches, marked, threads))
    assert (one.share_pct, one.why_not) == (90.0, None)


def test_the_order_of_rows_and_a_recording_without_times_of_launches() -> None:
    rows = ranges(*each(*numbered("a #", *range(10))), *each(*["b"] * 10, length=60, thread=2))
    mixed = rows.take(np.random.default_rng(1).permutation(len(rows)))
    assert families(profile(KERNELS, mixed)) == families(profile(KERNELS, rows))
    assert not families(profile(called(None, None), rows))
    assert not families(Profile(profile().metadata))


def test_a_family_of_many_numbers_takes_the_one_that_rises() -> None:
    names = [f"epoch-free pass {at // 5} of 2, batch {at}, size 64" for at in range(10)]
    expected = {r"^epoch-free pass \d+ of 2, batch (\d+), size 64$"}
    assert {one.pattern.replace(r"\-", "-") for one in families(profile(KERNELS, ranges(*each(*names))))} == expected


def test_many_steps_each_of_a_name_of_its_own_are_one_family() -> None:
    count = 30_000
    starts = np.arange(count) * 100
    names = [f"iteration {at}" for at in range(count)]
    columns = {"kind": [None] * count, "name": names, "start_ns": starts, "duration_ns": np.full(count, 95)}
    whole = Table(ranges().spec, {**columns, "thread": np.ones(count)})
    kernels = called(*(starts + 5).tolist())
    (one,) = families(profile(kernels, whole))
    assert (one.calls, one.why_not) == (count, None)
