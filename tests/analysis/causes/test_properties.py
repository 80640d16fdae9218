"""What holds of the causes of any run: each kernel has one, and times add up."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import Options, analyse
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import CAUSES, GROUP_OF
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS
from tests.analysis import builders as b
from tests.analysis.causes.runs import CAST, DIRECT, HELPS, LAYOUT
from tests.analysis.causes.sweep import sweep
from tests.support import examples

KERNELS = (b.TC, b.FP32, b.OTHER, "matmul_2d_tiling", LAYOUT, HELPS, DIRECT, CAST)
NAMES = (
    ("model/a/MatMul", "MatMul"), ("model/c/Conv2D", "Conv2D"), ("model/a/Cast", "Cast"),
    ("model/a/BiasAdd", "BiasAdd"), ("fusion.1", "fusion"), ("model/b/MatMul", "MatMul"),
)  # fmt: skip
GRAPH = (b.dense("a", 64, 128), b.conv("c", 28, 64, 1))
STEPS, LENGTH = 6, 1000
LAUNCH = st.tuples(
    st.sampled_from(KERNELS), st.integers(-1, len(NAMES) - 1), st.integers(0, STEPS - 1), st.integers(0, 7000),
    st.one_of(st.integers(0, 900), st.just(100)), st.integers(0, 1), st.integers(7, 9),
)  # fmt: skip
COPY = st.tuples(st.integers(0, 7000), st.integers(0, 900), st.integers(0, 1))
TABLES: Final = ("kernels", "ops", "layers", "gemms", "causes")
Drawn = tuple[list[Any], list[Any], tuple[int, int]]
DRAWN = st.tuples(
    st.lists(LAUNCH, min_size=1, max_size=40), st.lists(COPY, max_size=8),
    st.tuples(st.integers(0, STEPS - 1), st.integers(0, STEPS - 1)),
)  # fmt: skip


def profile_of(launches: list[Any], copies: list[Any]) -> Profile:
    rows = [
        {"kernel": name, "op_id": op, "iteration": step, "start_ns": at, "duration_ns": ns, "device": gpu,
         "stream": stream, "config_id": -1, "launch_ns": LENGTH * step}
        for name, op, step, at, ns, gpu, stream in launches
    ]  # fmt: skip
    moved = [
        {"device": gpu, "stream": 7, "start_ns": at, "duration_ns": ns, "kind": "MemcpyH2D", "iteration": 0}
        for at, ns, gpu in copies
    ]
    return b.profile(
        b.table(LAUNCHES, rows), b.table(MEMORY_OPS, moved), b.details(*NAMES), b.devices({}, {"device": 1}),
        b.marks([LENGTH * step for step in range(STEPS)], LENGTH * 9 // 10), b.graph(*GRAPH),
    )  # fmt: skip


def analysed(drawn: Drawn) -> Profile:
    launches, copies, steps = drawn
    return analyse(profile_of(launches, copies), Options(iter_start=min(steps), iter_stop=max(steps)))


def counted(drawn: Drawn) -> list[Any]:
    low, high = min(drawn[2]), max(drawn[2])
    return [launch for launch in drawn[0] if low <= launch[2] <= high]


def total(table: Table, name: str, **where: Any) -> int:
    rows = (row for row in table.rows() if all(row[column] == value for column, value in where.items()))
    return sum(int(row[name] or 0) for row in rows)


@settings(max_examples=examples(60), deadline=None)
@given(DRAWN)
def test_every_kernel_has_one_cause_and_times_add_up(drawn: Drawn) -> None:
    found = analysed(drawn)
    if not counted(drawn):
        assert found.table("causes") is None or not len(found.require("causes"))
        return
    kernels, table, window = found.require("kernels"), found.require("causes"), found.metadata.window
    assert set(kernels.values("cause")) <= set(CAUSES) - {"copy", "idle", "other_step"}
    for gpu in {row["device"] for row in kernels.rows()}:
        for cause in set(kernels.values("cause")):
            assert total(table, "sum_ns", device=gpu, cause=cause) == total(kernels, "sum_ns", device=gpu, cause=cause)
    assert total(kernels, "sum_ns") == sum(launch[4] for launch in counted(drawn))
    assert window.start_ns is not None
    assert window.end_ns is not None
    for gpu in {row["device"] for row in table.rows()}:
        assert total(table, "split_ns", device=gpu) == window.end_ns - window.start_ns
    for row in table.rows():
        assert row["group"] == GROUP_OF[row["cause"]]  # type: ignore[index]
        assert row["split_ns"] is not None
        assert row["split_ns"] >= 0
        assert row["share_pct"] == pytest.approx(100 * row["split_ns"] / (window.end_ns - window.start_ns))


@settings(max_examples=examples(60), deadline=None)
@given(DRAWN)
def test_parts_are_those_of_a_sweep(drawn: Drawn) -> None:
    """Of each GPU, cause and op, to a ns for each part that was rounded; copies and idleness where no kernel runs."""
    found = analysed(drawn)
    window = found.metadata.window
    if not counted(drawn) or window.start_ns is None or window.end_ns is None:
        return
    keys = ("device", "kernel", "op", "op_type")
    causes = {tuple(row[key] for key in keys): row["cause"] for row in found.require("kernels").rows()}
    by_op: dict[str, float] = defaultdict(float)
    for gpu in {launch[5] for launch in drawn[0]}:
        mine = []
        for name, op, _, at, ns, device, _ in drawn[0]:
            op, kind = NAMES[op] if op >= 0 else (None, None)
            if device == gpu:
                mine.append((at, at + ns, (causes.get((gpu, name, op, kind), "other_step"), op)))
        copies = [(at, at + ns) for at, ns, device in drawn[1] if device == gpu]
        parts, copying, idle = sweep((window.start_ns, window.end_ns), mine, copies)
        expected: dict[Any, float] = defaultdict(float, copy=copying, idle=idle)
        for (cause, op), part in parts.items():
            expected[cause] += float(part)
            by_op[op] += float(part)
        rows = {row["cause"]: row["split_ns"] for row in found.require("causes").rows() if row["device"] == gpu}
        assert {cause for cause, ns in expected.items() if ns >= 1} <= set(rows)
        for cause, ns in rows.items():
            assert abs(ns - expected[cause]) < 1 + 1e-6, cause
        assert (rows.get("copy", 0), rows.get("idle", 0)) == (copying, idle)
    for row in found.require("ops").rows():
        if row["op"] in by_op:
            assert row["split_ns"] == pytest.approx(by_op[row["op"]], abs=0.5 + 1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(DRAWN)
def test_a_part_is_no_longer_than_its_kernels_ran(drawn: Drawn) -> None:
    """Where no other step's kernels run in the window: what an op has of it is within the union of its kernels."""
    launches = counted(drawn)
    if not launches:
        return
    found = analysed((launches, *drawn[1:]))
    for row in found.require("ops").rows():
        if row["sum_ns"] is not None:
            assert row["split_ns"] <= row["union_ns"] + 1
            assert row["around_ns"] is None or row["around_ns"] >= 0
        assert row["peak_pct"] is None or row["peak_pct"] >= 0
    around = sum(row["around_ns"] or 0 for row in found.require("ops").rows())
    assert around <= total(found.require("kernels"), "sum_ns")


