"""The figures of a report: never more than was measured."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.report.run import figures
from tcprobe.schema.profile import Note
from tests.report.builders import figure, gpu_profile, summary_only, table, texts


def test_a_lower_bound_is_shown() -> None:
    summary = table("summary", figure("flops_per_step", low=2e9, basis="graph"))
    found = figures.figures(summary_only().with_tables(summary), first=False)
    assert found is not None
    assert [str(row[1]) for row in found.cells] == ["at least 2.00 GFLOP"]


def test_a_logged_throughput_rests_on_the_log() -> None:
    rows = [figure(name, 2.0, basis="reported") for name in ("throughput", "gpu_busy_pct")]
    profile = gpu_profile().with_tables(table("summary", *rows))
    sections = (figures.figures(profile, first) for first in (True, False))
    cells = {row[0]: row[2] for section in sections if section for row in texts(section)}
    assert cells == {"GPU busy": "the profiler's own report", "throughput": "the workload's log"}


def test_a_logged_throughput_has_the_unit_that_the_log_has() -> None:
    row = {"value": 120.5, "low": None, "high": None, "text": "img/s"}
    assert figures.value_text("throughput", row) == f"{figures.value_text('throughput', {**row, 'text': None})} img/s"


def test_the_median_of_a_step_is_always_said() -> None:
    ms = 1_000_000
    step = figure("step_time_ns", 4.121 * ms, low=4.119 * ms, high=4.131 * ms, basis="measured")
    section = figures.figures(gpu_profile().with_tables(table("summary", step)), first=True)
    assert section is not None
    assert texts(section)[0][:2] == ("step time", "4.12 ms (4.12 ms to 4.13 ms)")


def test_figures_say_what_they_rest_on_and_why_they_are_missing() -> None:
    section, rest = (figures.figures(gpu_profile(), first) for first in (True, False))
    assert section is not None
    assert rest is not None
    rows = {row[0]: row[1:] for row in texts(section)}
    assert rows["step time"] == ("55.0 ms", "measurement", "steps inside the profiled window")
    assert texts(rest) == (("gpu", "NVIDIA A100-SXM4-40GB", "", ""),)
    assert rest.notes == ("(not measured: TC pipe active: needs hardware counters)",)


def test_the_reason_of_the_headline_is_given_once() -> None:
    why = "not applicable: Tesla P100 has no Tensor Cores"
    rows = (
        figure("tc_kernel_time_pct", reason=why, reason_kind="no_tensor_cores"),
        figure("coverage_pct", reason=why, reason_kind="no_tensor_cores"),
        figure("peak_pct", reason="x"),
    )
    section = figures.figures(gpu_profile().with_tables(table("summary", *rows)), first=True)
    assert section is not None
    assert section.notes == ("(not measured: share of the GPU's peak: x)",)
    assert texts(section) == ()


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("precision_fp16_time_pct", "kernel time in fp16"),
        ("precision_unknown_time_pct", "kernel time of unknown precision"),
        ("tc_something_new_pct", "TC something new"),
        ("flops_per_step", "FLOP in a step"),
    ],
)
def test_every_figure_has_words(metric: str, label: str) -> None:
    section = figures.figures(gpu_profile().with_tables(table("summary", figure(metric, 1.0))), first=False)
    assert section is not None
    assert texts(section)[0][0] == label


def test_notes_stand_with_the_worst_first_and_once() -> None:
    loss, hint, gap = Note("a", "a", level="warning"), Note("b", "b", level="note"), Note("c", "c", level="error")
    profile = gpu_profile()
    noted = replace(profile, metadata=replace(profile.metadata, notes=(hint, loss, gap, loss)))
    assert [n.code for n in figures.sorted_notes(noted)] == ["c", "a", "b"]
