"""Truth for `tcprobe profile`: the packaged workloads under TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu.day import Day, Unit

NAME = "runs"
WHAT = "tcprobe profile"
SHARE = 3.0


def units(day: Day) -> Iterator[Unit]:  # noqa: ARG001
    """Yield what to record."""
    return iter(())
