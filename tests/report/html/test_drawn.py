"""The pictures beside the first screen: rooflines, curves, bars; worked by hand."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from tcprobe.report.compare.pictures import drawn_of
from tcprobe.report.curves import MOST_POINTS, curves_of, logged_of, thinned
from tcprobe.report.drawn import BarChart, CurveChart, Curves, Roofline, Series
from tcprobe.report.html.draw import ends, lines
from tcprobe.report.roofline import roofline_of
from tcprobe.report.sweep.pictures import curves_of_runs, speeds_of
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import Answer, Bar, BarRow, FirstScreen
from tcprobe.schema.statement import say
from tests.report.builders import MS, gpu_profile, table
from tests.report.compare.builders import faster
from tests.report.sweep.test_golden import measured

A100 = {"device": 0, "name": "NVIDIA A100-SXM4-40GB", "state": "active", "tensor_cores": "yes"}
DENSE = {"op": "dense", "op_type": "MatMul", "dtype": "float16", "tc_capable": "yes", "sum_ns": 4 * MS,
         "achieved_tflop_per_s": 31.2, "peak_pct": 10.0, "flop_per_byte": 1000.0, "tc_ns": 4 * MS}  # fmt: skip
SLOW = {"op": "conv", "op_type": "Conv2D", "dtype": "float16", "tc_capable": "yes", "sum_ns": MS,
        "achieved_tflop_per_s": 0.312, "peak_pct": 0.1, "flop_per_byte": 10.0, "tc_ns": 0, "unknown_ns": 0}  # fmt: skip


def with_ops(*rows: dict[str, object], device: dict[str, object] = A100) -> Profile:
    return gpu_profile().with_tables(table("ops", *rows), table("devices", device))  # type: ignore[arg-type]


def test_a_roofline_has_the_ops_below_the_peaks_that_they_are_held_against() -> None:
    """From 10 to 10,000 FLOP per byte, from 0.1 to 1000 TFLOP/s: an A100's 1.555 TB/s meets 312 TFLOP/s at 200.6."""
    made = roofline_of(with_ops(DENSE, SLOW))
    assert isinstance(made, Roofline)
    assert [(p.name, p.x, p.y, p.size, p.tone) for p in made.points] == [
        ("dense", 66.67, pytest.approx(62.35, abs=0.01), 1.0, "used"),
        ("conv", 0.0, pytest.approx(12.35, abs=0.01), 0.25, "off"),
    ]
    assert "31.2 TFLOP/s, 10.0 % of its peak, 1000 FLOP per byte, 4.00 ms" in made.points[0].text
    memory, *peaks = made.ceilings
    ridge = 100.0 / 3.0 * math.log10(312 / 1.555 / 10)
    assert (memory.x1, memory.x2, memory.y2) == (0.0, pytest.approx(ridge, abs=0.1), pytest.approx(87.35, abs=0.02))
    assert [one.label for one in peaks] == ["float32 on CUDA cores, 19.5 TFLOP/s", "float16, 312 TFLOP/s"]
    assert peaks[1].x1 == pytest.approx(ridge, abs=0.1) and peaks[1].y1 == peaks[1].y2
    assert [text for _, text in made.across] == ["10", "100", "1000", "10000"] and made.up[0] == (0.0, "0.1")


def test_a_roofline_that_cannot_be_drawn_says_why() -> None:
    unknown = {**DENSE, "flop_per_byte": None}
    assert roofline_of(with_ops(unknown)) == "of no op are FLOPs, bytes and time all known"
    assert roofline_of(with_ops(DENSE, device={**A100, "name": None})) == "its ceilings are unknown: so is the GPU"
    assert roofline_of(Profile(gpu_profile().metadata, absent={"ops": "kernels alone"})) == "kernels alone"


def test_curves_keep_the_ends_of_what_they_leave_out() -> None:
    points = [(step, float(step % 7)) for step in range(10 * MOST_POINTS)]
    points[1234] = (1234, 1e6)
    points[4321] = (4321, math.nan)
    shown = thinned(points)
    assert len(shown) <= MOST_POINTS and [step for step, _ in shown] == sorted({step for step, _ in shown})
    assert (1234, 1e6) in shown and any(step == 4321 for step, _ in shown)
    assert thinned(points[:MOST_POINTS]) == points[:MOST_POINTS]


