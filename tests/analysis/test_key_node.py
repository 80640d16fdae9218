"""What fires once in each step: counts and times worked by hand, made-up traces of known answer, real profiles."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.analysis.key_node import find_key_nodes, gap_cv
from tcprobe.readers.open import open_profile
from tcprobe.schema.columns import Table
from tcprobe.schema.key_nodes import Candidate, KeyNodes
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import HOST_OPS, OPS, RANGES, STEPS
from tests.analysis.builders import details, launches, marks
from tests.support import ROOT, examples, shared

Count = tuple[str, str, int]


def counted(*ops: Count, gpu: dict[str, int] | None = None, steps: int = 0) -> Profile:
    """Return a profile of (op, op_type, calls), with the GPU time of some."""
    host = [
        {"op": op, "op_type": kind, "calls": n, "sum_ns": n, "min_ns": 1, "max_ns": 1, "profiler_id": f"ID_{op}"}
        for op, kind, n in ops
    ]
    profile = Profile(Metadata("dlprof_csv")).with_tables(Table.from_rows(HOST_OPS, host))
    if gpu is not None:
        rows = [{"op": op, "op_type": kind, "tc_capable": "no", "union_ns": gpu.get(op, 0)} for op, kind, _ in ops]
        profile = profile.with_tables(Table.from_rows(OPS, rows))
    seen = [{"step": n, "start_ns": n, "kind": "measured"} for n in range(steps)]
    return profile.with_tables(Table.from_rows(STEPS, seen)) if steps else profile


def timed(**ends: list[int]) -> Profile:
    """Return a profile of ranges of 2 ns by name, each with the times at which it ends."""
    rows = [
        {"name": name, "start_ns": end - 2, "duration_ns": 2, "thread": 1}
        for name, all_ in ends.items()
        for end in all_
    ]
    return Profile(Metadata("nsys")).with_tables(Table.from_rows(RANGES, rows))


def named(found: KeyNodes) -> list[str]:
    return [candidate.fired.name for candidate in found.candidates]


def of(found: KeyNodes, name: str) -> Candidate:
    return next(c for c in (*found.candidates, *found.others) if c.fired.name == name)


# --- counts -------------------------------------------------------------------------------------------


def test_the_number_of_steps_is_what_most_counts_are_multiples_of() -> None:
    """Of 5 counts 4 are multiples of 12: 12 twice, 24 and 36; all 5 are of 4, but 12 is larger."""
    found = find_key_nodes(counted(("a", "A", 12), ("b", "B", 12), ("c", "C", 24), ("d", "D", 36), ("e", "E", 4)))
    assert (found.steps, found.basis, found.agreeing, found.among) == (12, "calls", 2, 5)
    assert named(found) == ["a", "b"]
    assert not any(candidate.seen for candidate in found.candidates)
    assert [(c.fired.name, c.cadence, c.every) for c in found.others] == [
        ("e", "per_epoch", 3),
        ("c", "several_per_step", 2),
        ("d", "several_per_step", 3),
    ]


def test_only_what_took_gpu_time_says_how_many_steps_there_are() -> None:
    """Nine ops without GPU time run 5 times; the two that have some run 10 times."""
    idle = [(f"idle{n}", "Const", 5) for n in range(9)]
    found = find_key_nodes(counted(*idle, ("a", "A", 10), ("b", "B", 10), ("z", "Z", 10), gpu={"a": 7, "b": 7}))
    assert (found.steps, found.agreeing, found.among) == (10, 2, 2)
    assert named(found) == ["a", "b", "z"]
    assert of(found, "z").flaws == ("no_gpu_time",)
    assert of(found, "a").fired.gpu_ns == 7


def test_names_and_types_order_what_counts_cannot() -> None:
    ops = [
        ("replica_1/Adam/AssignAddVariableOp", "AssignAddVariableOp"),
        ("while/body/mul", "Mul"),
        ("cond/then/mul", "Mul"),
        ("cluster_1_1/xla_run", "_XlaRun"),
        ("IteratorGetNext/_2", "_Send"),
        ("dense/MatMul", "MatMul"),
        ("total/AssignAddVariableOp", "AssignAddVariableOp"),
        ("update/ResourceApplyGradientDescent", "ResourceApplyGradientDescent"),
        ("Adam/AssignAddVariableOp", "AssignAddVariableOp"),
    ]
    found = find_key_nodes(counted(*((name, kind, 8) for name, kind in ops)))
    assert named(found)[:4] == [name for name, _ in reversed(ops)][:4]
    flaws = {c.fired.name.partition("/")[0]: c.flaws for c in found.candidates[4:]}
    assert flaws == {
        "replica_1": ("one_replica",),
        "while": ("loop_body",),
        "cond": ("conditional",),
        "cluster_1_1": ("xla_cluster",),
        "IteratorGetNext": ("runtime",),
    }


def test_a_cut_recording_may_have_one_call_more_or_less() -> None:
    host = counted(("b", "B", 20), ("a", "A", 21), ("c", "C", 19)).require("host_ops")
    found = find_key_nodes(Profile(Metadata("xplane")).with_tables(host, marks([10 * n for n in range(20)], 9)))
    assert (found.steps, found.basis, named(found)) == (20, "marks", ["b", "a", "c"])
    assert [c.flaws for c in found.candidates] == [(), ("cut",), ("cut",)]


def test_of_a_few_steps_none_may_be_missing() -> None:
    host = counted(("b", "B", 4), ("a", "A", 5), ("c", "C", 3)).require("host_ops")
    found = find_key_nodes(Profile(Metadata("xplane")).with_tables(host, marks([0, 10, 20, 30], 9)))
    assert (found.steps, named(found)) == (4, ["b"])


def test_the_count_of_the_probe_stands_where_an_op_ran_so_often() -> None:
    ops = [("micro0", "A", 40), ("micro1", "A", 40), ("micro2", "A", 40), ("update", "ResourceApplyAdam", 10)]
    assert find_key_nodes(counted(*ops)).steps == 40
    found = find_key_nodes(counted(*ops, steps=10))
    assert (found.steps, found.basis, named(found)) == (10, "probe", ["update"])
    assert find_key_nodes(counted(*ops, steps=11)).steps == 40


def test_a_loop_of_few_ranges_is_found_beside_a_set_up_of_many() -> None:
    setup = {f"set-up {name}": [at] for at, name in enumerate("abcdefghij")}
    loop = [1000 + 10 * at for at in range(120)]
    found = find_key_nodes(timed(**setup, forward=loop, backward=[end + 5 for end in loop]))
    assert (found.steps, found.basis, named(found)) == (120, "calls", ["backward", "forward"])
    assert find_key_nodes(timed(**setup, forward=loop[:60], backward=loop[:60])).why_none == "few_steps"
    uneven = [1000 + at**4 for at in range(120)]
    assert find_key_nodes(timed(**setup, load=uneven)).why_none is not None


def once(*names: str) -> Profile:
    """A profile of ranges that came once each."""
    rows = [{"name": name, "start_ns": 10 * n, "duration_ns": 9} for n, name in enumerate(names)]
    return Profile(Metadata("nsys")).with_tables(Table.from_rows(RANGES, rows))


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (Profile(Metadata("ncu_csv")), "no_calls"),
        (counted(("a", "A", 1), ("b", "B", 1), ("c", "C", 2)), "few_steps"),
        (counted(*((f"op{n}", "A", n) for n in (7, 11, 13, 17, 19))), "nothing_regular"),
        (counted(("a", "A", 5)).with_tables(marks([0], 9)), None),  # the one mark is no step: the op runs 5 times
        (counted(("a", "A", 2), ("b", "B", 2)).with_tables(marks([0, 10], 9)), "few_steps"),
        (once("iteration 0", "iteration 1", "iteration 2", "setup"), "numbered_ranges"),
        (once("setup", "train", "step 1"), "few_steps"),
    ],
)
def test_where_nothing_tells_nothing_is_said(profile: Profile, why: str | None) -> None:
    found = find_key_nodes(profile)
    assert (found.why_none, found.best is None) == (why, why is not None)


def test_the_call_of_a_traced_function_is_no_op() -> None:
    ops = (("__inference_step_42", "EagerLocalExecute", 9), ("__inference_f_1", "__inference_f_1", 9), ("a", "A", 9))
    assert named(find_key_nodes(counted(*ops))) == ["a"]


def test_what_xla_made_is_no_op_of_the_framework() -> None:
    """Neither on the host, where its types tell, nor on the GPU, where the instruction does; PyTorch's are ops."""
    ops = (("fc/MatMul", "dot", 9), ("a", "A", 9))
    profile = counted(*ops).with_tables(
        launches(*(("k", 0, None, 10 * n, 1) for n in range(9))),
        details(("b", "B")).with_columns(hlo_op=["fusion.1"]),
    )
    assert named(find_key_nodes(replace(profile, traits=frozenset({"shows_xla"})))) == ["a"]
    assert named(find_key_nodes(counted(*ops))) == ["a", "fc/MatMul"]


