"""What holds of any runs: rows in any order, a run against itself, and the runs swapped."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.analysis.compare import compare
from tcprobe.schema.columns import Table
from tcprobe.schema.comparison import Comparison
from tcprobe.schema.profile import Profile
from tests.analysis.builders import FP32, OTHER, TC, UNKNOWN, details, devices, launches, marks, metrics, profile, steps
from tests.support import examples

KERNELS = (FP32, OTHER, TC, UNKNOWN, "loop_add_fusion_3", "loop_add_fusion_8")
OPS = (("m/a/Conv2D", "Conv2D", "float16"), ("m/b_1/MatMul", "MatMul", "float16"), ("m/a/Relu", "Relu", "float16"))
OPPOSITE = {"faster": "slower", "slower": "faster", "more": "less", "less": "more"}
LAUNCHES = st.lists(
    st.tuples(st.sampled_from(KERNELS), st.integers(-1, 2), st.integers(0, 2), st.integers(0, 900), st.integers(1, 90)),
    min_size=1, max_size=12,
)  # fmt: skip
LENGTHS = st.lists(st.integers(900, 1100), min_size=0, max_size=12)


@st.composite
def recorded(draw: st.DrawFn) -> list[Table]:
    """The tables of a run: three marked steps, launches in them, steps of the workload's own clock, a loss."""
    lengths = draw(LENGTHS)
    rows = [(k, op, i, 1000 * i + at, ns, draw(st.integers(0, 1))) for k, op, i, at, ns in draw(LAUNCHES)]
    clock = [(i, sum(lengths[:i]), ns, "measured") for i, ns in enumerate(lengths)]
    losses = [(i, "loss", float(ns), "") for i, ns in enumerate(lengths)]
    more: dict[str, Any] = {"device": 1}
    return [
        launches(*rows), details(*OPS), marks([0, 1000, 2000], 1000), devices({}, more),
        *([steps(*clock), metrics(*losses)] if lengths else []),
    ]  # fmt: skip


def analysed(tables: list[Table]) -> Profile:
    return analyse(profile(*tables, gpu_used=True))


def against(one: Profile, other: Profile) -> Comparison:
    return compare([one, other], ["one", "other"])


def told(found: Comparison) -> tuple[Any, ...]:
    parts = (found.figures, found.layers, found.ops, found.kernels, found.renamed, found.losses, found.settings)
    return tuple(repr(part) for part in parts)


@settings(max_examples=examples(25))
@given(recorded(), recorded(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(one: list[Table], other: list[Table], rng: Any) -> None:
    def shuffled(table: Table) -> Table:
        if table.spec.name == "op_details":
            return table  # launches tell its rows by number
        order = list(range(len(table)))
        rng.shuffle(order)
        return table.take(np.array(order, np.int64))

    first = analysed(one)
    mixed = analysed([t if t.spec.name == "steps" else shuffled(t) for t in other])
    assert told(against(first, analysed(other))) == told(against(first, mixed))


@settings(max_examples=examples(25))
@given(recorded())
def test_a_run_does_not_differ_from_itself(tables: list[Table]) -> None:
    run = analysed(tables)
    found = against(run, run)
    differences = {change.difference for figure in found.figures for change in figure.changes}
    assert differences <= {"same", "within noise", "cannot tell", "not known"}
    assert {change.delta for figure in found.figures for change in figure.changes} <= {0.0, None}
    assert {c for rows in (found.layers, found.ops, found.kernels) for row in rows for c in row.changes} <= {0.0, None}
    assert not found.renamed
    assert not found.settings


@settings(max_examples=examples(25))
@given(recorded(), recorded())
def test_swapping_the_runs_turns_every_change_around(one: list[Table], other: list[Table]) -> None:
    first, second = analysed(one), analysed(other)
    forth, back = against(first, second), against(second, first)
    assert [f.metric for f in forth.figures] == [f.metric for f in back.figures]
    for mine, theirs in zip(forth.figures, back.figures, strict=True):
        change, opposite = mine.changes[0], theirs.changes[0]
        assert mine.sides == theirs.sides[::-1]
        assert OPPOSITE.get(change.difference, change.difference) == opposite.difference
        assert (change.delta or 0.0) == -(opposite.delta or 0.0)
    for rows, others in ((forth.layers, back.layers), (forth.ops, back.ops), (forth.kernels, back.kernels)):
        changes = {(row.name, row.op_type): row.changes[0] for row in rows}
        assert changes == {(r.name, r.op_type): None if r.changes[0] is None else -r.changes[0] for r in others}
    kernels = [{(r.op, r.before, r.after) for r in forth.renamed}, {(r.op, r.after, r.before) for r in back.renamed}]
    assert kernels[0] == kernels[1]


@settings(max_examples=examples(25))
@given(recorded(), recorded())
def test_changes_of_rows_add_up_to_that_of_all_kernels(one: list[Table], other: list[Table]) -> None:
    found = against(analysed(one), analysed(other))
    (kernel_time,) = (f for f in found.figures if f.metric == "kernel_time_ns")
    whole = kernel_time.changes[0].delta
    assert whole is not None
    for rows in (found.layers, found.ops, found.kernels):
        if rows and all(row.changes[0] is not None for row in rows):
            assert abs(sum(row.changes[0] or 0.0 for row in rows) - whole) <= 1e-6 * max(abs(whole), 1.0)
    assert all(row.changes[0] is not None for row in found.kernels)
