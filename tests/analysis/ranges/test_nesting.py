"""The ranges around launches, and their kernel time, against a slow search."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.analysis.ranges.nesting import nest
from tcprobe.forest import Forest
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, RANGES
from tests.analysis.builders import FP32, TC, devices, table
from tests.analysis.ranges.made import profile
from tests.analysis.ranges.oracle import Call, Range, chains, union
from tests.support import examples

TIMES = st.integers(0, 24)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[Range]:
    """Ranges that nest, cross, have no length, start together, are alike, or never end."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ab"), st.integers(1, 2), TIMES, st.sampled_from([0, 1, 2, 3, 5, 9, 14, 400]),
                st.sampled_from([True, True, True, False]), st.sampled_from([None, 1, 2]),
            ),
            min_size=1, max_size=12,
        )
    )  # fmt: skip
    return [Range(n, t, s, s + d, pushed, None if pushed else on) for n, t, s, d, pushed, on in rows]


@st.composite
def some_calls(draw: st.DrawFn) -> list[Call]:
    times = st.one_of(st.none(), TIMES, TIMES, TIMES)
    parts = st.tuples(st.integers(1, 3), times, st.integers(0, 1), st.integers(0, 40), st.integers(1, 20))
    first = Call(1, draw(TIMES))  # of one at least the time is known
    return [first, *(Call(*each) for each in draw(st.lists(parts, max_size=10)))]


def tables(ranges: list[Range], calls: list[Call]) -> tuple[Table, Table]:
    marked = [
        {
            "name": r.name, "kind": "op", "thread": r.thread, "start_ns": r.start, "duration_ns": r.end - r.start,
            "nests": r.pushed, "end_thread": r.ended_on if r.ended_on != r.thread else None,
        }
        for r in ranges
    ]  # fmt: skip
    launched = [
        {
            "device": c.device, "stream": 7, "kernel": TC if i % 2 else FP32, "op_id": -1, "config_id": -1,
            "start_ns": c.start, "duration_ns": c.length, "launch_ns": c.at,
            "thread": None if c.at is None else c.thread,
        }
        for i, c in enumerate(calls)
    ]  # fmt: skip
    return table(RANGES, marked), table(LAUNCHES, launched)


@given(some_ranges(), some_calls())
def test_the_ranges_around_a_launch_are_what_a_search_finds(ranges: list[Range], calls: list[Call]) -> None:
    around = nest(*tables(ranges, calls)).kept(np.zeros(0, np.int64))
    for number, (inner, want) in enumerate(zip(around.inner.tolist(), chains(ranges, calls), strict=True)):
        found = []
        while inner >= 0:
            found.append(int(around.rows[inner]))
            inner = int(around.parent[inner])
        alike = [[(ranges[i].start, ranges[i].end, ranges[i].pushed) for i in chain] for chain in (found, want)]
        assert alike[0] == alike[1], number


@settings(max_examples=examples(50))
@given(some_ranges(), some_calls())
def test_kernel_time_by_range_is_what_a_search_adds_up(ranges: list[Range], calls: list[Call]) -> None:
    whole = profile(devices({}, {"device": 1}), *tables(ranges, calls))
    own, held, times = defaultdict(list), defaultdict(list), defaultdict(set)
    for call, chain in zip(calls, chains(ranges, calls), strict=True):
        ran = (call.device, call.start, call.start + call.length)
        missing = "no launch record" if call.at is None else "no enclosing range"
        own[ranges[chain[0]].name if chain else missing].append(ran)
        for name in {ranges[i].name for i in chain}:
            held[name].append(ran)
        for i in chain:
            times[ranges[i].name].add(i)
    made = analyse(whole)
    assume(made.start_up is None)  # which is left out, where what follows it repeats
    found = made.require("range_kernels")
    assert found.numbers("sum_ns").sum() == sum(call.length for call in calls)
    assert {row["name"] or row["bucket"] for row in found.rows()} == {*own, *held}
    for row in found.rows():
        name = row["name"] or row["bucket"]
        inside = held[name] if row["bucket"] == "range" else None
        assert (row["launches"], row["sum_ns"]) == (len(own[name]), sum(e - s for _, s, e in own[name]))
        assert row["union_ns"] == union(own[name])
        assert row["inclusive_launches"] == (None if inside is None else len(inside))
        assert row["inclusive_sum_ns"] == (None if inside is None else sum(e - s for _, s, e in inside))
        assert row["inclusive_union_ns"] == (None if inside is None else union(inside))
        assert row["calls"] == (None if inside is None else len(times[name])) or len(set(ranges)) < len(ranges)