# --- times --------------------------------------------------------------------------------------------


def test_gaps_are_those_after_the_warm_up() -> None:
    """Gaps 100, 10, 20, 10, 20 without the first: mean 15, standard deviation 5."""
    import numpy as np

    assert gap_cv(np.array([0, 100, 110, 130, 140, 160], float)) == pytest.approx(1 / 3)
    assert gap_cv(np.array([0, 10, 20], float)) is None


def test_the_last_of_a_step_is_the_best() -> None:
    """Steps of 100: first ends at 10, middle at 50, last at 90: 0, (50 - 10) / (90 - 10) and 1 of the way."""
    starts = [100 * n for n in range(8)]
    found = find_key_nodes(
        timed(last=[s + 90 for s in starts], first=[s + 10 for s in starts], middle=[s + 50 for s in starts])
    )
    assert [(c.fired.name, c.position) for c in found.candidates] == [("last", 1.0), ("middle", 0.5), ("first", 0.0)]
    assert [(c.merits, c.flaws) for c in found.candidates] == [(("at_end",), ()), ((), ()), ((), ("early",))]
    assert all(c.seen and c.gap_cv == 0 and c.fired.what == "range" for c in found.candidates)


def test_with_marks_one_must_lie_in_each_step() -> None:
    """`twice` ends eight times in eight steps, but twice in every other one."""
    starts = [100 * n for n in range(8)]
    twice = [s + at for s in starts[::2] for at in (20, 40)]
    profile = timed(good=[s + 60 for s in starts], twice=twice, early=[s + 6 for s in starts])
    found = find_key_nodes(profile.with_tables(marks(starts, 95)))
    assert (found.basis, named(found)) == ("marks", ["good", "early"])
    assert of(found, "early").position == pytest.approx(0.1)


