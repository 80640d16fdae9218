"""Truth for `tcprobe profile`: the packaged workload under TensorFlow, with tcprobe and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.gpu.day import Day, NotRecorded, Unit
from bench.gpu.runs.cases import plan
from bench.gpu.runs.run import Run

NAME = "runs"
WHAT = "tcprobe profile of train_gan"
SHARE = 3.0
LEAST_S: Final = 30.0
MOST_S: Final = 150.0
DRY: Final = 8.0, 75.0
"""The same on a dry run."""


def units(day: Day) -> Iterator[Unit]:
    """Yield what to record; of an interpreter whose TensorFlow sees no GPU one unit, which says so."""
    found = [framework for framework in day.machine.all_frameworks if framework.name == "tensorflow"]
    if not found:
        yield Unit("tensorflow", _nothing, least_s=0.0)
        return
    blind: set[str] = set()
    least, most = DRY if day.dry else (LEAST_S, MOST_S)
    for number, kind, case, name in plan([framework.version for framework in found]):
        framework = found[number]
        if framework.python in blind:
            continue
        run = Run(day, framework, kind, case, blind)
        about = {"framework": framework.name, "version": framework.version, "python": framework.python_version}
        yield Unit(name, run.record, most, least, about)


def _nothing(place: Path, seconds: float) -> None:  # noqa: ARG001
    raise NotRecorded("no interpreter has TensorFlow", "--python names one that has")
