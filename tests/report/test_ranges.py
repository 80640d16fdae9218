"""Predicted times in words."""

from __future__ import annotations

import pytest

from tcprobe.report.ranges import about, range_text
from tcprobe.schema.finding import Range


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (400_000, 600_000, "0.4-0.6 ms"),
        (12_000_000, 14_000_000, "12-14 ms"),
        (90_000, 94_000, "90-94 us"),
        (1_230_000, 1_240_000, "1.2 ms"),
        (0, 5_000, "up to 5 us"),
        (-2_000, 5_000, "up to 5 us"),
        (2_500_000_000, 3_000_000_000, "2.5-3 s"),
        (3, 4, "3-4 ns"),
        (900, 1_300_000, "up to 1.3 ms"),
        (30_000_000, 150_000_000, "30-150 ms"),
        (120, 990, "120-990 ns"),
    ],
)
def test_a_range_of_time_in_one_unit(low: float, high: float, said: str) -> None:
    assert range_text(Range(low, (low + high) / 2, high)) == said


@pytest.mark.parametrize(
    ("low", "mid", "high", "said"),
    [
        (400e3, 500e3, 600e3, "0.4-0.6 ms"),
        (0, 1e6, 4e6, "up to 4 ms (likely 1 ms)"),
        (-1e6, 0, 4e6, "up to 4 ms (likely nothing)"),
        (160e3, 350e3, 690e3, "0.16-0.69 ms (likely 0.35 ms)"),
        (0, 800, 4e6, "up to 4 ms (likely 800 ns)"),
    ],
)
def test_a_wide_range_says_what_is_likely(low: float, mid: float, high: float, said: str) -> None:
    assert about(Range(low, mid, high)) == said
