"""Ops of a second run: joined by kernel name and order within a step, and nothing invented where that does not tell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.probe.constants import WITH_XSPACE
from tcprobe.readers.base import Reader
from tcprobe.readers.borrow import with_ops_of
from tcprobe.readers.open import open_profile
from tcprobe.readers.run_folder import folder
from tcprobe.readers.xspace import xplane
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import LAUNCHES, OP_DETAILS, RANGES
from tests.readers.toys import Ranged, write_ranged
from tests.support import SHARED

STEP = 1000
Step = list[tuple[str, int]]
"""Kernels of one step with their ops, in order."""
OPS = ("dense/MatMul", "dense_1/MatMul", "relu/Relu")
GEMM, RELU = "sgemm_64x64", "relu_kernel"
USUAL: Step = [(GEMM, 0), (RELU, 2), (GEMM, 1)]


def launches(steps: list[Step], first: int, device: int = 0, ranges: bool = False) -> Table:
    """Return the launches of these steps; with ranges, as a profile has them that does not say the step."""
    rows: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        for place, (kernel, op) in enumerate(step):
            called = (number + 1) * STEP + 10 * place
            row = {"device": device, "stream": 7, "kernel": kernel, "op_id": op, "config_id": -1, "launch_ns": called}
            at = {"start_ns": called + 5, "duration_ns": 3, "iteration": None if ranges else first + number}
            rows.append({**row, **at})
    return Table.from_rows(LAUNCHES, rows)


def lender(*steps: Step, first: int = 20) -> Profile:
    """Return what TensorFlow's profiler recorded."""
    details = Table.from_rows(OP_DETAILS, [{"op": op, "op_type": op.rpartition("/")[2]} for op in OPS])
    return Profile(Metadata("xplane", ("x.xplane.pb",))).with_tables(launches(list(steps), first), details)


def borrower(*steps: Step) -> Profile:
    """Return what Nsight Systems recorded: no op, and steps as ranges."""
    table = launches([[(kernel, -1) for kernel, _ in step] for step in steps], 0, ranges=True)
    rows = [
        {"name": f"step {n}", "kind": "step", "step": n, "start_ns": (n + 1) * STEP, "duration_ns": STEP - 1}
        for n in range(len(steps))
    ]
    return Profile(Metadata("nsys", ("a.sqlite",))).with_tables(table, Table.from_rows(RANGES, rows))


def ops_of(profile: Profile) -> list[str | None]:
    """Return the op of each launch."""
    names = profile.require("op_details").names("op").tolist()
    ids = profile.require("launches").numbers("op_id").tolist()
    return [names[number] if number >= 0 else None for number in ids]


def told(profile: Profile) -> list[str]:
    return [note.code for note in profile.metadata.notes]


def test_the_nth_launch_of_a_kernel_is_the_nth_ones_op() -> None:
    found = with_ops_of(borrower(USUAL, USUAL, USUAL), lender(USUAL, USUAL))
    assert ops_of(found) == ["dense/MatMul", "relu/Relu", "dense_1/MatMul"] * 3
    assert found.metadata.source_of("launches", "op_id") == "xplane"
    assert found.metadata.source_of("op_details", "op") == "xplane"
    (note,) = found.metadata.notes
    assert (note.code, note.level) == ("ops-borrowed", "note")
    assert "9 of 9 kernel launches (100 %)" in note.message


def test_where_counts_differ_nothing_is_invented() -> None:
    first: Step = [(GEMM, -1), (GEMM, -1), (GEMM, -1), (RELU, -1), ("autotune", -1)]
    found = with_ops_of(borrower(first, USUAL), lender(USUAL))
    assert ops_of(found) == [None, None, None, "relu/Relu", None, "dense/MatMul", "relu/Relu", "dense_1/MatMul"]
    (note,) = found.metadata.notes
    assert "4 of 8 kernel launches (50 %)" in note.message
    assert f"{GEMM} (3), autotune (1)" in note.message


def test_where_steps_disagree_nothing_is_invented() -> None:
    swapped: Step = [(GEMM, 1), (RELU, 2), (GEMM, 0)]
    assert ops_of(with_ops_of(borrower(USUAL), lender(USUAL, swapped))) == [None, "relu/Relu", None]


def test_steps_that_differ_lend_each_to_their_like() -> None:
    """Of a GAN, say: the critic's steps launch the kernel once, the generator's twice."""
    critic: Step = [(GEMM, 0)]
    found = with_ops_of(borrower(USUAL, critic, critic, USUAL), lender(critic, USUAL, critic))
    assert [op for op in ops_of(found) if op != "relu/Relu"] == [
        *("dense/MatMul", "dense_1/MatMul", "dense/MatMul", "dense/MatMul", "dense/MatMul", "dense_1/MatMul"),
    ]


def test_launches_before_the_first_step_have_none() -> None:
    early = borrower(USUAL)
    table = early.require("launches")
    at = table.numbers("launch_ns").copy()
    at[0] = 1
    found = with_ops_of(early.with_tables(table.with_columns(launch_ns=at)), lender([(GEMM, 1)], USUAL))
    assert ops_of(found) == [None, "relu/Relu", "dense_1/MatMul"]


