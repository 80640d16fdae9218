"""Checks what is left of a run: one function for each value of `Kept`."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcprobe.flows.report import make_report
from tests.faults.table import Kept

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a run.

    Attributes:
        folder: the run folder.
        record: its run.json; empty without one.
        steps: number and start in ns of every step in steps.csv.
        lengths: of the steps in ns, as the report has them; without those that have none.
        metrics: the figures in metrics.csv, with their steps.
        said: codes and messages of the notes that `tcprobe report` shows.
    """

    folder: Path
    record: dict[str, Any]
    steps: list[tuple[int, int]]
    lengths: list[float]
    metrics: list[tuple[int, float]]
    said: dict[str, str]


def left(folder: Path) -> Left:
    """Read what is left, as `tcprobe report` does."""
    record = folder / "run.json"
    report = make_report(folder)
    steps = [(int(row["step"]), int(row["start_ns"])) for row in _rows(folder / "probe/steps.csv")]
    metrics = [(int(row["step"]), float(row["value"])) for row in _rows(folder / "probe/metrics.csv")]
    run = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    table = report.table("steps")
    lengths = (
        [] if table is None else [each for each in table.values("duration_ns") if each is not None and each == each]
    )
    return Left(folder, run, steps, lengths, metrics, {note.code: note.message for note in report.metadata.notes})


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_kept(found: Left, kept: Kept, steps: int) -> None:
    """Assert that a run has left what a row of the table says.

    Args:
        found: what is left.
        kept: what should be.
        steps: how many steps must be there: all of a run that ended, else those that ended a second before.
    """
    complete, sealed = (
        kept in (Kept.WHOLE, Kept.STEPS, Kept.FIRST_PROCESS),
        kept not in (Kept.NO_ENDING, Kept.AFTERWARDS),
    )
    assert [number for number, _ in found.steps[:steps]] == list(range(steps))
    logged = [step for step, _ in found.metrics]
    assert logged[:steps] == list(range(steps)) or not logged  # some workloads print nothing
    assert ("partial-run" in found.said) is not complete
    assert found.record["partial"] is not complete
    assert (found.record["exit_code"] is not None) is (sealed and kept is not Kept.UNTOLD)
    assert found.folder.name.startswith(".partial-") is not sealed
