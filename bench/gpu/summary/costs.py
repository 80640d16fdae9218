"""Costs: predicted against measured."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu.summary.clocks import clocks, shown
from bench.gpu.summary.section import About, Data

TITLE = "Costs: predicted against measured"


def make(about: About) -> Data:
    """Return clocks."""
    return {"clocks": clocks(about)}


def show(data: Data, dry: bool) -> Iterator[str]:  # noqa: ARG001
    """Yield it."""
    yield from shown(data["clocks"])
