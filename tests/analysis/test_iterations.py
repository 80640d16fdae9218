"""What an iteration holds."""

from __future__ import annotations

import numpy as np
import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.iterations import collect_iterations
from tests.analysis import builders as b
from tests.analysis.test_by_hand import two_gpus


def test_durations_do_not_bridge_a_gap_in_the_numbers() -> None:
    rows = [(b.TC, -1, i, 100 * i, 10) for i in (0, 1, 4, 5)]
    found = collect_iterations(b.profile(b.launches(*rows)))
    assert found.numbers.tolist() == [0, 1, 4, 5]
    assert [None if np.isnan(d) else d for d in found.duration_ns] == [100, None, 100, None]


def test_spans_tile_the_capture_and_hold_kernels_of_any_step_on_every_gpu() -> None:
    """Steps 0-100, 100-300 and, after a gap in the numbers, 300-340, where the last kernel ends."""
    rows = [(b.TC, 0, 0, 0, 50), (b.TC, 0, 0, 80, 60), (b.FP32, 1, 1, 100, 250), (b.TC, 0, 4, 300, 40)]
    out = analyse(b.profile(b.launches(*((name, -1, step, at, length, gpu) for name, gpu, step, at, length in rows))))
    found = [[row[c] for c in ("span_ns", "busy_ns", "duration_ns")] for row in b.rows(out, "iterations")]
    assert found == [[100, 50 + 20, 100], [200, 40 + 200, None], [40, 40 + 40, None]]


@pytest.mark.parametrize("last", [2, 5])
def test_the_gpu_is_busy_in_any_window_as_its_steps_say(last: int) -> None:
    whole = b.rows(analyse(two_gpus()), "iterations")
    for first in range(last + 1):
        found = b.summary(analyse(two_gpus(), Options(first, last)))
        span, busy = (sum(row[name] for row in whole[first : last + 1]) for name in ("span_ns", "busy_ns"))
        assert found["window_ns"]["value"] == span
        assert found["gpu_busy_pct"]["value"] == pytest.approx(100 * busy / (2 * span))
