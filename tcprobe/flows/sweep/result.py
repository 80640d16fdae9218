"""Read the folder of a sweep: the plan, and what each run gave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tcprobe.analysis import Options
from tcprobe.analysis.sweep import figures_of_run, result_of
from tcprobe.errors import TcprobeError
from tcprobe.flows.report import make_report
from tcprobe.flows.sweep.folder import plan_in, state_of
from tcprobe.schema.sweep import PlannedRun, RunFigures, SweepResult, SweepRun


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
    return result_of(str(folder), plan, runs)


def _run(folder: Path, run: PlannedRun, options: Options, figures: RunFigures | None) -> SweepRun:
    state, why = state_of(folder / run.folder)
    if state != "whole" or figures is not None:
        return SweepRun(run, state, why, figures)
    try:
        return SweepRun(run, state, figures=figures_of_run(make_report(folder / run.folder, options)))
    except TcprobeError as error:
        return SweepRun(run, state, error.message)
