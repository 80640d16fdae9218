"""Truth for profiles: the same training step by each profiler."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu.day import Day, Unit

NAME = "profiles"
WHAT = "one training step by each profiler"
SHARE = 4.0


def units(day: Day) -> Iterator[Unit]:  # noqa: ARG001
    """Yield what to record."""
    return iter(())
