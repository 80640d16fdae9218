"""No time that advice, a chain, a wave or a what-if speaks of is more than what it could save, on every sample."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.readers.open import open_profile
from tcprobe.schema.advice import Advice
from tcprobe.schema.profile import Profile
from tests.support import ROOT

SAMPLES = ROOT.parent / "shared" / "samples"
KINDS = (
    *("nsys/*.sqlite", "xplane/*.xplane.pb", "ncu/*.csv", "dlprof/*.csv", "dlprof/pytorch_1.8"),
    *("nsys_stats/*kern_sum.csv", "nsys_stats/*_gpu_trace.csv", "nsys_stats/old_gpu*.csv"),
)
ABOVE = 1 + 1e-9
WAITS = ("idle", "launches", "loss scaling", "small batch")
"""Bounds that hold time in which the GPU waits."""
PATHS = [path for kind in KINDS for path in sorted(SAMPLES.glob(kind)) if path.name != "kernel_truth.csv"]
PATHS = [path for path in PATHS if path.is_dir() or path.stat().st_size]  # nsys stats may fail and leave an empty file


@pytest.mark.skipif(not PATHS, reason=f"{SAMPLES} is not there")
def test_samples_are_there() -> None:
    assert len(PATHS) > 30


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_nothing_promises_more_than_it_could_save(path: Path) -> None:
    run = analyse(open_profile(path))
    for item in run.advice:
        _item(run, item)
    kernels, chains = run.require("kernels"), run.require("chains")
    total = float(kernels.numbers("sum_ns").sum()) if len(kernels) else 0.0
    assert not (kernels.numbers("tail_ns") > kernels.numbers("sum_ns")).any()
    assert not (chains.numbers("at_most_ns") > chains.numbers("sum_ns") * ABOVE).any()
    assert chains.numbers("sum_ns").sum() <= total
    for what in run.what_ifs:
        assert 0 <= what.gain_ns.low <= what.gain_ns.mid <= what.gain_ns.high <= what.spent_ns * ABOVE or what.bound
        assert 0 <= what.gain_ns.high <= what.spent_ns * ABOVE
        assert what.step_ns is None or what.spent_ns <= what.step_ns * ABOVE
    assert bool(run.what_ifs) != (run.no_what_if is not None)


def _item(run: Profile, item: Advice) -> None:
    concern, waiting = item.concern, run.waiting
    most = [concern.at_most_ns, *([item.saving.ns.mid, item.saving.ns.high] if item.saving else [])]
    told = [ns for ns in most if ns is not None]
    step = waiting.step_ns if waiting else concern.step_ns or math.inf
    assert all(0 <= ns <= step * ABOVE for ns in told), item.code
    if waiting is not None and concern.bound not in WAITS:
        assert all(ns <= waiting.busiest_ns(*run.busiest_gpu) * ABOVE for ns in told), item.code
        if concern.kernel_ns is not None and concern.at_most_ns is not None:
            assert concern.at_most_ns <= concern.kernel_ns * ABOVE, item.code
