"""The page's timeline: its columns hold the slices of the lanes in its time, and no text of a profile is markup."""

from __future__ import annotations

import json
from collections import Counter
from itertools import accumulate
from string import ascii_letters, digits
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe.report.html.draw import packed
from tcprobe.report.run import timeline as made
from tcprobe.report.run.timeline import lane_words, slice_words
from tcprobe.schema.profile import Metadata, Profile, Window
from tcprobe.schema.timeline import Lane, LaneKind, Thing, Timeline
from tests.report.builders import figure, table


def lane(kind: LaneKind, times: list[tuple[int, int]], things: tuple[Thing, ...], **more: Any) -> Lane:
    start, length = (np.array([one[i] for one in times], np.int64) for i in (0, 1))
    zeros = np.zeros(len(times), np.int32)
    whole = Lane(kind, None, None, 0, start, length, zeros, np.arange(len(times), dtype=np.int32) % len(things), things)
    return replace(whole, **more)


STEPS = tuple(Thing(None, "counted" if at else "left_out", more=(("iteration", at), ("steps", 1))) for at in range(4))
KERNELS = (Thing("gemm", "used", "matmul", (("op", "dense"), ("basis", "name"))), Thing("add", "others", "elementwise"))
PROFILE = Profile(
    Metadata("xplane", window=Window(1, 3, 100, 430)),
    timeline=Timeline(
        (
            lane("iteration", [(0, 100), (100, 90), (190, 110), (300, 130)], STEPS),
            lane("stream", [(at, 7) for at in range(0, 430, 10)], KERNELS, device=0, number=7),
        ),
        {0: "T4"},
    ),
)


def picture(profile: Profile = PROFILE) -> tuple[dict[str, Any], str]:
    chart = made.chart_of(profile)
    assert chart is not None
    return json.loads(chart.data), chart.text


def slices(tree: dict[str, Any]) -> Counter[tuple[str, int, int, str]]:
    names, things = tree["strings"], tree["things"]
    return Counter(
        (names[one["name"]], start, spent, names[things[thing][0]])
        for one in tree["lanes"]
        for start, spent, thing in zip(accumulate(one["start"]), one["spent"], one["thing"], strict=True)
    )


def expected(low: int, high: int) -> Counter[tuple[str, int, int, str]]:
    assert PROFILE.timeline is not None
    return Counter(
        (lane_words(one), start - low, spent, slice_words(one.kind, one.things[thing]))
        for one in PROFILE.timeline.lanes
        for start, spent, thing in zip(*(c.tolist() for c in (one.start_ns, one.duration_ns, one.thing)), strict=True)
        if start < high and start + spent > low
    )


def test_it_holds_the_window_and_begins_with_the_median_step() -> None:
    tree, text = picture()
    assert slices(tree) == expected(100, 430)
    assert text == "What ran when in step 1 to step 3 (330 ns): 36 slices in 2 lanes."
    assert tree["steps"] == [["step 1 (90 ns)", 0, 90], ["step 2 (110 ns)", 90, 200], ["step 3 (130 ns)", 200, 330]]
    assert (tree["span"], tree["view"]) == (330, [90, 200])


def test_a_step_of_unknown_length_has_none_in_the_list() -> None:
    assert PROFILE.timeline is not None
    last = Thing(None, "counted", more=(*STEPS[3].more, ("length", "unknown")))
    steps = lane("iteration", [(0, 100), (100, 90), (190, 110), (300, 130)], (*STEPS[:3], last))
    tree, _ = picture(replace(PROFILE, timeline=replace(PROFILE.timeline, lanes=(steps, *PROFILE.timeline.lanes[1:]))))
    assert [name for name, *_ in tree["steps"]] == ["step 1 (90 ns)", "step 2 (110 ns)", "step 3 (length unknown)"]
    assert "length: unknown" in tree["strings"]


def test_of_a_longer_step_than_was_recorded_it_says_which_part_and_draws_no_step() -> None:
    tree, text = picture(PROFILE.with_tables(table("summary", figure("window_ns", 5e6))))
    assert text == "What ran when between the first and the last kernel (330 ns of 5.00 ms): 33 slices in 1 lanes."
    assert tree["steps"] == [] and [tree["strings"][one["name"]] for one in tree["lanes"]] == ["stream 7"]


def test_of_more_than_a_page_holds_it_has_whole_steps_else_the_beginning_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made, "MOST_SLICES", 24)  # step 2 has 12, with step 1 it is 23
    tree, text = picture()
    assert slices(tree) == expected(100, 300)
    assert text.startswith("What ran when in step 1 to step 2 (200 ns)")
    monkeypatch.setattr(made, "MOST_SLICES", 6)
    tree, text = picture()
    assert text.startswith("What ran when in the beginning of step 2 (50 ns): 6 slices in 2 lanes. A page holds 6: ")
    assert "--iter-start N --iter-stop N" in text
    assert slices(tree) == expected(190, 240)


def test_a_name_is_nobodys_markup_and_says_what_is_known() -> None:
    hostile = Thing("</script><!--<b>&\u202e" + "x" * 9999, "used", "matmul", (("op", "a</script>"), ("basis", "name")))
    assert PROFILE.timeline is not None
    lanes = (lane("stream", [(100, 5)], (hostile,), device=0, number=7),)
    chart = made.chart_of(replace(PROFILE, timeline=replace(PROFILE.timeline, lanes=lanes)))
    assert chart is not None and {*packed(chart.data)} <= {*ascii_letters, *digits, *"+/="}
    tree = json.loads(chart.data)
    name, tone, facts = tree["things"][0]
    assert tree["strings"][name].startswith("</script><!--<b>&\\u202e") and len(tree["strings"][name]) < 500
    assert [tree["strings"][fact] for fact in facts] == [
        "on Tensor Cores",
        "basis: name",
        "kind: matmul",
        "op: a</script>",
    ]
    assert (tone, chart.legend) == ("used", (("used", "on Tensor Cores"),))


def test_what_is_called_by_its_class_says_it_once() -> None:
    assert PROFILE.timeline is not None
    lanes = (lane("class", [(100, 5)], (Thing(None, "communication"),), device=0),)
    tree, _ = picture(replace(PROFILE, timeline=replace(PROFILE.timeline, lanes=lanes)))
    assert tree["things"] == [[tree["strings"].index("between GPUs"), "communication", []]]


def test_what_has_no_times_or_nothing_but_steps_has_no_timeline() -> None:
    assert PROFILE.timeline is not None
    assert made.chart_of(replace(PROFILE, timeline=None)) is None
    assert made.chart_of(replace(PROFILE, timeline=replace(PROFILE.timeline, lanes=PROFILE.timeline.lanes[:1]))) is None
