"""Where a GPU waits, and what the host did: stretches that can be added by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import HOST_EVENTS, MEMORY_OPS, THREADS
from tcprobe.schema.waits import HOST_WORK, MOST_GAPS, SHORT_NS
from tests.analysis import builders as b
from tests.support import examples

MS = 1_000_000


def copies(*rows: tuple[str, int, int, int | None]) -> Table:
    """Rows of (kind, start_ns, duration_ns, size_bytes)."""
    names = ("kind", "start_ns", "duration_ns", "size_bytes")
    return b.table(MEMORY_OPS, [{"device": 0, "stream": 1, **dict(zip(names, row, strict=True))} for row in rows])


def events(*rows: tuple[str, str, int, int]) -> Table:
    """Rows of (work, name, start_ns, duration_ns)."""
    names = ("work", "name", "start_ns", "duration_ns")
    return b.table(HOST_EVENTS, [{"thread": 1, **dict(zip(names, row, strict=True))} for row in rows])


def gaps(*tables: Table, **metadata: Any) -> list[dict[str, Any]]:
    return b.rows(analyse(b.profile(b.devices({}), *tables, **metadata)), "gaps")


def one_gap(*tables: Table) -> dict[str, Any]:
    """The only gap, of 8 ms between two kernels of 1 ms."""
    (row,) = gaps(b.launches((b.TC, -1, 0, 0, MS), (b.FP32, -1, 0, 9 * MS, MS)), *tables)
    assert (row["start_ns"], row["duration_ns"], row["share_pct"]) == (MS, 8 * MS, 80.0)
    return row


def test_kernels_on_both_sides_are_named() -> None:
    row = one_gap()
    assert (row["after"], row["before"], row["iteration"]) == (b.TC, b.FP32, 0)
    assert (row["host_work"], row["host_op"], row["host_ns"]) == ("unknown", None, None)


def test_a_copy_ends_the_wait_where_the_gpu_did_nothing_for_most_of_it() -> None:
    row = one_gap(copies(("MemcpyH2D", 8 * MS, 1000, 4096), ("MemcpyH2D", 8 * MS + 2000, MS // 2, None)))
    assert (row["after"], row["before"]) == (b.TC, "MemcpyH2D 4096 B")
    row = one_gap(copies(("MemcpyD2H", MS, 1000, None)))
    assert (row["after"], row["before"]) == ("MemcpyD2H", b.FP32)


def test_a_copy_on_the_gpu_explains_the_gap_that_it_fills() -> None:
    row = one_gap(copies(("MemcpyH2D", 2 * MS, 6 * MS, 100)))
    assert (row["after"], row["before"]) == (b.TC, b.FP32)
    assert (row["host_work"], row["host_op"], row["host_ns"]) == ("copy", "MemcpyH2D", 6 * MS)


@pytest.mark.parametrize(
    ("rows", "work", "op", "spent"),
    [
        ([("input", "GetNext", 0, 6 * MS), ("copy_call", "MemcpyH2D", 6 * MS, 3 * MS)], "input", "GetNext", 5 * MS),
        ([("input", "GetNext", 0, 4 * MS)], "unknown", None, None),  # 3 of 8 ms
        ([("input", "a", MS, 2 * MS), ("input", "b", 4 * MS, 3 * MS)], "input", "b", 3 * MS),  # 5 of 8 ms together
        ([("launch", "Process", 0, 9 * MS), ("input", "GetNext", 0, 9 * MS)], "input", "GetNext", 8 * MS),
        ([("launch", "Process", 0, 9 * MS), ("copy_call", "Memcpy", MS, 3 * MS)], "launch", "Process", 5 * MS),
        ([("launch", "Process", 0, 6 * MS), ("copy_call", "Memcpy", MS, 3 * MS)], "unknown", None, None),
        ([("launch", "m/Gather:GatherV2", 0, 9 * MS)], "op", "m/Gather:GatherV2", 8 * MS),  # it computes on the host
        ([("synchronise", "Sync", 0, 9 * MS), ("copy_call", "Memcpy", 0, 7 * MS)], "copy_call", "Memcpy", 6 * MS),
        ([("python", "$a:1 main", 0, 10 * MS), ("python", "$b:2 load", MS, 8 * MS)], "python", "$b:2 load", 8 * MS),
        ([("python", "$a.py:1 main", 0, 10 * MS), ("compile", "Compile", MS, 5 * MS)], "compile", "Compile", 5 * MS),
    ],
)  # fmt: skip
def test_what_the_host_did(rows: list[tuple[str, str, int, int]], work: str, op: str | None, spent: int | None) -> None:
    row = one_gap(events(*rows))
    assert (row["host_work"], row["host_op"], row["host_ns"]) == (work, op, spent)


def test_a_gap_within_an_autotuned_call_is_tuning() -> None:
    names = ["redzone_checker", "volta_scudnn_128x64_relu_small_nn_v1", "redzone_checker"]
    made = b.launches(*((name, 0, 0, 3 * MS * i, MS) for i, name in enumerate(names)))
    rows = gaps(made, b.details(("m/conv/Conv2D", "Conv2D")), events(("launch", "Process", 0, 9 * MS)))
    assert [(r["host_work"], r["host_op"], r["host_ns"]) for r in rows] == [("compile", "m/conv/Conv2D", 2 * MS)] * 2


@pytest.mark.parametrize("named", [(), ("of_nobody",)])
def test_tuning_of_no_op_has_no_name(named: tuple[str, ...]) -> None:
    made = b.launches(*(("redzone_checker", -1, 0, 3 * MS * i, MS) for i in range(3)))
    rows = gaps(made, b.details(*((name, "Conv2D") for name in named)))
    assert [(r["host_work"], r["host_op"], r["host_ns"]) for r in rows] == [("compile", None, 2 * MS)] * 2


def test_the_begin_and_the_end_of_a_marked_step_count() -> None:
    made = b.launches((b.TC, -1, 0, 5 * MS, MS))
    rows = gaps(made, b.marks([0], 9 * MS))
    found = [(r["start_ns"], r["duration_ns"], r["after"], r["before"]) for r in rows]
    assert found == [(0, 5 * MS, None, b.TC), (6 * MS, 3 * MS, b.TC, None)]


def test_short_gaps_have_no_row_and_few_long_ones_have_one() -> None:
    starts = [i * 10 * MS for i in range(30)]
    close = b.launches(*((b.TC, -1, None, i * SHORT_NS, 1) for i in range(9)))
    assert gaps(close) == []
    rows = gaps(b.launches(*((b.TC, -1, None, start, MS + i) for i, start in enumerate(starts))))
    assert [r["duration_ns"] for r in rows] == [9 * MS - i for i in range(MOST_GAPS)]


def test_the_share_of_a_capture_with_warm_up_is_none_of_a_step() -> None:
    # no kernel belongs to a step, and most of the capture lies before the first
    made = b.launches((b.TC, -1, None, 0, MS), *((b.TC, -1, None, i * MS, MS // 2) for i in range(90, 100)))
    found = analyse(b.profile(b.devices({}), made, b.marks([i * MS for i in range(90, 100)], MS)))
    assert found.metadata.window.first is None
    assert found.waiting is not None
    assert (found.waiting.length, found.waiting.step_ns) == ("capture", 99.5 * MS)
    assert found.waiting.busy_ns == pytest.approx(6 * MS)


def test_each_gpu_has_its_own() -> None:
    made = b.launches((b.TC, -1, 0, 0, MS), (b.TC, -1, 0, 9 * MS, MS), (b.TC, -1, 0, 0, 10 * MS, 1))
    rows = b.rows(analyse(b.profile(b.devices({}, {"device": 1}), made)), "gaps")
    assert [(r["device"], r["duration_ns"]) for r in rows] == [(0, 8 * MS)]


@pytest.mark.parametrize(("thread", "work"), [(1, "input"), (2, "unknown"), (3, "input")])
def test_a_wait_of_a_thread_that_launches_on_another_gpu_is_no_evidence(thread: int, work: str) -> None:
    made = b.launches((b.TC, -1, 0, 0, MS), (b.TC, -1, 0, 9 * MS, MS), (b.TC, -1, 0, 0, 10 * MS, 1))
    made = made.with_columns(thread=[1, 1, 2])
    host = events(("input", "enumerate(DataLoader)", MS, 8 * MS)).with_columns(thread=[thread])
    rows = b.rows(analyse(b.profile(b.devices({}, {"device": 1}), made, host)), "gaps")
    assert [(r["device"], r["host_work"]) for r in rows] == [(0, work)]


@pytest.mark.parametrize(("thread", "work"), [(3, "unknown"), (4, "input"), (5, "input")])
def test_a_wait_of_a_process_that_launches_on_another_gpu_is_no_evidence(thread: int, work: str) -> None:
    """Threads 1 and 4 are of one process, 2 and 3 of another."""
    made = b.launches((b.TC, -1, 0, 0, MS), (b.TC, -1, 0, 9 * MS, MS), (b.TC, -1, 0, 0, 10 * MS, 1))
    made = made.with_columns(thread=[1, 1, 2])
    threads = b.table(THREADS, [{"thread": n, "process": n in (2, 3)} for n in (1, 2, 3, 4)])
    host = events(("input", "enumerate(DataLoader)", MS, 8 * MS)).with_columns(thread=[thread])
    rows = b.rows(analyse(b.profile(b.devices({}, {"device": 1}), made, host, threads)), "gaps")
    assert [(r["device"], r["host_work"]) for r in rows] == [(0, work)]


def test_without_times_there_are_none() -> None:
    made = analyse(b.profile(b.host_ops(("a", "MatMul", 1, 5)), gpu_used=False))
    assert made.table("gaps") is None
    assert "gaps" in made.absent


KERNEL = st.tuples(st.integers(0, 40), st.integers(1, 8), st.integers(0, 1))


@given(st.lists(KERNEL, min_size=1, max_size=12))
def test_gaps_and_busy_time_make_up_the_window(found: list[tuple[int, int, int]]) -> None:
    made = b.launches(*((b.TC, -1, None, MS * start, MS * length, gpu) for start, length, gpu in found))
    analysed: Profile = analyse(b.profile(b.devices({}, {"device": 1}), made))
    span = analysed.metadata.window
    assert span.start_ns is not None
    assert span.end_ns is not None
    rows = b.rows(analysed, "gaps")
    for device in {gpu for *_, gpu in found}:
        mine = [r for r in rows if r["device"] == device]
        ran = {t for start, length, gpu in found if gpu == device for t in range(start, start + length)}
        assert sum(r["duration_ns"] for r in mine) == span.end_ns - span.start_ns - MS * len(ran)
        for row in mine:
            idle = range(row["start_ns"] // MS, (row["start_ns"] + row["duration_ns"]) // MS)
            assert ran.isdisjoint(idle)


US = 1_000


def found(made: Table, moved: Table) -> list[dict[str, Any]]:
    return b.rows(analyse(b.profile(b.devices({}), made, moved)), "copies")


def test_time_bytes_and_rate_of_each_kind() -> None:
    # kernels from 0 to 100 and from 300 to 400 us. H2D 50-150 and 120-200 overlap: 180 us of copying, of which
    # 100 to 200 beside no kernel; the third lies beneath a kernel. Memset: 250 to 260
    made = b.launches((b.TC, -1, None, 0, 100 * US), (b.TC, -1, None, 300 * US, 100 * US))
    rows = found(
        made,
        copies(
            ("MemcpyH2D", 50 * US, 100 * US, 4000),
            ("MemcpyH2D", 120 * US, 80 * US, 2000),
            ("MemcpyH2D", 320 * US, 20 * US, 6000),
            ("Memset", 250 * US, 10 * US, None),
        ),
    )
    assert [(r["kind"], r["calls"], r["size_bytes"], r["sum_ns"], r["idle_ns"]) for r in rows] == [
        ("MemcpyH2D", 3, 12_000, 200 * US, 100 * US),
        ("Memset", 1, None, 10 * US, 10 * US),
    ]
    assert [r["bytes_per_s"] for r in rows] == [pytest.approx(12_000 / 200e-6), None]


def test_copies_outside_the_counted_steps_are_left_out() -> None:
    # of steps of 100 us, one copy lies in the only step that is marked, one after it
    made = b.launches((b.TC, -1, 0, 0, 50 * US), (b.TC, -1, 0, 60 * US, 20 * US))
    moved = copies(("MemcpyH2D", 50 * US, 5 * US, 64), ("MemcpyH2D", 200 * US, 5 * US, 64))
    profile = analyse(b.profile(b.devices({}), made, moved, b.marks([0], 100 * US)))
    assert [(r["calls"], r["size_bytes"], r["step_ns"]) for r in b.rows(profile, "copies")] == [(1, 64, 5 * US)]


def test_the_time_beside_no_kernel_is_what_waits_calls_copies() -> None:
    made = b.launches((b.TC, -1, None, 0, 100 * US), (b.TC, -1, None, 900 * US, 100 * US))
    profile = analyse(b.profile(b.devices({}), made, copies(("MemcpyH2D", 50 * US, 500 * US, 1))))
    (row,) = b.rows(profile, "copies")
    assert row["idle_ns"] == 450 * US
    assert [r["idle_ns"] for r in b.rows(profile, "waits") if r["host_work"] == "copy"] == [450 * US]


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), min_size=1, max_size=8)


@settings(max_examples=examples(100))
@given(SPANS, SPANS)
def test_against_time_counted_one_by_one(kernels: list[tuple[int, int]], moves: list[tuple[int, int]]) -> None:
    made = b.launches(*((b.TC, -1, None, start * US, length * US) for start, length in kernels))
    # the window lasts from the first to the last activity of the GPU, copies included
    rows = found(made, copies(*(("MemcpyH2D", start * US, length * US, 1) for start, length in moves)))
    ran = {t for start, length in kernels for t in range(start, start + length)}
    copied = {t for start, length in moves for t in range(start, start + length)}
    assert sum(row["calls"] for row in rows) == len(moves)
    assert sum(row["idle_ns"] for row in rows) == US * len(copied - ran)


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
