"""What a report is of: never more than was recorded."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.report.run import about
from tcprobe.schema.profile import Metadata, Policy, Profile, Window
from tcprobe.schema.waits import StepLength, Waiting
from tests.report.builders import (
    cpu_profile,
    figure,
    gpu_profile,
    phases_profile,
    several_gpus,
    table,
)


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
    assert dict(about.facts(profile))["judged for"] == said


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
    assert dict(about.facts(Profile(metadata))).get("recorded by") == said


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
    first, *between, counted, whole = map(int, re.findall(r"\d+", dict(about.facts(profile))["window"]))
    last = between[0] if between else first
    assert (first, last - first + 1) == (numbers[low], counted)
    assert (counted, whole) == (profile.marked_steps, each * calls)


def test_idle_gpus_are_counted() -> None:
    assert ": 2 active (0, 2), 2 idle (1, 3)" in dict(about.facts(several_gpus()))["GPU"]


def test_a_foreign_gpu_is_named_as_one() -> None:
    row = {"device": 0, "name": "MI300X", "vendor": "AMD", "tensor_cores": "no", "state": "active"}
    facts = dict(about.facts(gpu_profile().with_tables(table("devices", row))))
    assert facts["GPU"] == "MI300X, not an NVIDIA GPU"
    unnamed = dict(about.facts(gpu_profile().with_tables(table("devices", {**row, "name": None}))))
    assert unnamed["GPU"] == "AMD GPU of unknown name, not an NVIDIA GPU"


def test_a_partial_run_is_marked() -> None:
    assert "PARTIAL" in dict(about.facts(gpu_profile(partial=True)))["profile"]


@pytest.mark.parametrize("xla", [None, True, False])
def test_unknown_settings_are_left_out(xla: bool | None) -> None:
    facts = dict(about.facts(gpu_profile(precision=None, xla=xla, command=())))
    assert "command" not in facts
    assert facts.get("precision") == {None: None, True: "XLA on", False: "XLA off"}[xla]


@pytest.mark.parametrize(
    ("by", "said"), [("script", " (set by the script)"), ("environment", " (set by TF_XLA_FLAGS)"), ("tcprobe", "")]
)
def test_who_has_xla_cluster_all_functions_is_said(
    by: Literal["script", "environment", "tcprobe"] | None, said: str
) -> None:
    profile = gpu_profile(precision=None, xla=True, policy=Policy(clustered_by=by))
    assert dict(about.facts(profile))["precision"] == f"XLA on{said}"


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
    found = dict(about.facts(replace(gpu_profile(), waiting=waiting).with_tables(rows)))
    assert found["window"] == f"steps 2 to 3: 2 of 4 counted (detected){said}"


def test_the_window_ends_with_the_last_step_of_its_last_call() -> None:
    """Calls of 5 steps begin at 2 and 3: the last of them ends with step 7."""
    profile = gpu_profile()
    calls = profile.require("iterations").with_columns(steps=np.array([5, 5, 5, 5]))
    found = dict(about.facts(profile.with_tables(calls)))
    assert found["window"].startswith("steps 2 to 7: 10 of 20 counted (detected)")


def test_the_phase_is_said_where_a_run_has_several() -> None:
    profile = phases_profile()
    assert dict(about.facts(profile))["window"].startswith(
        "phase 2 of 3, steps 45 to 54: 10 of 10 counted (profiled by"
    )
    one = profile.with_tables(profile.require("phases").take(np.array([1])))
    assert "phase" not in dict(about.facts(one))["window"]


@pytest.mark.parametrize(
    ("asked", "policy", "text"),
    [
        (None, Policy("mixed_float16", "script", {"mixed_float16": 4}), "mixed_float16, set by the script"),
        ("mixed_float16", Policy("mixed_float16", "tcprobe", {"mixed_float16": 4}), "mixed_float16"),
        ("mixed_float16", Policy("mixed_float16", "script"), "mixed_float16"),  # a packaged workload's own option
        ("tf32", Policy("mixed_float16", "script"), "mixed_float16, set by the script (tf32 was asked for)"),
        ("mixed_float16", Policy("float32", "script"), "float32, set by the script (mixed_float16 was asked for)"),
        (
            None,
            Policy("mixed_float16", "script", {"float32": 1, "mixed_float16": 3}),
            "mixed_float16 in 3 and float32 in 1 of 4 layers, set by the script",
        ),
        (
            None,
            Policy("float32", None, {"float32": 3, "mixed_bfloat16": 1}),
            "float32 in 3 and mixed_bfloat16 in 1 of 4 layers, set by the script",
        ),
        (None, Policy("float32", None, {"mixed_float16": 2}), "mixed_float16 in 2 of 2 layers, set by the script"),
        (
            None,
            Policy("float32", None, graph_rewrite=True),
            "16 bits by TensorFlow's graph rewrite (auto_mixed_precision)",
        ),
        (None, Policy("float32", None, {"float32": 3}), None),
        (None, Policy(), None),
        ("tf32", Policy("float32", None, {"float32": 3}), "tf32"),
    ],
)
def test_the_precision_is_that_of_the_script(asked: str | None, policy: Policy, text: str | None) -> None:
    facts = dict(about.facts(gpu_profile(precision=asked, policy=policy, xla=None)))
    assert facts.get("precision") == text
