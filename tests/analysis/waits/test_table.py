"""What all waiting goes to: rows worked by hand, which add up to the time without a kernel."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import HOST_WORK
from tests.analysis import builders as b
from tests.analysis.waits.test_gaps import copies, events
from tests.support import examples

MS = 1_000_000
US = 1_000


def run(*tables: Table) -> Profile:
    return analyse(b.profile(b.devices({}), *tables))


def launched(*rows: tuple[int, int, float | None]) -> Table:
    """Kernels of (start_ns, duration_ns, time of the call)."""
    made = b.launches(*((b.TC, -1, None, start, length) for start, length, _ in rows))
    return made.with_columns(launch_ns=[float("nan") if call is None else call for *_, call in rows])


def rows_of(profile: Profile) -> list[tuple[str, bool, str | None, int]]:
    return [(r["host_work"], r["short"], r["host_op"], r["idle_ns"]) for r in b.rows(profile, "waits")]


def test_a_short_stretch_is_of_launches_where_the_next_call_came_after_the_kernel() -> None:
    # gaps of 20 us: 10 kernels called 5 us before they start; of the last three the call came while the one before ran
    kernels = [(i * 50 * US, 30 * US, i * 50 * US - (5 * US if i < 7 else 40 * US)) for i in range(10)]
    assert rows_of(run(launched(*kernels))) == [
        ("launch", True, None, 6 * 20 * US),
        ("queued", True, None, 3 * 20 * US),
    ]


def test_communication_between_short_kernels_is_no_launching() -> None:
    # MPI takes 15 of 20 us between two kernels; the call comes after it
    kernels = launched((0, 30 * US, 0), (50 * US, 30 * US, 48 * US))
    found = rows_of(run(kernels, events(("communicate", "MPI_Sendrecv", 31 * US, 15 * US))))
    assert found == [("communicate", True, "MPI_Sendrecv", 15 * US), ("launch", True, None, 5 * US)]


def test_a_call_that_is_not_recorded_tells_nothing() -> None:
    assert rows_of(run(launched((0, MS, None), (MS + 20 * US, MS, None)))) == [("unknown", True, None, 20 * US)]


def test_of_a_long_stretch_the_time_from_the_call_is_launching_and_what_lasts_longer_waits_in_the_queue() -> None:
    # 8 ms: nothing for 5 ms, then a call; a kernel starts 0.1 ms later at the pace of launches, the rest is queued
    found = rows_of(run(launched((0, MS, 0), (9 * MS, MS, 6 * MS))))
    assert found == [
        ("unknown", False, None, 5 * MS),
        ("queued", False, None, 3 * MS - MS // 10),
        ("launch", False, None, MS // 10),
    ]


def test_each_moment_goes_to_one_cause_the_device_before_the_host() -> None:
    # 8 ms from 1 to 9: a copy runs from 2 to 3, within a call from 1 to 4 that copies; input from 3 to 5; Python always
    host = events(
        ("copy_call", "cuMemcpy", MS, 3 * MS), ("input", "GetNext", 3 * MS, 2 * MS), ("python", "$a", 0, 9 * MS)
    )
    found = rows_of(run(launched((0, MS, None), (9 * MS, MS, None)), copies(("MemcpyH2D", 2 * MS, MS, 64)), host))
    assert found == [
        ("python", False, "$a", 4 * MS),
        ("input", False, "GetNext", 2 * MS),
        ("copy", False, "MemcpyH2D", MS),
        ("copy_call", False, "cuMemcpy", MS),
    ]


def test_the_innermost_range_is_told_and_splits_the_time() -> None:
    # load from 1 to 9 ms, within it ensure from 2 to 7; a copy call from 3 to 4 stands within both
    marked = events(
        ("range", "load", MS, 8 * MS), ("range", "ensure", 2 * MS, 5 * MS), ("copy_call", "cuMemcpy", 3 * MS, MS)
    )
    profile = run(launched((0, MS, None), (9 * MS, MS, None)), marked)
    assert rows_of(profile) == [
        ("range", False, "ensure", 4 * MS),
        ("range", False, "load", 3 * MS),
        ("copy_call", False, "cuMemcpy", MS),
    ]
    assert [row["range"] for row in b.rows(profile, "waits")] == [None, None, "ensure"]


def test_names_of_little_time_are_summed() -> None:
    # 200 Python frames of 10 us, and one of 8 ms: of 10 ms without a kernel a name of 1 % has a row
    frames = [("python", f"$a.py:{i} f", MS + i * 10 * US, 10 * US) for i in range(200)]
    found = rows_of(
        run(launched((0, MS, None), (11 * MS, MS, None)), events(*frames, ("python", "$b", 3 * MS, 8 * MS)))
    )
    assert found == [("python", False, "$b", 8 * MS), ("python", False, None, 2 * MS)]


def test_shares_and_steps() -> None:
    made = b.launches(*((b.TC, -1, i, i * 10 * MS, 6 * MS) for i in range(4)))
    profile = run(made, b.marks([0, 10 * MS, 20 * MS, 30 * MS], 10 * MS), events(("input", "GetNext", 6 * MS, 4 * MS)))
    rows = b.rows(profile, "waits")
    assert sum(row["share_pct"] for row in rows) == pytest.approx(100)
    assert all(row["step_ns"] * (profile.kernel_steps or 0) == pytest.approx(row["idle_ns"]) for row in rows)


KERNELS = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 300), st.integers(-500, 500)), min_size=1, max_size=12
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(list(HOST_WORK)), st.sampled_from("abc"), st.integers(0, 3000), st.integers(0, 900)),
    max_size=12,
)


@settings(max_examples=examples(200))
@given(KERNELS, EVENTS)
def test_the_rows_add_up_to_the_time_without_a_kernel(kernels: list[tuple[int, int, int]], found: list[Any]) -> None:
    made = launched(*((start * US, length * US, float((start + call) * US)) for start, length, call in kernels))
    profile = run(made, events(*((work, name, start * US, length * US) for work, name, start, length in found)))
    (gpu,) = profile.active_gpus
    table = profile.require("waits")
    assert int(table.numbers("idle_ns").sum()) == int(gpu["window_ns"] or 0) - int(gpu["union_ns"] or 0)
    assert (table.numbers("idle_ns") > 0).all()
