"""Read the folder of a sweep: the plan, and what each run gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tcprobe.analysis import Options
from tcprobe.analysis.sweep import figures_of_run, result_of
from tcprobe.capture.environment import GPU_STATE
from tcprobe.errors import InputError, TcprobeError
from tcprobe.flows.report import make_report
from tcprobe.flows.sweep.folder import CLOCKS, plan_in, state_of
from tcprobe.foreign import read_text
from tcprobe.schema.changes.sweep import PlannedRun, RunFigures, SweepResult, SweepRun

MOST_BYTES = 1 << 24


def read_sweep(
    folder: Path, options: Options | None = None, known: Mapping[str, RunFigures] | None = None
) -> SweepResult:
    """Return what a sweep gave, as far as it was run.

    Args:
        folder: that of the sweep.
        options: as for `make_report`; they hold for each run.
        known: figures of runs that need not be read again, by folder.

    Raises:
        WrongFormat: sweep.json is damaged, or of another program.
        UsageError: an option fits none of the runs.
    """
    plan, held = plan_in(folder), known or {}
    runs = [_run(folder, run, options or Options(), held.get(run.folder)) for run in plan.runs]
    return result_of(str(folder), plan, runs, _clocks(folder / CLOCKS))


def _run(folder: Path, run: PlannedRun, options: Options, figures: RunFigures | None) -> SweepRun:
    state, why = state_of(folder / run.folder)
    if state != "whole" or figures is not None:
        return SweepRun(run, state, why, figures)
    try:
        return SweepRun(run, state, figures=figures_of_run(make_report(folder / run.folder, options)))
    except TcprobeError as error:
        return SweepRun(run, state, error.message)


def _clocks(path: Path) -> list[dict[str, str]]:
    """Return what was noted of the GPUs; nothing where the file is missing or damaged."""
    try:
        lines = read_text(path, MOST_BYTES).splitlines()
    except (InputError, UnicodeError):
        return []
    names = ("run", "when", *(name.replace(".", "_") for name in GPU_STATE))
    rows = [line.split(",") for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
