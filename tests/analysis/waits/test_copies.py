"""Copies by kind: device time, bytes and rate, and what no kernel hides; each worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.schema.columns import Table
from tests.analysis import builders as b
from tests.analysis.waits.test_gaps import copies
from tests.support import examples

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
