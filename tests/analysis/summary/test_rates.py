"""Step time and its range: which steps, and what the reason says of them."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import LossScale, Metadata, Policy, Profile
from tests.analysis import builders as b
from tests.report.builders import table


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("measured", "median of 11 steps that no profiler slowed"),
        ("after", "median of 11 steps after the profiled window, none before it was left to measure"),
        ("profiled", "median of 11 steps under the profiler, which slows them"),
    ],
)
def test_the_reason_says_which_steps_and_how_many(kind: str, reason: str) -> None:
    # lengths 50, 52, ..., 70: the median is 60, percentiles 10 and 90 are 52 and 68; warm-up of 5000 counts nowhere
    lengths = [5000, *range(50, 72, 2)]
    rows = [(i, sum(lengths[:i]), spent, kind if i else "warm-up") for i, spent in enumerate(lengths)]
    found = b.summary(analyse(b.profile(b.steps(*rows), gpu_used=False)))["step_time_ns"]
    assert (found["value"], found["low"], found["high"], found["reason"]) == (60, 52, 68, reason)


def test_steps_of_another_tool_were_under_its_profiler() -> None:
    rows = [(b.TC, -1, i, 1000 * i, 300) for i in range(6)]
    out = analyse(b.profile(b.launches(*rows), b.devices({}), b.marks([1000 * i for i in range(6)], 900)))
    assert b.summary(out)["step_time_ns"]["reason"] == "median of 5 steps under the profiler, which slows them"


def test_one_step_is_no_median() -> None:
    found = b.summary(analyse(b.profile(b.steps((0, 0, 7, "measured")), gpu_used=False)))["step_time_ns"]
    assert (found["value"], found["reason"]) == (7, "1 of the steps that no profiler slowed")


def test_epoch_ends_are_left_out_of_a_step_and_of_its_range_and_are_said() -> None:
    # Epochs of twelve steps of 20, the last of which takes 4000 more: 49 steps, of which the last has no length.
    lengths = [(20 + 4000 * (i % 12 == 11), "warm-up" if i < 2 else "measured") for i in range(48)]
    rows = [(i, 0, length, kind) for i, (length, kind) in enumerate(lengths)]
    found = b.summary(analyse(b.profile(b.steps(*rows, (48, 0, None, "measured")), gpu_used=False)))
    step, ends = found["step_time_ns"], found["epoch_ends"]
    assert (step["value"], step["low"], step["high"]) == (20, 20, 20)
    assert step["reason"] == "median of 42 steps that no profiler slowed (4 more, at an epoch's end, left out)"
    assert ends["value"] == 4
    assert ends["reason"].startswith("among 46 steps; ")
    length = found["epoch_end_ns"]
    assert (length["value"], length["low"], length["high"]) == (4020, 4020, 4020)
    assert found["mean_step_time_ns"]["value"] == pytest.approx((42 * 20 + 4 * 4020) / 46)


def test_an_end_in_a_call_of_several_steps_is_as_long_as_the_call() -> None:
    # Calls of five steps of 20 each; the fourth of eight holds an end of 2000: 2100 for its five steps.
    rows = [(5 * i, 0, 420 if i == 3 else 20, "measured") for i in range(8)]
    found = b.summary(analyse(b.profile(b.steps(*rows, (40, 0, None, "measured")), gpu_used=False)))
    assert found["epoch_end_ns"]["value"] == 2100
    assert found["mean_step_time_ns"]["value"] == (7 * 5 * 20 + 2100) / 40


def test_ends_of_other_steps_of_the_phase_count_where_those_that_are_timed_have_none() -> None:
    # Ten steps before the window, of 20; ten within, of 30, one of which holds an end of 2000.
    rows = [(i, 0, 20, "measured") for i in range(10)]
    rows += [(i, 0, 2030 if i == 15 else 30, "profiled") for i in range(10, 20)]
    found = b.summary(analyse(b.profile(b.steps(*rows), gpu_used=False)))
    assert (found["step_time_ns"]["value"], found["epoch_ends"]["value"]) == (20, 1)
    assert found["mean_step_time_ns"]["value"] == (10 * 20 + 9 * 30 + 2030) / 20
    assert found["mean_step_time_ns"]["reason"] == "mean of 20 steps, epoch ends included"


def test_every_third_step_of_a_loop_is_a_kind_of_its_own_and_no_epochs_end() -> None:
    rows = [(i, 0, 90 if i % 3 == 2 else 20, "measured") for i in range(30)]
    found = b.summary(analyse(b.profile(b.steps(*rows), gpu_used=False)))
    assert not {"epoch_ends", "epoch_end_ns"} & set(found)
    step = found["step_time_ns"]
    assert step["value"] == 20
    assert step["reason"] == "median of 30 steps that no profiler slowed; 10 of them are of a longer kind"
    assert (found["short_step_ns"]["value"], found["long_step_ns"]["value"]) == (20, 90)
    assert found["long_step_ns"]["reason"] == "median length of 10 of 30 steps, which are of two kinds"
    assert found["mean_step_time_ns"]["value"] == pytest.approx((20 * 20 + 10 * 90) / 30)
    assert found["mean_step_time_ns"]["reason"] == "mean of 30 steps, both kinds included"


def test_a_step_that_traced_a_function_again_is_left_out_under_that_name() -> None:
    rows = [(i, 1000 * i, 900 if i == 7 else 20, "measured") for i in range(30)]
    seen = [{"name": "train.step", "at_ns": 7950}]
    found = b.summary(analyse(b.profile(b.steps(*rows), run={"retraces": seen}, gpu_used=False)))
    assert "epoch_ends" not in found
    assert found["step_time_ns"]["reason"] == (
        "median of 29 steps that no profiler slowed; 1 that traced a function again left out"
    )
    assert (found["retraces"]["value"], found["retrace_ns"]["value"]) == (1, 900)
    assert found["retraces"]["reason"] == "far longer than the others; traced again: train.step"


def test_many_steps_that_traced_a_function_again_are_a_kind_that_is_called_so() -> None:
    at = (5, 12, 17, 24, 29)
    rows = [(i, 1000 * i, 900 if i in at else 20, "measured") for i in range(36)]
    seen = [{"name": "train.step", "at_ns": 1000 * i + 10} for i in at]
    found = b.summary(analyse(b.profile(b.steps(*rows), run={"retraces": seen}, gpu_used=False)))
    assert found["step_time_ns"]["reason"] == (
        "median of 36 steps that no profiler slowed; 5 of them traced a function again"
    )
    assert (found["short_step_ns"]["value"], found["long_step_ns"]["value"]) == (20, 900)
    assert found["long_step_ns"]["reason"] == (
        "median length of 5 of 36 steps, which are of two kinds; traced again: train.step"
    )


def test_an_even_run_says_nothing_of_epochs() -> None:
    rows = [(i, 0, 20 + i % 3, "measured") for i in range(30)]
    found = b.summary(analyse(b.profile(b.steps(*rows), gpu_used=False)))
    assert not {"epoch_ends", "epoch_end_ns", "mean_step_time_ns"} & set(found)


def test_ops_that_may_not_execute_make_a_range_that_is_explained() -> None:
    sure, unsure = b.dense("a", 64, 64), b.dense("b", 64, 128, executes="unknown")
    out = analyse(b.profile(b.graph(sure, unsure), gpu_used=False, xla=True))
    found = b.summary(out)["flops_per_step"]
    one, other = 2 * 32 * 64 * 64, 2 * 32 * 64 * 128
    assert (found["value"], found["low"], found["high"]) == (None, one, one + other)
    assert found["reason"] == (
        "whether 1 of 2 matrix multiplications execute is not known (XLA compiled them, and the profile does not hold "
        "its modules): a range"
    )
    assert {row["layer"]: row["flops"] for row in b.rows(out, "layers")} == {"a": one, "b": None}
    (note,) = (n for n in out.metadata.notes if n.code == "executes-unknown")
    assert "those of layers lower bounds" in note.message


def test_what_surely_executes_needs_no_note() -> None:
    out = analyse(b.profile(b.graph(b.dense("a", 64, 64), b.dense("b", 8, 8, executes="no")), gpu_used=False))
    assert not [n for n in out.metadata.notes if n.code == "executes-unknown"]


MS = 1_000_000


def host(op: str, op_type: str, ms: float, calls: int = 4) -> dict[str, Any]:
    return {
        "op": op,
        "op_type": op_type,
        "calls": calls,
        "sum_ns": round(ms * MS),
        "min_ns": 0,
        "max_ns": round(ms * MS),
    }


OPS = (
    host("model/dense/MatMul", "MatMul", 400),
    host("IsFinite", "IsFinite", 2),
    host("All_2", "All", 2),
    host("cond/then/_0/cond/adam/Sub_2", "Sub", 12),
    host("cond/then/_0/cond/truediv", "RealDiv", 4),
    host("gan/madam/Sub", "Sub", 100),
)


def update(*scales: LossScale, ops: tuple[dict[str, Any], ...] = OPS) -> Row | None:
    metadata = Metadata("run_folder", gpu_used=False, policy=Policy("mixed_float16", "script", loss_scales=scales))
    return analyse(Profile(metadata).with_tables(table("host_ops", *ops)), Options()).figure("update_ns")


@pytest.mark.parametrize(
    ("scale", "ms", "said"),
    [
        (LossScale("dynamic", 32768.0, "adam"), 5.0, "4 ops, with a dynamic loss scale's own: the CPU's time"),
        (LossScale("fixed", 1024.0, "adam"), 3.0, "1 ops, without a dynamic loss scale: the CPU's time"),
    ],
)
def test_the_time_of_an_update_on_the_cpu(scale: LossScale, ms: float, said: str) -> None:
    found = update(scale)
    assert found is not None
    assert (found["value"], found["reason"]) == (ms * MS, said)


def test_nothing_is_told_of_updates_that_nobody_saw() -> None:
    assert update() is None
    assert update(LossScale("none")) is None
    assert update(LossScale("none", optimizer="sgd")) is None


def test_optimizers_that_scale_alike_have_one_scale() -> None:
    alike = (LossScale("fixed", 2.0, "adam"), LossScale("fixed", 2.0, "sgd"))
    assert Policy(loss_scales=alike).loss_scale == alike[0]
    assert Policy(loss_scales=(*alike, LossScale("none"))).loss_scale is None