def test_ranges_that_are_steps_mark_them() -> None:
    rows = [{"name": "step", "kind": "step", "start_ns": 100 * n, "duration_ns": 90, "thread": 1} for n in range(6)]
    rows += [{"name": "aten::mm", "start_ns": 100 * n + k, "duration_ns": 2} for n in range(6) for k in (5, 9, 50)]
    found = find_key_nodes(Profile(Metadata("nsys")).with_tables(Table.from_rows(RANGES, rows)))
    assert (found.steps, found.basis, named(found)) == (6, "marks", ["step"])
    assert (of(found, "aten::mm").cadence, of(found, "aten::mm").every) == ("several_per_step", 3)


def test_an_op_ends_with_the_last_launch_of_its_call() -> None:
    """Op 0 launches two kernels in each of four steps, at 1 and 8 of 10; op 1 one, at 4: 8 of 8 and 4 of 8."""
    rows = [("k", op, n, 10 * n + at, 1) for n in range(4) for op, at in ((0, 1), (0, 8), (1, 4))]
    profile = counted(("two", "A", 4), ("one", "B", 4)).with_tables(
        launches(*rows), details(("two", "A"), ("one", "B")), marks([0, 10, 20, 30], 10)
    )
    found = find_key_nodes(profile)
    assert [(c.fired.name, c.position, c.seen) for c in found.candidates] == [("two", 1.0, True), ("one", 0.5, True)]
    assert of(found, "two").fired.gpu_ns == 8


# --- made-up traces -----------------------------------------------------------------------------------


def trace(seed: int, steps: int, epoch: int, layers: int, noise: int) -> dict[str, list[int]]:
    """Return ends of a training: warm-up, jitter, a pause at each epoch's end; `optimizer` ends each step."""
    chance = random.Random(seed)
    ends: dict[str, list[int]] = {}
    now = 1000
    for step in range(steps):
        length = 100_000 if step == 0 else 10_000
        for part in range(layers):
            at = now + length * (part + 1) // (layers + 2) + chance.randrange(50)
            ends.setdefault(f"layer{part}", []).append(at)
            ends.setdefault("shared", []).append(at + 1)
        ends.setdefault("optimizer", []).append(now + length * 19 // 20 + chance.randrange(100))
        now += length + chance.randrange(200)
        if (step + 1) % epoch == 0:
            ends.setdefault("epoch", []).append(now + 2000)
            now += 30_000
    for n in range(noise):
        ends[f"noise{n}"] = sorted(chance.sample(range(now), chance.randint(1, 2)))
    return ends


TRACES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**16),
        "steps": st.integers(6, 40),
        "epoch": st.integers(2, 5),
        "layers": st.integers(2, 6),
        "noise": st.integers(0, 2),
    }
)


@settings(max_examples=examples(20))
@given(TRACES)
def test_what_ends_each_step_comes_first(given_: dict[str, int]) -> None:
    found = find_key_nodes(timed(**trace(**given_)))
    assert found.steps == given_["steps"]
    assert named(found)[0] == "optimizer"
    assert not {"epoch", "shared"} & set(named(found))