@settings(max_examples=examples(25), deadline=None)
@given(DRAWN, st.integers(0, 1 << 16))
def test_the_order_of_rows_changes_nothing(drawn: Drawn, seed: int) -> None:
    launches, copies, steps = drawn
    options = Options(iter_start=min(steps), iter_stop=max(steps))
    profile, random = profile_of(launches, copies), np.random.default_rng(seed)
    shuffled = profile
    for name in ("launches", "memory_ops", "graph_ops", "devices", "step_marks"):
        known = profile.require(name)
        shuffled = shuffled.with_tables(known.take(random.permutation(len(known))))
    order = random.permutation(len(NAMES))
    place = np.argsort(order)
    numbers = shuffled.require("launches").numbers("op_id")
    moved = [int(place[op]) if op >= 0 else -1 for op in numbers.astype(int).tolist()]
    shuffled = shuffled.with_tables(
        shuffled.require("launches").with_columns(op_id=moved), profile.require("op_details").take(order)
    )
    one, other = analyse(profile, options), analyse(shuffled, options)
    for name in TABLES:
        assert rows_of(one, name) == rows_of(other, name), name


def rows_of(profile: Profile, name: str) -> list[str]:
    table = profile.table(name)
    return [] if table is None else sorted(str(list(row.items())) for row in table.rows())


def test_the_shares_of_equal_kernels_do_not_depend_on_their_order() -> None:
    """Two kernels at the same time for 101 ns: 50 and 51, and always the same one has the longer part."""
    rows = [(b.OTHER, 3, 0, 0, 101, 0, 7), (b.TC, 0, 0, 0, 101, 0, 8)]
    found = [analysed((rows[::way], [], (0, STEPS - 1))) for way in (1, -1)]
    one, other = (rows_of(each, "causes") for each in found)
    assert one == other
    parts = {row["cause"]: row["split_ns"] for row in found[0].require("causes").rows()}
    assert sorted((parts["type"], parts["tc_small"])) == [50, 51]