def test_curves_are_of_losses_accuracies_and_throughput_in_that_order() -> None:
    names = ("throughput", "val_accuracy", "batch", "loss")
    rows = [{"step": step, "name": name, "value": float(step)} for name in names for step in (0, 1)]
    before = {"step": None, "name": "loss", "value": 9.0}
    once = {"step": 0, "name": "other_loss", "value": 9.0}
    logged = logged_of(table("metrics", before, *rows, once))  # type: ignore[arg-type]
    made = curves_of([("this run", logged)])
    assert made is not None and [chart.title for chart in made.charts] == ["loss", "val_accuracy", "throughput"]
    assert made.charts[0].series == (Series("this run", (0, 1), (0.0, 1.0), "1"),)
    assert curves_of([("this run", {"batch": [(0, 1.0), (1, 1.0)]})]) is None


def test_a_curve_begins_anew_behind_what_is_no_number() -> None:
    chart = CurveChart("loss", (Series("a", (0, 1, 2, 4), (1.0, None, 0.0, 0.5), "0.5"),))
    made = lines(chart)
    assert made.paths == ["M0,0.0M500,100.0L1000,50.0"]
    assert made.text == "0 to 1, steps 0 to 4" and made.data[0]["values"] == (1.0, None, 0.0, 0.5)


def test_what_got_faster_goes_left_and_what_got_slower_right() -> None:
    (made,) = (one for one in drawn_of(faster(), ("A", "B")) if isinstance(one, BarChart))
    assert made.middle == 50.0
    told = [(one.label, one.start, one.parts[0].pct, one.parts[0].tone, one.text) for one in made.lines]
    assert told == [
        ("generator/conv2d_3", 0.0, 50.0, "used", "-40.0 ms (-89 %)"),
        ("generator/new", 50.0, 1.25, "off", "+1.00 ms (new)"),
    ]


def test_steps_of_runs_stand_on_one_scale() -> None:
    """Where no run has a bar of its step there is no picture of them."""
    assert not [one for one in drawn_of(faster(), ("A", "B")) if isinstance(one, BarChart) and one.middle is None]
    runs = [
        Bar("step", total, (BarRow("used", total / 4, 25.0), BarRow("idle", total * 3 / 4, 75.0)))
        for total in (100.0 * MS, 50.0 * MS)
    ]
    screens = (FirstScreen(Answer("GOOD", say("busy", pct=0.0, of="step")), bar) for bar in runs)
    profiles = tuple(replace(gpu_profile(), screen=screen) for screen in screens)
    made = next(drawn_of(replace(faster(), profiles=profiles), ("A", "B")))
    assert isinstance(made, BarChart)
    told = [(line.label, line.text, [(part.tone, part.pct) for part in line.parts]) for line in made.lines]
    assert told == [
        ("A", "100 ms", [("used", 25.0), ("idle", 75.0)]),
        ("B", "50.0 ms", [("used", 12.5), ("idle", 37.5)]),
    ]
    assert made.legend == (("used", "on Tensor Cores"), ("idle", "no kernel or copy"))


def test_a_sweep_draws_speeds_with_their_intervals_and_all_curves_of_a_name_in_one_chart() -> None:
    speeds, curves = speeds_of(measured()), curves_of_runs(measured())
    assert speeds is not None and isinstance(curves, Curves)
    best = next(line for line in speeds.lines if line.parts[0].tone == "used")
    assert best.label == "mixed_float16 with sizes=good" and best.text == "2.19"
    assert sum(part.pct for part in best.parts) == pytest.approx(100.0)  # its upper end is the largest
    assert speeds.lines[0].parts[0].pct == pytest.approx(speeds.middle)  # the baseline ends where 1 stands
    assert [chart.title for chart in curves.charts] == ["d_loss", "g_loss"]
    assert [len(chart.series) for chart in curves.charts] == [4, 4]
    assert (
        None
        in next(one for one in curves.charts[1].series if "sizes=bad (run 3)" in one.label and "16" in one.label).values
    )


def test_a_long_name_keeps_both_ends() -> None:
    assert ends("short") == ("short", "")
    assert "".join(ends("k" * 40 + "<float16_kernel_of_some_library>")) == "k" * 40 + "<float16_kernel_of_some_library>"
