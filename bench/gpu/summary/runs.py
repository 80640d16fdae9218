"""What `tcprobe profile` said of packaged workloads."""

from __future__ import annotations

from collections.abc import Iterator

from bench.gpu.summary.section import About, Data

TITLE = "Runs of tcprobe profile"


def make(about: About) -> Data:  # noqa: ARG001
    """Return nothing."""
    return {"runs": []}


def show(data: Data, dry: bool) -> Iterator[str]:  # noqa: ARG001
    """Yield it."""
    yield from ()
