"""Truth for classification: hardware counters of single products and other ops."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu.day import Day, Unit

NAME = "classification"
WHAT = "hardware counters of single ops"
SHARE = 6.0


def units(day: Day) -> Iterator[Unit]:  # noqa: ARG001
    """Yield what to record."""
    return iter(())
