"""What an iteration holds."""

from __future__ import annotations

import numpy as np

from tcprobe.analysis.iterations import collect_iterations
from tests.analysis import builders as b


def test_durations_do_not_bridge_a_gap_in_the_numbers() -> None:
    rows = [(b.TC, -1, i, 100 * i, 10) for i in (0, 1, 4, 5)]
    found = collect_iterations(b.profile(b.launches(*rows)))
    assert found.numbers.tolist() == [0, 1, 4, 5]
    assert [None if np.isnan(d) else d for d in found.duration_ns] == [100, None, 100, None]
