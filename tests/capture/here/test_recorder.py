"""The window of a recording in this process: how it fits into a training that is shorter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.capture.here.recorder import Window

COUNTS = st.integers(0, 50)


@pytest.mark.parametrize(
    ("count", "parts"),
    [(1, (0, 0, 1)), (2, (1, 0, 1)), (3, (1, 1, 1)), (20, (7, 6, 7)), (39, (10, 19, 10)), (40, (10, 20, 10))],
)
def test_the_usual_window_in_a_short_training(count: int, parts: tuple[int, int, int]) -> None:
    assert Window().within(count).parts == parts


@given(COUNTS, COUNTS, st.integers(1, 50), st.integers(1, 200))
def test_a_fitted_window(warmup: int, timed: int, steps: int, count: int) -> None:
    asked = Window(warmup, timed, steps)
    fitted = asked.within(count)
    assert fitted.count <= count and fitted.steps >= 1
    assert all(one <= most for one, most in zip(fitted.parts, asked.parts, strict=True))
    assert fitted == asked or count < asked.count
    assert fitted.warmup or not asked.warmup or count < 2