@settings(max_examples=examples(10))
@given(TRACES, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(given_: dict[str, int], chance: random.Random) -> None:
    profile = timed(**trace(**given_))
    table = profile.require("ranges")
    rows: list[dict[str, Any]] = list(table.rows())
    chance.shuffle(rows)
    assert find_key_nodes(profile.with_tables(Table.from_rows(RANGES, rows))) == find_key_nodes(profile)


@settings(max_examples=examples(20))
@given(st.integers(3, 500), st.integers(2, 9), st.lists(st.integers(1, 2), max_size=2))
def test_ops_that_run_once_or_twice_change_no_candidate(epochs: int, every: int, others: list[int]) -> None:
    steps = epochs * every
    ops = [(f"op{n}", "MatMul", steps) for n in range(9)] + [("epoch", "AssignVariableOp", epochs)]
    more = [(f"set-up{n}", "VarHandleOp", calls) for n, calls in enumerate(others)]
    without, with_them = find_key_nodes(counted(*ops)), find_key_nodes(counted(*ops, *more))
    assert without.steps == steps
    assert with_them.candidates == without.candidates
    assert (of(without, "epoch").cadence, of(without, "epoch").every) == ("per_epoch", every)


# --- real profiles ------------------------------------------------------------------------------------


def test_the_key_node_of_a_real_run_fires_once_an_epoch() -> None:
    """41 calls where 332 of 387 ops have 492, 12 times as many."""
    found = find_key_nodes(open_profile(shared("samples/dlprof/v100_tf1_0.13_detailed.csv")))
    trap = of(found, "AssignVariableOp_1")
    assert (found.steps, found.basis, trap.cadence, trap.every, trap.fired.calls) == (492, "calls", "per_epoch", 12, 41)
    assert found.best is not None
    assert (found.best.fired.name, found.best.fired.calls) == ("metrics/acc/AssignAddVariableOp_1", 492)
    assert sum(c.fired.calls == 492 for c in found.candidates) == 332


@pytest.mark.parametrize("name", ["fp32_ffma", "bf16_before", "bf16_after"])
def test_the_layers_of_a_real_step_are_no_steps(name: str) -> None:
    """30 blocks call aten::reshape once each, between pauses; no range marks the steps that were recorded."""
    found = find_key_nodes(open_profile(shared(f"samples/nsys/h100x2_{name}_nsys2026.sqlite")))
    assert (found.why_none, found.candidates) == ("nothing_regular", ())


@pytest.mark.parametrize(("rank", "others"), [(1, ["Jacobi solve"]), (4, ["Jacobi solve", "MPI_Sendrecv"])])
def test_a_real_solver_exchanges_once_in_each_step(rank: int, others: list[str]) -> None:
    found = find_key_nodes(open_profile(shared(f"samples/nsys/v100_mpi_rank{rank}.sqlite")))
    assert (found.steps, named(found)[0], [c.fired.name for c in found.others]) == (1000, "MPI", others)
    assert found.best is not None
    assert found.best.gap_cv is not None
    assert found.best.gap_cv < 0.05


@pytest.mark.parametrize("name", ["tf24_t4_alexnet_fp32", "tf24_v100_alexnet_fp32", "tf22_8xv100_bert_step0"])
def test_of_one_real_step_nothing_is_said(name: str) -> None:
    found = find_key_nodes(open_profile(shared(f"samples/xplane/{name}.xplane.pb")))
    assert (found.steps, found.why_none, found.candidates) == (1, "few_steps", ())


def test_a_program_that_is_all_xla_has_none() -> None:
    found = find_key_nodes(open_profile(shared("samples/xplane/jax08_mi300_gemm.xplane.pb")))
    assert (found.why_none, found.candidates) == ("no_calls", ())


def test_a_run_on_a_gpu_has_positions() -> None:
    found = find_key_nodes(open_profile(ROOT / "tests/fixtures/gpu_run/run"))
    assert (found.steps, found.basis, found.agreeing) == (5, "marks", 222)
    assert found.best is not None
    assert found.best.seen
    assert "at_end" in found.best.merits
    assert sum("conditional" in c.flaws for c in found.candidates[:100]) == 0


def test_the_ids_of_dlprof_are_kept() -> None:
    found = find_key_nodes(open_profile(ROOT / "tests/fixtures/dlprof/tf2_1.8" / "dlprof_detailed.csv"))
    assert found.best is not None
    assert found.best.fired.key == "ASSIGNADDVARIABLEOP_1"
    old = find_key_nodes(open_profile(Path(ROOT / "tests/fixtures/dlprof/tf1_0.13")))
    assert old.best is not None
    assert (old.best.fired.op_id, old.best.fired.key) == (None, "Adam/Adam/AssignAddVariableOp")