def test_many_ranges_that_cross_are_cut_one_by_one() -> None:
    seed = random.Random(3)
    made = [Range("a", 1, s, s + seed.randint(1, 90)) for s in (seed.randint(0, 900) for _ in range(300))]
    calls = [Call(1, at) for at in range(0, 1000, 7)]
    around = nest(*tables(made, calls)).kept()
    want = [(made[c[0]].start, made[c[0]].end) if c else None for c in chains(made, calls)]
    rows = [int(around.rows[i]) if i >= 0 else None for i in around.inner.tolist()]
    assert [None if i is None else (made[i].start, made[i].end) for i in rows] == want


def test_ranges_that_nest_are_not_cut() -> None:
    starts, ends = np.array([0, 0, 1, 5, 9, 10]), np.array([10, 5, 5, 9, 10, 12])
    assert Forest.of(starts, ends).parent.tolist() == [-1, 0, 1, 0, 0, -1]


def test_the_order_of_ranges_does_not_matter() -> None:
    made = [Range("abc"[i % 3], 1 + i % 2, i * 3 % 40, i * 3 % 40 + 1 + i * 7 % 20, i % 5 > 0) for i in range(40)]
    marked, launched = tables(made, [Call(1 + i % 2, i) for i in range(40)])
    reverse = marked.take(np.arange(40)[::-1])
    first, second = (analyse(profile(devices({}), m, launched)).require("range_kernels") for m in (marked, reverse))
    assert list(first.rows()) == list(second.rows())


def started(**more: int | None) -> Range:
    return Range("started", 1, 0, 100, False, more.get("ended_on"))


@pytest.mark.parametrize(
    ("ranges", "call", "found"),
    [
        ([started(), Range("pushed", 1, 10, 20)], Call(1, 15), ["pushed", "started"]),
        ([Range("started", 1, 12, 100, False), Range("pushed", 1, 10, 20)], Call(1, 15), ["pushed"]),
        ([started(), Range("later", 1, 10, 30, False)], Call(1, 15), ["later"]),
        ([started(), Range("crosses", 1, 10, 30, False, 2)], Call(1, 15), ["started"]),
        ([started(ended_on=2)], Call(1, 15), ["started"]),
        ([started(ended_on=2), Range("b", 2, 0, 1)], Call(2, 15), []),
    ],
)
def test_started_ranges_stand_around_pushed_ones(ranges: list[Range], call: Call, found: list[str]) -> None:
    around = nest(*tables(ranges, [call])).kept()
    names, inner = [], int(around.inner[0])
    while inner >= 0:
        names.append(ranges[int(around.rows[inner])].name)
        inner = int(around.parent[inner])
    assert names == found == [ranges[i].name for i in chains(ranges, [call])[0]]


def bare(*given: Table) -> Profile:
    return analyse(profile(*given))


def test_without_ranges_or_times_the_table_is_absent() -> None:
    marked, launched = tables([Range("a", 1, 0, 9)], [Call(1, 5)])
    untimed = launched.with_columns(launch_ns=np.full(1, np.nan))
    assert "no ranges" in bare(launched).absent["range_kernels"]
    assert "when kernels were launched" in bare(untimed, marked).absent["range_kernels"]
    assert "range_kernels" not in bare(launched, marked).absent


def test_notes_name_what_no_range_tells_of() -> None:
    marked, launched = tables([Range("a", 1, 0, 9)], [Call(1, 5), Call(1, 50), Call(1, None)])
    told = {n.code: n.message for n in bare(launched, marked).metadata.notes}
    assert "33.3 %" in told["no-launch-record"] and "33.3 %" in told["no-enclosing-range"]
