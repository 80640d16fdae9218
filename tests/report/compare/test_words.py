"""The answer in sentences, changes as text, and what a table says of what is not known."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.flows.conditions import judge_comparison, parse_conditions
from tcprobe.report.compare.document import against
from tcprobe.report.compare.words import (
    answer,
    change_text,
    letters,
    outcome,
    signed,
    signed_percent,
    span,
    time_change,
)
from tcprobe.schema.comparison import Change, Comparison, Interval, Side
from tcprobe.visible import visible
from tests.report.builders import rendered
from tests.report.compare.builders import MS, document, faster, figure, with_step

AB = ("A", "B")


def test_a_real_change() -> None:
    assert answer(faster(), AB) == [
        "B takes 62.0 ms a step, 38 % less than A with 100 ms (95 %: 36 to 40 % less), "
        "from 120 steps of A and 118 of B."
    ]


def test_a_change_under_the_profiler_says_so() -> None:
    change = Change("slower", 3 * MS, 3.0, Interval(1.0, 3.0, 5.04, (20, 30), "under the profiler"))
    assert answer(with_step(faster(), change, 103 * MS), AB) == [
        "B takes 103 ms a step, 3.0 % more than A with 100 ms (95 %: 1.0 to 5.0 % more), "
        "from 20 steps of A and 30 of B, all under the profiler, which slows them."
    ]


def test_noise() -> None:
    change = Change("within noise", 0.5 * MS, 0.5, Interval(-1.2, 0.5, 2.1, (20, 30)))
    assert answer(with_step(faster(), change, 100.5 * MS), AB) == [
        "B takes 100 ms a step and A 100 ms: the difference is within noise (95 %: 1.2 % less to 2.1 % more), "
        "from 20 steps of A and 30 of B."
    ]


def test_too_few_steps_say_how_many_and_what_to_do() -> None:
    change = Change("cannot tell", -38 * MS, -38.0, why="few steps", steps=(3, 1))
    assert answer(with_step(faster(), change), AB) == [
        "B takes 62.0 ms a step and A 100 ms; cannot tell whether that is noise: of A the length of 3 steps is "
        "known and of B of 1 step, and at least 8 of each are needed.",
        "Run each for more steps, and compare again.",
    ]


def test_no_step_is_known_of_one() -> None:
    made = with_step(faster(), Change("not known", why="no steps"), None)
    assert answer(made, AB) == [
        "Cannot tell whether B takes shorter steps than A: no length of a step is known of B.",
        "Kernels take 90.0 ms of A and 51.0 ms of B, 43 % less, in a step.",
    ]
    whole = answer(replace(made, per_step=False), AB)
    assert whole[1].endswith("in the whole capture, which may hold other work.")


def test_other_work_speaks_of_throughput() -> None:
    flops = figure("flops_per_step", "count", 1e9, 2e9, Change("more", 1e9, 100.0))
    speed = Change("more", 250.0, 50.0, Interval(40.0, 50.0, 60.0, (20, 20)))
    more = (flops, figure("throughput", "img/s", 500.0, 750.0, speed))
    made = replace(faster(), figures=(*faster().figures, *more))
    assert answer(made, AB)[0] == (
        "A step of B does other work; its throughput is 750 img/s and that of A 500 img/s: 50 % more "
        "(95 %: 40 to 60 % more)."
    )
    assert answer(made, AB)[1].startswith("B takes 62.0 ms a step, 38 % less than A")


@pytest.mark.parametrize(
    ("flops", "said"),
    [  # a step of B takes 62.0 % of A's (59.8 to 64.1 %)
        (2e9, "+100 % FLOPs); of these B does 223 % more in a second than A (95 %: 212 to 234 % more)."),
        (0.5e9, "-50 % FLOPs); of these B does 19 % less in a second than A (95 %: 16 to 22 % less)."),
        (0.62e9, "-38 % FLOPs); in a second as many as A within noise (95 %: 3.3 % less to 3.7 % more)."),
    ],
)
def test_other_work_without_throughput_speaks_of_flops(flops: float, said: str) -> None:
    work = figure("flops_per_step", "count", 1e9, flops, Change("more", flops - 1e9, (flops - 1e9) / 1e7))
    others = [one for one in faster().figures if one.metric != "throughput"]
    made = replace(faster(), figures=(*others, work))
    assert answer(made, AB)[0] == f"A step of B does other work ({said}"


def test_runs_without_a_gpu_say_nothing_of_one() -> None:
    runs = tuple(replace(one, metadata=replace(one.metadata, gpu_used=False)) for one in faster().profiles)
    made = replace(faster(), profiles=runs)
    assert answer(made, AB)[-1] == "No GPU ran in these runs: of one, and of a precision on one, this says nothing."
    assert len(answer(replace(made, profiles=(runs[0], faster().profiles[1])), AB)) == 1


def test_what_is_not_known_is_not_called_the_same() -> None:
    unknown = tuple(replace(row, sides=(None, 1.0), changes=(None,)) for row in faster().layers)
    text = rendered("text", document(replace(faster(), layers=unknown, kernels=())))
    assert "are the same" not in text
    same = tuple(replace(row, sides=(1.0, 1.0), changes=(0.0,)) for row in faster().layers)
    assert "The times of layers are the same." in rendered("text", document(replace(faster(), layers=same)))


def test_a_bound_is_said_as_one_on_the_screen_and_in_the_table() -> None:
    """`high` alone: what is recomputed is not told, so that MFU is HFU at most."""
    mfu = figure("mfu_pct", "pct", Side(None, None, 2.9, "why"), Side(None, None, 2.4, "why"), Change("cannot tell"))
    share = figure("tc_kernel_time_pct", "pct", Side(None, 0.0, 0.4), Side(None, 66.0, 68.0), Change("more"))
    text = rendered("text", document(replace(faster(), figures=(mfu, share))))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert [line for line in lines if line.startswith("MFU")][:2] == [
        "MFU, model FLOPs utilisation at most 2.9 % at most 2.4 % cannot tell",
        "MFU, model FLOPs utilisation at most 2.9 % at most 2.4 % cannot tell",
    ]
    assert "TC share of kernel time 0.0-0.4 % 66.0-68.0 % more" in lines
    assert "(not known of" not in text


def test_rows_that_did_not_change_are_counted() -> None:
    text = rendered("text", document(faster()))
    assert "Layers that changed most (2 of 2, 1 did not change, 1 not known of each run;" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(38.2, "+38 %"), (-1.24, "-1.2 %"), (0.05, "+0.05 %"), (-0.004, "-0.004 %"), (0.0, "0 %"), (-100.0, "-100 %"),
     (-99.7, "-99.7 %"), (-99.99, "<-99.9 %"), (1094.3, "+1,094 %"), (9.97, "+10 %")],
)  # fmt: skip
def test_percentages(value: float, text: str) -> None:
    assert signed_percent(value) == text


def test_amounts() -> None:
    assert signed("step_time_ns", -38.6 * MS) == "-38.6 ms"
    assert signed("gpu_busy_pct", 1.7) == "+1.7 points"
    assert signed("peak_memory_bytes", 2.0**30) == "+1.00 GiB"
    assert signed("kernels", -3.0) == "-3"
    assert time_change(0.0, 3 * MS, 3 * MS) == "+3.00 ms (new)"
    assert time_change(3 * MS, 0.0, -3 * MS) == "-3.00 ms (gone)"
    assert time_change(None, 3 * MS, None) == "-"
    assert change_text("kernels", Change("cannot tell", why="ranges overlap")) == "cannot tell: the ranges overlap"
    assert change_text("tc_kernel_time_pct", Change("more")) == "more"


def test_intervals() -> None:
    assert span(Interval(-40.2, -38.0, -35.9)) == "36 to 40 % less"
    assert span(Interval(12.0, 13.0, 15.0)) == "12 to 15 % more"
    assert span(Interval(-1.2, 0.0, 2.1)) == "1.2 % less to 2.1 % more"


def test_many_runs_have_letters() -> None:
    assert letters(3) == ("A", "B", "C")
    assert letters(28)[25:] == ("Z", "AA", "AB")
    assert len(set(letters(800))) == 800


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step_time>+5%", "step_time>+5%: not met: after: -38 % (95 %: -40 % to -36 %)"),
        ("step_time<-30ms", "step_time<-30ms: met: after: -38.0 ms (95 %: -40.2 ms to -35.9 ms)"),
        ("step_time>50ms", "step_time>50ms: met: after: 62.0 ms"),
        ("tc_kernel_time>+40pp", "tc_kernel_time>+40pp: cannot tell: after: +37 points to +45 points; "
         "part of the range meets it, and part does not"),
        ("peak_memory>1GiB", "peak_memory>1GiB: cannot tell: after: the run does not record it"),
        ("idle_ns>+1ms", "idle_ns>+1ms: cannot tell: after: the figures are not of the same kind of steps"),
    ],
)  # fmt: skip
def test_what_became_of_a_condition(text: str, said: str) -> None:
    comparison = faster()
    (verdict,) = judge_comparison(parse_conditions([text], True), comparison)
    assert outcome(verdict, comparison.names) == said


def test_a_figure_just_beside_the_limit_has_its_digits() -> None:
    busy = figure("gpu_busy_pct", "pct", 91.0, 59.97273, Change("less", -31.0, -34.0))
    (verdict,) = judge_comparison(parse_conditions(["gpu_busy<60%"], True), replace(faster(), figures=(busy,)))
    assert outcome(verdict, ("a", "b")) == "gpu_busy<60%: met: b: 59.97273 %"


def test_a_rate_of_flops_is_none_of_bytes() -> None:
    rate = figure("achieved_tflop_per_s", "tflop_per_s", 250.0, 288.7, Change("more", 38.7, 15.5))
    judged = judge_comparison(
        parse_conditions(["achieved<900", "achieved>+9"], True), replace(faster(), figures=(rate,))
    )
    assert [outcome(verdict, ("a", "b")) for verdict in judged] == [
        "achieved<900: met: b: 288.7", "achieved>+9: met: b: +38.7",
    ]  # fmt: skip


def test_against_another_run() -> None:
    added = against(faster(), (), None)
    assert list(added.data) == ["against"]
    assert {table.name for table in added.tables} >= {"against_figures", "against_layers"}
    text = str(added.blocks[0])
    assert "Against before: this run takes 62.0 ms a step, 38 % less than the other run with 100 ms" in text


HOSTILE = "<b>|`x`[a](http://e.x)\x1b[31m\u202e\n::error::@you *y* $z$"


def hostile() -> Comparison:
    made = faster()
    kernels = tuple(replace(row, name=HOSTILE) for row in made.kernels)
    renamed = tuple(replace(one, op=HOSTILE, before=(HOSTILE,)) for one in made.renamed)
    losses = tuple(replace(one, name=HOSTILE) for one in made.losses)
    return replace(
        made,
        names=(HOSTILE, "b"),
        kernels=kernels,
        renamed=renamed,
        losses=losses,
        settings=((HOSTILE, (HOSTILE, "")),),
    )


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_hostile_names_steer_nothing(format_: str) -> None:
    text = rendered(format_, document(hostile()))
    assert not {"\x1b", "\u202e"} & set(text)
    assert not any(line.startswith("::error") for line in text.splitlines())
    if format_ == "markdown":
        screen, rest = re.split(r"^(?:`{3,})$", text, maxsplit=1, flags=re.MULTILINE)  # the fence has it as it is
        assert "<b>" not in rest and screen.startswith("# Comparison of runs\n\n```")
        assert "http://" not in rest
        assert "@you" not in rest
        tables = [line for line in rest.splitlines() if line.startswith("| ")]
        assert {line.replace("\\|", "").count("|") for line in tables} <= set(range(3, 12))


@given(st.text(max_size=30), st.floats(-1e20, 1e20), st.floats(0, 1e20))
def test_any_name_and_any_amount_render(name: str, delta: float, first: float) -> None:
    made = faster()
    row = replace(made.kernels[0], name=name, sides=(first, first + delta), changes=(delta,))
    text = rendered("text", document(replace(made, kernels=(row,)), by=("kernel",)), 80)
    assert all(visible(line) == line for line in text.splitlines())
    assert "nan" not in text.replace(name, "")
