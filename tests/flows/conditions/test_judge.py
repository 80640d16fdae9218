"""Hold runs against conditions: ranges, noise, what is not known, and the exit code."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.flows.conditions import exit_code, judge_comparison, judge_run, parse_conditions
from tcprobe.schema.comparison import (
    COMPARED,
    Change,
    ComparedFigure,
    Comparison,
    DifferenceKind,
    Interval,
    Loss,
    Side,
    Verdict,
)
from tcprobe.schema.profile import Metadata, Profile
from tests.analysis.compare.builders import AFTER, BEFORE, pair, run, timed
from tests.report.builders import figure as row
from tests.report.builders import table

MS = 1e6


def profile(*rows: dict[str, Any]) -> Profile:
    return Profile(Metadata("xplane")).with_tables(table("summary", *rows))


def held(text: str, *rows: dict[str, Any]) -> Verdict:
    (found,) = judge_run(parse_conditions([text], False), profile(*rows))
    return found


def figure(metric: str, first: Side, other: Side, change: Change) -> Comparison:
    made = ComparedFigure(metric, COMPARED[metric], (first, other), (change,))
    return Comparison(("a", "b"), (profile(), profile()), (made,))


def step(difference: DifferenceKind, pct: float, low: float, high: float) -> Comparison:
    """A step of 100 ms and another that is `pct` longer."""
    change = Change(difference, pct * MS, pct, Interval(low, pct, high, (20, 20)))
    return figure("step_time_ns", Side(100 * MS), Side((100 + pct) * MS), change)


def changed(text: str, comparison: Comparison) -> Verdict:
    (found,) = judge_comparison(parse_conditions([text], True), comparison)
    return found


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("tc_kernel_time_pct<30", "not met"),  # 30 to 38: none of it is below
        ("tc_kernel_time_pct<=30", "cannot tell"),  # its low end alone
        ("tc_kernel_time_pct<35", "cannot tell"),
        ("tc_kernel_time_pct<40", "met"),
        ("tc_kernel_time_pct>30", "cannot tell"),
        ("tc_kernel_time_pct>29", "met"),
        ("tc_kernel_time_pct>38", "not met"),
        ("tc_kernel_time_pct==35", "cannot tell"),
        ("tc_kernel_time_pct==39", "not met"),
        ("tc_kernel_time_pct!=39", "met"),
        ("tc_kernel_time_pct!=35", "cannot tell"),
    ],
)
def test_a_range_is_met_only_as_a_whole(text: str, outcome: str) -> None:
    found = held(text, row("tc_kernel_time_pct", 30.0, low=30.0, high=38.0))
    assert (found.outcome, found.low, found.high, found.run) == (outcome, 30.0, 38.0, 0)


def test_the_spread_of_steps_is_no_range() -> None:
    steps = row("step_time_ns", 50 * MS, low=40 * MS, high=70 * MS)
    assert held("step_time>60ms", steps).outcome == "not met"
    assert held("step_time<60ms", steps).outcome == "met"
    changing = row("flops_per_step", 5e9, low=1e9, high=9e9)  # the mean of steps whose shapes change
    assert held("flops_per_step>4e9", changing).outcome == "met"
    assert held("flops_per_step>6e9", changing).outcome == "not met"


def test_a_lower_bound_can_meet_one_direction_alone() -> None:
    bound = row("flops_per_step", None, low=5e9)
    assert held("flops_per_step>4e9", bound).outcome == "met"
    assert held("flops_per_step<4e9", bound).outcome == "not met"
    assert held("flops_per_step<6e9", bound).outcome == "cannot tell"


def test_a_missing_figure_cannot_be_told_with_its_reason() -> None:
    found = held("step_time>1ms", row("step_time_ns", None, reason="no step is marked"))
    assert (found.outcome, found.why, found.value) == ("cannot tell", "no step is marked", None)
    assert held("kernels>1").outcome == "cannot tell"


def test_a_precision_that_does_not_occur_is_zero_where_others_do() -> None:
    assert held("precision_fp64_time>0", row("precision_fp32_time_pct", 100.0)).outcome == "not met"
    assert held("precision_fp64_time>0").outcome == "cannot tell"


@pytest.mark.parametrize(
    ("text", "comparison", "outcome"),
    [
        ("step_time>+5%", step("slower", 6.0, 1.0, 11.0), "met"),  # likely beyond the limit, and a real change
        ("step_time>+5%", step("slower", 4.0, 1.0, 7.0), "not met"),
        ("step_time>+5ms", step("slower", 6.0, 1.0, 11.0), "met"),
        ("step_time>+7ms", step("slower", 6.0, 1.0, 11.0), "not met"),
        ("step_time>+5%", step("within noise", 6.0, -1.0, 13.0), "not met"),
        ("step_time<-5%", step("within noise", -6.0, -13.0, 1.0), "not met"),
        ("step_time<-5%", step("faster", -6.0, -8.0, -4.0), "met"),
        ("step_time>-10%", step("within noise", -2.0, -5.0, 1.0), "met"),  # no change at all would not do either
        ("step_time>-10%", step("faster", -12.0, -15.0, -9.0), "not met"),
        ("step_time>-10%", step("faster", -6.0, -8.0, -4.0), "met"),
    ],
)
def test_noise_of_steps_meets_nothing(text: str, comparison: Comparison, outcome: str) -> None:
    assert changed(text, comparison).outcome == outcome


def test_the_interval_is_in_the_unit_of_the_limit() -> None:
    found = changed("step_time>+7ms", step("slower", 6.0, 1.0, 11.0))
    assert (found.value, found.low, found.high) == (6 * MS, 1 * MS, 11 * MS)
    noise = changed("step_time>+5%", step("within noise", 6.0, -1.0, 13.0))
    assert (noise.value, noise.low, noise.high, noise.why) == (6.0, -1.0, 13.0, "within noise")


def test_too_few_steps_cannot_be_told() -> None:
    change = Change("cannot tell", 50 * MS, 50.0, why="few steps", steps=(3, 20))
    found = changed("step_time>+5%", figure("step_time_ns", Side(100 * MS), Side(150 * MS), change))
    assert (found.outcome, found.why, found.value) == ("cannot tell", "few steps", 50.0)


def test_a_change_of_ranges_goes_from_the_least_to_the_most() -> None:
    # 30 to 38 against 20 to 25: from 13 / 30 to 5 / 38 less; in points -18 to -5
    sides = (Side(30.0, 30.0, 38.0), Side(20.0, 20.0, 25.0))
    made = figure("tc_kernel_time_pct", *sides, Change("less", -10.0, -33.3))
    points = changed("tc_kernel_time<-5pp", made)
    assert (points.outcome, points.low, points.high) == ("cannot tell", -18.0, -5.0)
    assert changed("tc_kernel_time<-4pp", made).outcome == "met"
    assert changed("tc_kernel_time<-20pp", made).outcome == "not met"
    percent = changed("tc_kernel_time<-15%", made)
    assert percent.outcome == "met"
    assert percent.low == pytest.approx(100 * (20 / 38 - 1))
    assert percent.high == pytest.approx(100 * (25 / 30 - 1))


def test_there_is_no_percentage_of_zero() -> None:
    made = figure("copies", Side(0.0), Side(4.0), Change("more", 4.0))
    assert changed("copies>+5%", made).why == "of zero"
    assert changed("copies>+5%", made).outcome == "cannot tell"
    assert changed("copies>+3", made).outcome == "met"
    same = figure("copies", Side(0.0), Side(0.0), Change("same", 0.0))
    assert changed("copies>+5%", same).outcome == "not met"


def test_waiting_of_a_step_is_not_held_against_that_of_a_capture() -> None:
    made = figure("idle_ns", Side(1 * MS), Side(9 * MS), Change("cannot tell", why="steps differ"))
    assert changed("idle_ns>+5%", made).outcome == "cannot tell"


def test_a_figure_that_one_run_lacks() -> None:
    made = figure("gpu_busy_pct", Side(50.0), Side(None, reason="no GPU"), Change("not known"))
    assert (changed("gpu_busy<-5%", made).outcome, changed("gpu_busy<-5%", made).why) == ("cannot tell", "no GPU")
    assert changed("gpu_busy<40%", made).outcome == "cannot tell"


def test_every_run_but_the_first_is_held_against_a_condition() -> None:
    runs = pair(run(*BEFORE), run(*AFTER), run(*BEFORE))  # kernels of a step take 500, 350 and 500 ns
    found = judge_comparison(parse_conditions(["kernel_time_ns<400"], True), runs)
    assert [(v.run, v.outcome, v.value) for v in found] == [(1, "met", 350.0), (2, "not met", 500.0)]
    (change, _) = judge_comparison(parse_conditions(["kernel_time<-29%"], True), runs)
    assert (change.outcome, change.value) == ("met", pytest.approx(-30.0))


def test_the_report_of_one_run_has_figures_that_its_summary_lacks() -> None:
    one = replace(profile(), metadata=Metadata("run_folder", run={"wall_ns": 5e9, "peak_gpu_memory_bytes": 2**30}))
    found = judge_run(parse_conditions(["wall>4s", "peak_memory>2GiB"], False), one)
    assert [v.outcome for v in found] == ["met", "not met"]


def test_a_report_against_another_run() -> None:
    lengths = [10, 11, 10, 12, 11, 10, 11, 12, 10, 11, 10, 12]
    compared = pair(timed([n * 1000 for n in lengths]), timed([n * 2000 for n in lengths]))
    conditions = parse_conditions(["step_time>+50%", "step_time>+150%", "step_time_ns>21000"], True)
    found = judge_run(conditions, compared.profiles[1], compared)
    # medians 11,000 and 22,000
    assert [v.outcome for v in found] == ["met", "not met", "met"]
    assert {v.run for v in found} == {1}
    assert found[0].value == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ((), 0),
        (("not met",), 0),
        (("not met", "cannot tell"), 2),
        (("cannot tell", "met", "not met"), 1),
    ],
)
def test_the_exit_code(outcomes: tuple[Any, ...], code: int) -> None:
    (condition,) = parse_conditions(["kernels>1"], False)
    assert exit_code([Verdict(condition, outcome, 0) for outcome in outcomes]) == code


def test_a_run_against_itself_meets_no_change() -> None:
    same = pair(run(*BEFORE), run(*BEFORE))
    texts = [f"{name}{relation}" for name in ("kernel_time", "kernels", "tc_time") for relation in (">+0%", "<-0%")]
    assert {v.outcome for v in judge_comparison(parse_conditions(texts, True), same)} == {"not met"}


def logging(*last: float | None) -> Comparison:
    """Runs of which each logged a loss last."""
    loss = Loss("gen loss", (), tuple(() for _ in last), last, (None,) * len(last))
    return Comparison(tuple("abc"[: len(last)]), tuple(profile() for _ in last), (), losses=(loss,))


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("logged.gen loss>0.4", "met"),
        ("logged.gen loss>0.5", "not met"),
        ("logged.gen loss>+20%", "met"),
        ("logged.gen loss>+30%", "not met"),
        ("logged.gen loss>+0.05", "met"),
        ("logged.loss>0", "cannot tell"),
        ("logged.loss>+1%", "cannot tell"),
    ],
)
def test_what_the_workloads_logged(text: str, outcome: str) -> None:
    assert changed(text, logging(0.4, 0.5)).outcome == outcome


@pytest.mark.parametrize(
    "text", ["logged.gen loss>0", "logged.gen loss<0", "logged.gen loss>+1%", "logged.gen loss!=1"]
)
@pytest.mark.parametrize("last", [math.nan, math.inf, None])
def test_a_loss_that_is_no_number_passes_no_gate(text: str, last: float | None) -> None:
    verdict = changed(text, logging(0.4, last))
    assert (verdict.outcome, exit_code([verdict])) == ("cannot tell", 2)
    assert verdict.why == ("the run logged no such figure" if last is None else f"the last value logged is {last}")


def test_a_run_alone_logs_too() -> None:
    row = {"name": "loss", "step": 3, "value": 0.25}
    made = profile().with_tables(table("metrics", row | {"step": 1, "value": 9.0}, row))
    verdicts = judge_run(parse_conditions(["logged.loss<0.3", "logged.acc<0.3"], False), made)
    assert [(v.outcome, v.value, v.unit) for v in verdicts] == [
        ("met", 0.25, "logged"),
        ("cannot tell", None, "logged"),
    ]
