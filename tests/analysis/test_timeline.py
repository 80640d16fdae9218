"""The lanes of a timeline: nothing of the tables is lost, and the slices of each lane hold one another."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import Options
from tcprobe.analysis.timeline import lanes_of
from tcprobe.flows.report import make_report
from tcprobe.schema.profile import Profile
from tcprobe.schema.timeline import Lane, LaneKind, Thing, Timeline
from tests.support import ROOT, shared

FIXTURES = ROOT / "tests" / "fixtures"
SOURCES = {
    "xspace": FIXTURES / "gpu_run" / "run",
    "jax": FIXTURES / "h100" / "jax_bfloat16_odd.xplane.pb",
    "two_gpus": FIXTURES / "xplane" / "two_gpus.xplane.pb",
    "kineto": FIXTURES / "kineto" / "cpu.pt.trace.json.gz",
    "dlprof": FIXTURES / "dlprof" / "tf2_1.8" / "dlprof_iteration.csv",
}
SAMPLES = (
    "nsys/h100x2_bf16_after_nsys2026.sqlite",
    "kineto/a100_nccl.json.gz",
    "nsys/rtx3090_tensorrt_nsys2023.4.sqlite",
)


@cache
def report(path: Path) -> tuple[Profile, Timeline]:
    profile = make_report(path, Options(timeline=True))
    assert profile.timeline is not None
    return profile, profile.timeline


def slices(lane: Lane) -> list[tuple[int, int]]:
    return list(zip(lane.start_ns.tolist(), lane.duration_ns.tolist(), strict=True))


def lanes(times: list[tuple[int, int]]) -> list[Lane]:
    start, length = (np.array([one[i] for one in times], np.int64) for i in (0, 1))
    return list(lanes_of("range", None, 1, (start, length), np.zeros(len(times), np.int32), (Thing("x"),)))


def test_what_crosses_gets_a_lane_of_its_own() -> None:
    # 0-10 holds 2-4 and 4-10; 6-12 crosses the end of 4-10 and of 0-10; 10 begins where those end
    first, second = lanes([(6, 6), (4, 6), (0, 10), (2, 2), (10, 5)])
    assert (slices(first), first.depth.tolist()) == ([(0, 10), (2, 2), (4, 6), (10, 5)], [0, 1, 1, 0])
    assert (slices(second), second.part) == ([(6, 6)], 1)


def test_what_has_no_length_lies_within_what_begins_with_it() -> None:
    (lane,) = lanes([(5, 0), (0, 5), (5, 3)])
    assert (slices(lane), lane.depth.tolist()) == ([(0, 5), (5, 3), (5, 0)], [0, 0, 1])


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 12)), max_size=30))
def test_no_slice_is_lost_and_those_of_a_lane_nest(times: list[tuple[int, int]]) -> None:
    made = lanes(times)
    assert Counter(one for lane in made for one in slices(lane)) == Counter(times)
    for lane in made:
        lasting: list[int] = []
        for (start, length), depth in zip(slices(lane), lane.depth.tolist(), strict=True):
            while lasting and lasting[-1] <= start:
                lasting.pop()
            assert len(lasting) == depth and (not lasting or start + max(length, 1) <= lasting[-1])
            lasting.append(start + max(length, 1))


def of(timeline: Timeline, kind: LaneKind) -> Counter[tuple[object, ...]]:
    """Return the slices of all lanes of a kind: device, number, start, length, name."""
    return Counter(
        (lane.device, lane.number, start, length, lane.things[thing].name)
        for lane in timeline.lanes
        if lane.kind == kind
        for (start, length), thing in zip(slices(lane), lane.thing.tolist(), strict=True)
    )


def rows(profile: Profile, table: str, *columns: str | None) -> Counter[tuple[object, ...]]:
    found = profile.require(table)
    values = [[None] * len(found) if c is None else found.values(c) for c in columns]
    if columns[0] is None:
        values[1] = [-1 if number is None else number for number in values[1]]
    return Counter(zip(*values, strict=True))


def check(path: Path) -> None:
    profile, timeline = report(path)
    kernels = rows(profile, "launches", "device", "stream", "start_ns", "duration_ns", "kernel")
    copies = rows(profile, "memory_ops", "device", "stream", "start_ns", "duration_ns", "kind")
    assert of(timeline, "stream") == kernels + copies
    each = (None, "thread", "start_ns", "duration_ns", "name")
    ranges, events = rows(profile, "ranges", *each), rows(profile, "host_events", *each)
    assert of(timeline, "range") == ranges
    assert of(timeline, "event") == Counter({one: count for one, count in events.items() if one not in ranges})
    waits, counts = Counter[tuple[object, object]](), Counter[object]()
    for lane in timeline.lanes:
        for (_, length), thing in zip(slices(lane), lane.thing.tolist(), strict=True):
            if lane.kind == "wait":
                waits[lane.device, lane.things[thing].of] += length
            elif lane.kind == "iteration":
                counts[lane.things[thing].of] += 1
    expected = Counter[tuple[object, object]]()
    for row in profile.require("waits").rows():
        expected[row["device"], row["host_work"]] += int(row["idle_ns"] or 0)
    assert waits == expected
    assert counts == Counter(
        {True: "counted", False: "left_out"}[v] for v in profile.require("iterations").values("in_window")
    )  # type: ignore[index]


@pytest.mark.parametrize("source", SOURCES)
def test_the_lanes_hold_what_the_tables_hold(source: str) -> None:
    check(SOURCES[source])


@pytest.mark.long
@pytest.mark.parametrize("path", SAMPLES)
def test_the_lanes_of_real_profiles_hold_what_the_tables_hold(path: str) -> None:
    check(shared(f"samples/{path}"))


def test_a_kernel_says_what_it_is() -> None:
    _, timeline = report(SOURCES["xspace"])
    (lane,) = (lane for lane in timeline.lanes if (lane.kind, lane.number) == ("stream", 13))
    said = Counter(lane.things[thing].of for thing in lane.thing.tolist())
    assert said["slowly"] > 0 and said["others"] > 0 and None not in said
    thing = next(t for t in lane.things if t.name and "tensorop_f16_s161616gemm" in t.name)
    assert (thing.of, thing.kind) == ("slowly", "matmul")
    assert {"uses_tc": "yes", "basis": "name", "layer": "generator/dense", "pass": "forward"}.items() <= dict(
        thing.more
    ).items()
    counted = {dict(lane.things[t].more)["counted"] for t in lane.thing.tolist() if lane.things[t].of != "copy"}
    assert counted == {"yes", "no"}  # those of steps that are left out are there too


def test_a_layer_lasts_until_the_next_one_begins() -> None:
    _, timeline = report(SOURCES["xspace"])
    (layers,) = (lane for lane in timeline.lanes if lane.kind == "layer")
    assert layers.part == 0 and not layers.depth.any()
    assert all(layers.things[thing].name for thing in layers.thing.tolist())


def test_nothing_is_laid_out_unless_asked_for() -> None:
    assert make_report(SOURCES["dlprof"]).timeline is None
