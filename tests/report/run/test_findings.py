"""Why not more, and what first."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis.causes.advice import off_tensor_cores
from tcprobe.report.run import findings
from tcprobe.schema.kinds import Blocker, SizeAdviceKind
from tcprobe.schema.profile import Profile
from tests.report.builders import MS, cpu_profile, figure, gpu_profile, summary_only, table, texts

NONE, SHAPE = Blocker("none"), Blocker("shape", kernel="sgemm")
FLOAT32 = Blocker("dtype", dtype="float32", gpu="Tesla T4")
RAN = "a contiguous dimension is no multiple of 16 bytes, and the library ran sgemm"


def op(name: str, blocker: Blocker | None, total: int, on_tc: int = 0, **more: object) -> dict[str, object]:
    known = blocker.columns() if blocker else {}
    return {"op": name, "tc_capable": "yes", "sum_ns": total * MS, "tc_ns": on_tc * MS, **known, **more}


def profile_of(*ops: dict[str, object]) -> Profile:
    """A profile whose kernel time is 200 ms."""
    kernel = {"kernel": "k", "uses_tc": "no", "evidence": "", "sum_ns": 200 * MS}
    return gpu_profile().with_tables(table("kernels", kernel), table("ops", *ops))  # type: ignore[arg-type]


def test_blockers_are_summed_and_stand_by_cost() -> None:
    cost = off_tensor_cores(
        profile_of(
            op("a", FLOAT32, 10),
            op("b", SHAPE, 50, on_tc=10),
            op("c", FLOAT32, 20),
            op("d", NONE, 90, on_tc=90),
            op("e", None, 5),
            op("f", FLOAT32, 9, tc_capable="no"),
        )
    )
    assert cost is not None
    # Off the Tensor Cores: shape 50 - 10 = 40 of 200 ms, float32 10 + 20 = 30 of 200 ms.
    assert texts(findings.blockers(summary_only(), cost, 5)) == (
        (RAN, "40.0 ms", "20.0 %", "1", "b", "-"),
        ("float32 cannot use a T4's Tensor Cores", "30.0 ms", "15.0 %", "2", "c", "-"),
    )
    assert [row[0] for row in texts(findings.costliest(summary_only(), cost, 2))] == ["b", "c"]
    assert findings.costliest(summary_only(), cost, 2).notes == ("(1 more; --top 0 shows all)",)


def test_of_a_foreign_gpu_nothing_is_off_the_tensor_cores() -> None:
    assert off_tensor_cores(profile_of(op("a", Blocker("not_nvidia"), 10))) is None


def test_time_of_unknown_class_is_no_cost() -> None:
    assert off_tensor_cores(profile_of(op("a", SHAPE, 10, on_tc=2, unknown_ns=8 * MS))) is None


def test_equal_costs_keep_the_order_of_the_table() -> None:
    cost = off_tensor_cores(profile_of(*(op(name, SHAPE, 7) for name in "abcdef")))
    assert cost is not None
    assert [row[0] for row in texts(findings.costliest(summary_only(), cost, None))] == list("abcdef")


def test_without_kernel_time_flops_are_weighed() -> None:
    cost = off_tensor_cores(cpu_profile())
    assert cost is not None
    assert not cost.measured
    assert [row[:4] for row in texts(findings.blockers(summary_only(), cost, 5))] == [
        ("TF32 off", "41.9 MFLOP", "21.0 %", "1")
    ]


def test_a_product_in_a_loop_weighs_as_often_as_it_runs() -> None:
    gemm = {"op": "x", "executes": "yes", "flops": 10, "tc_blocker_kind": "none", "calls_per_step": 3.0}
    off = {**gemm, "op": "y", "tc_blocker_kind": "tf32", "calls_per_step": 1.0}
    profile = summary_only().with_tables(table("gemms", gemm, off))  # type: ignore[arg-type]
    assert findings.reach(profile) == 75.0
    cost = off_tensor_cores(profile)
    assert cost is not None
    assert (cost.weight.tolist(), cost.total) == ([10.0], 40.0)


GEMM = {"executes": "yes", "flops": 10, "calls_per_step": 1.0, "at_least": False}
FREE, OFF = {**GEMM, "op": "x", "tc_blocker_kind": "none"}, {**GEMM, "op": "y", "tc_blocker_kind": "tf32"}


@pytest.mark.parametrize("changed", [{"calls_per_step": None}, {"at_least": True}])
def test_what_may_run_more_often_is_a_lower_bound_and_leaves_no_share(changed: dict[str, Any]) -> None:
    profile = summary_only().with_tables(table("gemms", FREE, {**OFF, **changed}))
    assert findings.reach(profile) is None
    cost = off_tensor_cores(profile)
    assert cost is not None
    assert cost.bounded
    (cause,) = texts(findings.blockers(profile, cost, 5))
    assert cause[1:3] == ("at least 10 FLOP" if changed.get("at_least") else "unknown", "-")
    (first,) = texts(findings.costliest(profile, cost, 5))
    assert (first[2], first[3]) == cause[1:3]


def test_all_of_what_runs_unknown_times_may_be_free() -> None:
    profile = summary_only().with_tables(table("gemms", FREE, {**FREE, "at_least": True}))
    assert findings.reach(profile) == 100.0


def test_flops_are_of_a_step_only_where_one_is_known() -> None:
    cost = off_tensor_cores(cpu_profile())
    assert cost is not None
    none = table("summary", figure("flops_per_step", reason="no step is marked", reason_kind="no_step"))
    for profile, head in ((cpu_profile(), "FLOP/step"), (cpu_profile().with_tables(none), "FLOP/execution")):
        for section in (findings.blockers(profile, cost, 5), findings.costliest(profile, cost, 5)):
            assert head in [h.text for h in section.headings]


def test_nothing_known_is_nothing_said() -> None:
    assert off_tensor_cores(summary_only()) is None
    assert findings.bad_size_table(summary_only(), 5) is None
    assert findings.reach(summary_only()) is None


@pytest.mark.parametrize("flops", [None, 0])
def test_reach_is_unknown_where_flops_are(flops: int | None) -> None:
    gemm = {"op": "x", "executes": "yes", "tc_blocker_kind": "none", "flops": flops, "calls_per_step": 1.0}
    assert findings.reach(gpu_profile().with_tables(table("gemms", gemm))) is None  # type: ignore[arg-type]


def test_bad_sizes_show_the_next_size_and_stand_by_cost() -> None:
    section = findings.bad_size_table(gpu_profile(), 1)
    assert section is not None
    row = dict(zip((h.text for h in section.headings), texts(section)[0], strict=True))
    assert (row["layer"], row["size"], row["advice"]) == ("generator/conv2d_3", "1 -> 8", "[1]")
    assert row["saves a step"] == "up to 20 ms"  # at the least it costs
    assert section.notes == (
        "(1 more; --top 0 shows all)",
        "saves a step: in the layer's own ops, a predicted share of their measured time; a layer that takes the size "
        "has its own row",
        "[1]: 1 output channel: cuDNN may fall back to CUDA-core kernels",
    )


@pytest.mark.parametrize(
    ("ends", "said"),
    [((20_000, 24_000, 31_000), "20-31 us"), ((-5, 90, 2_000), "up to 2 us"), ((-9_000, -8_000, -7_000), "nothing"),
     ((None, None, None), "-")],
)  # fmt: skip
def test_a_saving_is_a_range(ends: tuple[int | None, ...], said: str) -> None:
    row = dict(zip(("saving_low_ns", "saving_ns", "saving_high_ns"), ends, strict=True))
    assert findings.saves(row) == said


def test_where_nothing_is_predicted_no_column_says_so() -> None:
    row = {"layer": "l", "dimension": "units", "size": 10, "next_size": 16, "multiple": 8, "basis": "graph"}
    section = findings.bad_size_table(gpu_profile().with_tables(table("bad_sizes", row)), None)
    assert section is not None
    assert "saves a step" not in {head.text for head in section.headings}
    assert section.notes == ()


@pytest.mark.parametrize(
    ("kind", "size"),
    [("free", "1"), ("image", "1"), ("no_tensor_cores", "1"), ("measured_free", "1 -> 8"), ("float32", "1 -> 8"),
     (None, "1 -> 8")],
)  # fmt: skip
def test_a_size_to_leave_alone_stands_alone(kind: SizeAdviceKind | None, size: str) -> None:
    row = {"layer": "conv", "dimension": "channels", "size": 1, "multiple": 8, "next_size": 8, "advice_kind": kind}
    section = findings.bad_size_table(gpu_profile().with_tables(table("bad_sizes", row)), None)
    assert section is not None
    cells = dict(zip((head.text for head in section.headings), texts(section)[0], strict=True))
    assert cells["size"] == size


def test_an_advice_that_many_sizes_share_is_said_once() -> None:
    row = {"layer": "l", "dimension": "units", "size": 10, "next_size": 16, "multiple": 8, "basis": "graph"}
    rows = [{**row, "advice_kind": kind} for kind in ("float64", "small_head", "float64", None)]
    section = findings.bad_size_table(gpu_profile().with_tables(table("bad_sizes", *rows)), None)
    assert section is not None
    marks = [cells[[h.text for h in section.headings].index("advice")] for cells in texts(section)]
    assert marks == ["[1]", "[2]", "[1]", "-"]
    assert section.notes == (
        "[1]: no effect while this layer computes in float64",
        "[2]: nothing: so small a head is bound by memory and launches, not by arithmetic",
    )
