"""Conditions of ``--fail-if``: what may be typed, and what becomes of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.flows.conditions import exit_code, judge_comparison, judge_run, read_conditions
from tcprobe.schema.changes.comparison import Change, ComparedFigure, Comparison, Interval, Side
from tcprobe.schema.changes.condition import RELATIONS, Condition
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import SUMMARY


def profile(**figures: float | tuple[float | None, float | None, float | None]) -> Profile:
    """A run with these figures: a value, or value, low and high."""
    rows = []
    for metric, told in figures.items():
        value, low, high = told if isinstance(told, tuple) else (told, None, None)
        rows.append({"metric": metric, "value": value, "low": low, "high": high, "reason": "unsaid"})
    return Profile(Metadata("made"), {"summary": Table.from_rows(SUMMARY, rows)})


def outcome(text: str, **figures: float | tuple[float | None, float | None, float | None]) -> str:
    (verdict,) = judge_run(profile(**figures), read_conditions([text], compares=False))
    return verdict.outcome


def compared(change: Change, a: float = 100e6, b: float = 110e6) -> Comparison:
    """Two runs whose step time changed."""
    figure = ComparedFigure("step_time_ns", "ns", (Side(a), Side(b)), (change,), True)
    return Comparison(("a", "b"), (profile(step_time_ns=a), profile(step_time_ns=b)), (figure,))


def of_change(text: str, change: Change) -> str:
    (verdict,) = judge_comparison(compared(change), read_conditions([text], compares=True))
    return verdict.outcome


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("step_time>+5%", ("step_time", ">", 5.0, True, True)),
        ("  step_time_ns <= 101.5ms ", ("step_time_ns", "<=", 101.5e6, False, False)),
        ("step_time>-3 us", ("step_time", ">", -3e3, True, False)),
        ("tc_kernel_time_pct<30", ("tc_kernel_time_pct", "<", 30.0, False, False)),
        ("tc_kernel_time_pct<30%", ("tc_kernel_time_pct", "<", 30.0, False, False)),
        ("peak_memory_bytes>=30GiB", ("peak_memory_bytes", ">=", 30.0 * 2**30, False, False)),
        ("kernels!=1e3", ("kernels", "!=", 1e3, False, False)),
    ],
)
def test_what_may_be_typed(text: str, read: tuple[object, ...]) -> None:
    (one,) = read_conditions([text], compares=True)
    assert (one.metric, one.relation, one.limit, one.change, one.percent) == read


@pytest.mark.parametrize(
    "text",
    ["", "step_time", "step_time>", ">5", "step_time>5 6", "step_time=>5", "a>1e999", "a>nan", "a>inf", "a>5furlongs",
     "a>++5%", "a b>5", "step_time_ns>5GiB", "a>0x10"],
)  # fmt: skip
def test_what_may_not(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-if"):
        read_conditions([text], compares=True)


def test_a_change_needs_another_run() -> None:
    with pytest.raises(UsageError, match="asks of a change, and there is one run"):
        read_conditions(["step_time>+5%"], compares=False)


@given(st.text(max_size=40))
def test_whatever_is_typed_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        (one,) = read_conditions([text], compares=True)
        assert one.relation in RELATIONS


@given(
    metric=st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
    relation=st.sampled_from(RELATIONS),
    sign=st.sampled_from(["", "+", "-"]),
    number=st.integers(0, 10**6),
    spaces=st.sampled_from(["", " ", "  "]),
)
def test_spaces_do_not_matter(metric: str, relation: str, sign: str, number: int, spaces: str) -> None:
    (tight,) = read_conditions([f"{metric}{relation}{sign}{number}"], compares=True)
    (loose,) = read_conditions([f"{spaces}{metric}{spaces}{relation}{spaces}{sign}{number}{spaces}"], compares=True)
    assert replace(loose, text="") == replace(tight, text="")


@pytest.mark.parametrize(
    ("text", "figures", "expected"),
    [
        ("tc_kernel_time_pct<30", {"tc_kernel_time_pct": 29.0}, "met"),
        ("tc_kernel_time_pct<30", {"tc_kernel_time_pct": (28.9, 28.9, 31.2)}, "cannot tell"),
        ("tc_kernel_time_pct<30", {"tc_kernel_time_pct": (30.0, 30.0, 31.2)}, "not met"),
        ("tc_kernel_time_pct<30", {"tc_kernel_time_pct": (None, None, None)}, "cannot tell"),
        ("flops_per_step>5", {"flops_per_step": (None, 6.0, None)}, "met"),
        ("flops_per_step<5", {"flops_per_step": (None, 4.0, None)}, "cannot tell"),
        ("step_time>100ms", {"step_time_ns": 101e6}, "met"),
        ("step_time<65ms", {"step_time_ns": (58e6, 42e6, 75e6)}, "met"),  # how steps vary is no doubt of the median
        ("step_time>100ms", {"step_time_ns": 100e6}, "not met"),
        ("wall>5s", {"step_time_ns": 1.0}, "cannot tell"),
    ],
)
def test_a_range_meets_a_condition_with_all_of_it(text: str, figures: dict[str, float], expected: str) -> None:
    assert outcome(text, **figures) == expected


def test_a_typo_names_the_nearest_figure() -> None:
    with pytest.raises(UsageError) as raised:
        outcome("stepp_time>5", step_time_ns=1.0)
    assert raised.value.hint == "did you mean step_time?"


def test_a_bare_limit_of_a_time_is_refused() -> None:
    with pytest.raises(UsageError, match="100 of what"):
        outcome("step_time>100", step_time_ns=1.0)
    assert outcome("step_time_ns>100", step_time_ns=1.0) == "not met"
    assert outcome("step_time>0", step_time_ns=1.0) == "met"


def test_a_limit_in_another_unit_is_refused() -> None:
    with pytest.raises(UsageError, match="step_time_ns is not given in %"):
        outcome("step_time>5%", step_time_ns=1.0)
    with pytest.raises(UsageError, match="kernels is not given in ms"):
        outcome("kernels>5ms", kernels=1.0)


REAL = Change("slower", 10e6, 10.0, Interval(8.0, 10.0, 12.0))


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ("step_time>+5%", REAL, "met"),
        ("step_time>+15%", REAL, "not met"),
        ("step_time>+9ms", REAL, "met"),
        ("step_time<-5%", REAL, "not met"),
        ("step_time>+5%", replace(REAL, difference="within noise"), "not met"),
        ("step_time>-20%", replace(REAL, difference="within noise"), "met"),  # no gain of 20 % is there
        ("step_time>+5%", replace(REAL, difference="cannot tell", why="few steps"), "cannot tell"),
        ("step_time>+5%", Change("not known"), "cannot tell"),
        ("step_time>109ms", REAL, "met"),
    ],
)
def test_a_change_meets_a_condition_where_noise_does_not_explain_it(text: str, change: Change, expected: str) -> None:
    assert of_change(text, change) == expected


def test_one_that_is_met_fails_and_one_that_cannot_be_told_could_not() -> None:
    def code(*texts: str) -> int:
        run = profile(step_time_ns=10.0, idle_pct=(None, None, None))
        return exit_code(judge_run(run, read_conditions(texts, compares=False)))

    assert code() == 0
    assert code("step_time>10ns") == 0
    assert code("step_time>10ns", "idle_pct>1") == 2
    assert code("idle_pct>1", "step_time>=10ns") == 1


def test_every_run_but_the_first_is_held_against_a_condition() -> None:
    figure = ComparedFigure("kernels", "count", (Side(1.0), Side(2.0), Side(3.0)), (Change("more"), Change("more")))
    three = Comparison(("a", "b", "c"), (profile(kernels=1.0),) * 3, (figure,))
    verdicts = judge_comparison(three, read_conditions(["kernels>2"], compares=True))
    assert [(v.run, v.outcome) for v in verdicts] == [(1, "not met"), (2, "met")]
    assert all(isinstance(v.condition, Condition) for v in verdicts)
