"""Where a GPU waits, and what the host did: stretches that can be added by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import HOST_EVENTS, MEMORY_OPS, THREADS
from tcprobe.schema.waits import MOST_GAPS, SHORT_NS
from tests.analysis import builders as b

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
