r"""Families of ranges: which count as steps where nobody says which are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcprobe.analysis.ranges.families import families
from tcprobe.schema.columns import Table, concatenate
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, THREADS
from tests.analysis.builders import marks, table
from tests.analysis.ranges.made import called, profile, ranges, told

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