def test_nothing_is_lent_where_it_cannot_be() -> None:
    two = launches([USUAL], 0, device=1)
    many = lender(USUAL).with_tables(launches([USUAL], 20, device=0))
    both = Table.from_rows(LAUNCHES, [*many.require("launches").rows(), *two.rows()])
    for other, why in (
        (many.with_tables(both), "2 GPUs, this one on 1"),
        (lender(USUAL).with_tables(launches([[(GEMM, -1)]], 0)), "no kernel launch of an op"),
        (lender(USUAL).with_tables(launches([USUAL], 0, ranges=True)), "only one of them marks its steps"),
    ):
        found = with_ops_of(borrower(USUAL), other)
        assert told(found) == ["ops-not-borrowed"]
        assert why in found.metadata.notes[0].message
        assert set(ops_of(found)) == {None}
    own = lender(USUAL)
    assert with_ops_of(own, lender(USUAL)) is own
    empty = Profile(Metadata("nsys"))
    assert with_ops_of(empty, own) is empty


STEPS = st.lists(
    st.lists(st.tuples(st.sampled_from([GEMM, RELU, "k"]), st.integers(0, 2)), min_size=1, max_size=5),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40)
@given(STEPS, STEPS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(ours: list[Step], theirs: list[Step], rng: random.Random) -> None:
    mine, other = borrower(*ours), lender(*theirs)
    usual = ops_of(with_ops_of(mine, other))
    moved, shuffled = shuffle(mine, rng), shuffle(other, rng)
    found = with_ops_of(moved[0], shuffled[0])
    assert [ops_of(found)[at] for at in np.argsort(moved[1]).tolist()] == usual
    lent = [(key, op) for (key, _), op in zip([pair for step in ours for pair in step], usual, strict=True) if op]
    assert set(lent) <= {(kernel, OPS[op]) for step in theirs for kernel, op in step}


def shuffle(profile: Profile, rng: random.Random) -> tuple[Profile, list[int]]:
    """Return the profile with its launches in another order, and that order."""
    table = profile.require("launches")
    order = list(range(len(table)))
    rng.shuffle(order)
    return profile.with_tables(table.take(np.array(order, np.int64))), order


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real samples here")
@pytest.mark.parametrize(
    "name", ["tf24_v100_alexnet_fp32", "tf24_t4_autotuning_step", "tf25_turing_busy_88pct", "tf22_8xv100_bert_step0"]
)
def test_a_run_lends_itself_exactly_its_own_ops(name: str) -> None:
    own = xplane.read([SHARED / "samples" / "xplane" / f"{name}.xplane.pb"])
    table = own.require("launches")
    bare = own.with_tables(table.with_columns(op_id=np.full(len(table), -1)))
    found = with_ops_of(bare, own)
    placed = ~np.isnan(table.numbers("iteration")) if not np.isnan(table.numbers("iteration")).all() else slice(None)
    assert (np.array(ops_of(found), object)[placed] == np.array(ops_of(own), object)[placed]).all()
    assert any(ops_of(found))


class Lending:
    """``*.lent``: what TensorFlow's profiler recorded of the toy's steps."""

    FORMAT = "lending"
    WHAT = "*.lent"

    def finds(self, path: Path) -> list[Path]:
        return sorted(path.rglob(self.WHAT)) if path.is_dir() else []

    def read(self, files: list[Path]) -> Profile:
        step: Step = [("volta_h884gemm_128x64_ldg8_nn", 0), ("toy_norm", 2), ("volta_sgemm_128x64_nn", 1)]
        return lender(*[step] * 3)


READERS: tuple[Reader, ...] = (folder, Ranged(), Lending())


def run_folder(path: Path) -> Path:
    """Make the folder of a run."""
    (path / "raw").mkdir(parents=True)
    (path / "run.json").write_text('{"tcprobe": "1", "exit_code": 0, "partial": false}')
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that the toy recorded."""
    made = run_folder(tmp_path / "runs/a")
    write_ranged(made / "raw/x.ranges.json", steps=4)
    return made


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_second_run_lies_in_the_folder_of_the_first(run: Path, level: int) -> None:
    (run_folder(run / WITH_XSPACE) / "raw/x.lent").touch()
    found = open_profile((run, *run.parents)[level], READERS)
    assert ops_of(found) == ["dense/MatMul", "relu/Relu", "dense_1/MatMul"] * 4
    assert found.metadata.source_of("launches", "op_id") == "xplane"
    assert found.metadata.paths == (str(run),)


def test_a_second_run_that_is_none_costs_nothing(run: Path) -> None:
    plain = open_profile(run, READERS)
    (run / WITH_XSPACE).symlink_to(".")
    assert told(open_profile(run, READERS))[-1:] == ["ops-not-borrowed"]  # it is the run itself, which names no ops
    (run / WITH_XSPACE).unlink()
    (run / WITH_XSPACE).mkdir()
    assert open_profile(run, READERS).metadata.notes == plain.metadata.notes
    run_folder(run / WITH_XSPACE / "raw/deeper")
    assert open_profile(run, READERS).metadata.notes == plain.metadata.notes
