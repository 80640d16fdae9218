"""The first lines: never more than was measured."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.analysis import Options, analyse
from tcprobe.report.run import headline
from tcprobe.report.run.words import summed
from tcprobe.schema.profile import Metadata, Note, Profile, Window
from tcprobe.schema.waits import StepLength, Tuning, Waiting
from tests.report.builders import (
    cpu_profile,
    figure,
    gpu_profile,
    phases_profile,
    several_gpus,
    summary_only,
    table,
    texts,
)


def with_share(**figures: object) -> Profile:
    return gpu_profile().with_tables(table("summary", figure("tc_kernel_time_pct", **figures)))  # type: ignore[arg-type]


def test_a_range_is_said_to_be_one() -> None:
    first, second = headline.answer(gpu_profile())
    assert first == (
        "Kernels that use Tensor Cores took 30.0-38.0 % of the kernel time"
        " (by kernel names; 92.0 % of it is of known class)."
    )
    assert "range" in second


def test_equal_ends_are_one_figure() -> None:
    assert headline.answer(with_share(value=33.9, low=33.9, high=33.9, basis="name")) == [
        "Kernels that use Tensor Cores took 33.9 % of the kernel time (by kernel names)."
    ]


@pytest.mark.parametrize(("low", "said"), [(100.0, True), (99.9, False), (None, False)])
def test_that_all_capable_ops_use_tensor_cores_is_said_where_it_is_certain(low: float | None, said: bool) -> None:
    figures = [
        figure("tc_kernel_time_pct", 61.7, basis="name"),
        figure("tc_capable_time_pct", low, low=low, high=100.0, basis="name"),
        figure("capable_time_pct", 58.7, basis="name"),
    ]
    lines = headline.answer(gpu_profile().with_tables(table("summary", *figures)))
    line = "The ops that can use them do: all of their kernel time, which is 58.7 % of all, is on Tensor Cores."
    assert (line in lines) is said


def test_a_lower_bound_is_shown() -> None:
    summary = table("summary", figure("flops_per_step", low=2e9, basis="graph"))
    found = headline.figures(summary_only().with_tables(summary), first=False)
    assert found is not None
    assert [str(row[1]) for row in found.cells] == ["at least 2.00 GFLOP"]


def test_zero_measured_is_zero() -> None:
    assert headline.answer(with_share(value=0.0, low=0.0, high=0.0))[0].endswith("took 0.0 % of the kernel time.")


def test_not_measured_gives_the_reason_and_no_figure() -> None:
    why = "not applicable: Tesla P100 has no Tensor Cores."
    lines = headline.answer(with_share(reason=why, reason_kind="no_tensor_cores"))
    assert lines == ["Tensor Core use: not applicable: Tesla P100 has no Tensor Cores."]


def test_a_cpu_run_says_so_and_what_a_gpu_could_do() -> None:
    # 158,054,400 of 158,054,400 + 41,945,600 FLOPs run as they are; the pruned op counts for neither.
    assert headline.answer(cpu_profile()) == [
        "No GPU: Tensor Core use was not measured.",
        "On a100-sxm-40, 79.0 % of the FLOPs of a step's GEMM-like ops could use Tensor Cores as they are.",
    ]


def test_without_any_summary_the_reason_is_that_of_the_missing_table() -> None:
    bare = Profile(summary_only().metadata).with_absent(kernels="the file holds no kernels")
    assert headline.answer(bare) == ["Tensor Core use was not measured: the file holds no kernels."]


def test_where_nobody_knows_of_a_gpu_none_is_denied() -> None:
    unknown = Profile(Metadata("run_folder", ("run",), gpu_used=None))
    profile = analyse(unknown, Options())
    (line,) = headline.answer(profile)
    assert line.startswith("No kernel was recorded, and whether a GPU was used is unknown")
    assert not any("no GPU" in str(row["reason"]) for row in profile.require("summary").rows())


@pytest.mark.parametrize(
    ("recorded", "target", "said"),
    [
        (None, "a100-sxm-40", "a100-sxm-40 (the default: --target-gpu chooses)"),
        ("a100-sxm-40", "a100-sxm-40", "a100-sxm-40 (--target-gpu chooses)"),
        (None, "t4", "t4 (--target-gpu chooses)"),
    ],
)
def test_a_target_that_nobody_chose_is_called_the_default(recorded: str | None, target: str, said: str) -> None:
    profile = cpu_profile().with_metadata(target_gpu=target, run={"target_gpu": recorded})
    assert dict(headline.facts(profile))["judged for"] == said


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (Metadata("run_folder", framework="tensorflow 2.4.1", host="vm"), None),
        (Metadata("xplane", profiler="TensorFlow's profiler (XSpace)", framework="tensorflow 2.21.0", host="vm"),
         "TensorFlow's profiler (XSpace), TensorFlow 2.21.0, on vm"),
        (Metadata("dlprof_csv", profiler="DLProf 1.8.0", framework="pytorch 1.10"),
         "DLProf 1.8.0, CSV reports, PyTorch 1.10"),
        (Metadata("run_folder"), None),
    ],
)  # fmt: skip
def test_what_recorded_a_profile_is_said_plainly(metadata: Metadata, said: str | None) -> None:
    assert dict(headline.facts(Profile(metadata))).get("recorded by") == said


def test_a_logged_throughput_rests_on_the_log() -> None:
    rows = [figure(name, 2.0, basis="reported") for name in ("throughput", "gpu_busy_pct")]
    profile = gpu_profile().with_tables(table("summary", *rows))
    sections = (headline.figures(profile, first) for first in (True, False))
    cells = {row[0]: row[2] for section in sections if section for row in texts(section)}
    assert cells == {"GPU busy": "the profiler's own report", "throughput": "the workload's log"}


def test_the_median_of_a_step_is_always_said() -> None:
    ms = 1_000_000
    step = figure("step_time_ns", 4.121 * ms, low=4.119 * ms, high=4.131 * ms, basis="measured")
    section = headline.figures(gpu_profile().with_tables(table("summary", step)), first=True)
    assert section is not None
    assert texts(section)[0][:2] == ("step time", "4.12 ms (4.12 ms to 4.13 ms)")


@given(st.integers(0, 50), st.integers(1, 12), st.integers(1, 7), st.data())
def test_the_numbers_of_the_window_are_those_of_its_table(
    start: int, calls: int, each: int, data: st.DataObject
) -> None:
    low = data.draw(st.integers(0, calls - 1))
    high = data.draw(st.integers(low, calls - 1))
    numbers = [start + each * i for i in range(calls)]
    rows = [{"iteration": n, "in_window": low <= i <= high, "steps": each} for i, n in enumerate(numbers)]
    window = Window(numbers[low], numbers[high], None, None, "given")
    profile = Profile(Metadata("xplane", window=window)).with_tables(table("iterations", *rows))
    first, *between, counted, whole = map(int, re.findall(r"\d+", dict(headline.facts(profile))["window"]))
    last = between[0] if between else first
    assert (first, last - first + 1) == (numbers[low], counted)
    assert (counted, whole) == (profile.marked_steps, each * calls)


def test_the_phase_is_said_where_a_run_has_several() -> None:
    profile = phases_profile()
    assert dict(headline.facts(profile))["window"].startswith("phase 2 of 3, iterations 45 to 54 (profiled by")
    assert "All figures are of phase 2 of 3 of the run, steps 40 to 99." in headline.answer(profile)
    one = profile.with_tables(profile.require("phases").take(np.array([1])))
    assert "phase" not in dict(headline.facts(one))["window"]
    assert not any("phase" in line for line in headline.answer(one))


def test_idle_gpus_are_counted() -> None:
    assert ": 2 active (0, 2), 2 idle (1, 3)" in dict(headline.facts(several_gpus()))["GPU"]


def test_a_foreign_gpu_is_named_as_one() -> None:
    row = {"device": 0, "name": "MI300X", "vendor": "AMD", "tensor_cores": "no", "state": "active"}
    facts = dict(headline.facts(gpu_profile().with_tables(table("devices", row))))
    assert facts["GPU"] == "MI300X, not an NVIDIA GPU"
    unnamed = dict(headline.facts(gpu_profile().with_tables(table("devices", {**row, "name": None}))))
    assert unnamed["GPU"] == "AMD GPU of unknown name, not an NVIDIA GPU"


def test_a_partial_run_is_marked() -> None:
    assert "PARTIAL" in dict(headline.facts(gpu_profile(partial=True)))["profile"]


@pytest.mark.parametrize("xla", [None, True, False])
def test_unknown_settings_are_left_out(xla: bool | None) -> None:
    facts = dict(headline.facts(gpu_profile(precision=None, xla=xla, command=())))
    assert "command" not in facts
    assert facts.get("precision") == {None: None, True: "XLA on", False: "XLA off"}[xla]


def test_figures_say_what_they_rest_on_and_why_they_are_missing() -> None:
    section, rest = (headline.figures(gpu_profile(), first) for first in (True, False))
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
    section = headline.figures(gpu_profile().with_tables(table("summary", *rows)), first=True)
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
    section = headline.figures(gpu_profile().with_tables(table("summary", figure(metric, 1.0))), first=False)
    assert section is not None
    assert texts(section)[0][0] == label


def test_notes_stand_with_the_worst_first_and_once() -> None:
    loss, hint, gap = Note("a", "a", level="warning"), Note("b", "b", level="note"), Note("c", "c", level="error")
    profile = gpu_profile()
    noted = replace(profile, metadata=replace(profile.metadata, notes=(hint, loss, gap, loss)))
    assert [n.code for n in headline.sorted_notes(noted)] == ["c", "a", "b"]


@pytest.mark.parametrize(("steps", "said"), [(1, "The counted step holds"), (2, "The counted steps hold")])
def test_autotuning_is_no_training_step(steps: int, said: str) -> None:
    tuned = replace(gpu_profile(), tuning=Tuning(2, 90, 5e6, 97.03, "conv", 58))
    table = tuned.require("iterations")
    counted = np.arange(len(table)) < steps
    tuned = tuned.with_tables(table.with_columns(in_window=counted))
    line = headline.answer(tuned)[-1]
    whose = "its" if steps == 1 else "their"
    assert line == (
        f"{said} autotuning: 97.0 % of {whose} kernel time; the figures are not those of a training step. "
        "Profile a later step."
    )
    assert summed(tuned).endswith("with autotuning")


def test_autotuning_in_a_capture_without_steps() -> None:
    tuned = replace(gpu_profile(window=Window()), tuning=Tuning(2, 90, 5e6, 50.0, "conv", 58))
    assert headline.answer(tuned)[-1].startswith("The capture holds autotuning: 50.0 % of its kernel time;")
    assert summed(tuned) == ""


@pytest.mark.parametrize(
    ("window_ns", "step_ns", "length", "said"),
    [
        (300e6, 55e6, "between steps", "; 300 ms, a step of 55.0 ms"),
        (55e6, 55e6, "marked step", "; a step of 55.0 ms"),
        (300e6, None, "capture", "; 300 ms, no step is known"),
        (None, None, None, ""),
    ],
)
def test_the_window_says_how_long_it_and_a_step_are(
    window_ns: float | None, step_ns: float | None, length: StepLength | None, said: str
) -> None:
    rows = table("summary", figure("window_ns", window_ns), figure("step_time_ns", step_ns))
    waiting = Waiting(1.0, length, 0.5, 0.5) if length else None
    found = dict(headline.facts(replace(gpu_profile(), waiting=waiting).with_tables(rows)))
    assert found["window"] == f"iterations 2 to 3 (detected): 2 of 4 steps counted{said}"


def test_the_window_ends_with_the_last_step_of_its_last_call() -> None:
    """Calls of 5 steps begin at 2 and 3: the last of them ends with step 7."""
    profile = gpu_profile()
    calls = profile.require("iterations").with_columns(steps=np.array([5, 5, 5, 5]))
    found = dict(headline.facts(profile.with_tables(calls)))
    assert found["window"].startswith("steps 2 to 7 (detected): 10 of 20 steps counted")


@pytest.mark.parametrize(
    ("busy", "length", "said"),
    [
        (0.07, "marked step", ["The GPU was busy for 0.07 % of the step: it waited 99.9 ms of 100 ms."]),
        (20.0, "capture", ["The GPU was busy for 20.0 % of the time captured: it waited 80.0 ms of 100 ms."]),
        (51.0, "between steps", []),
    ],
)
def test_a_gpu_that_mostly_waits_is_said_to(busy: float, length: StepLength, said: list[str]) -> None:
    waiting = Waiting(100e6, length, busy * 1e6, (100 - busy) * 1e6)
    assert headline.answer(replace(gpu_profile(), waiting=waiting))[2:] == said
    unmeasured = replace(with_share(reason="not an NVIDIA GPU", reason_kind="not_nvidia"), waiting=waiting)
    assert headline.answer(unmeasured)[1:] == said
