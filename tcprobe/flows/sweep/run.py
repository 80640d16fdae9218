"""Run what a sweep lacks, one run after the other, each as `profile` does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tcprobe.analysis.sweep import figures_of_run
from tcprobe.errors import Interrupted, OutputError, TcprobeError, UsageError
from tcprobe.flows.key_node import profile_by_key_node
from tcprobe.flows.profile import ProfileOutcome
from tcprobe.flows.sweep.folder import Home, discard, opened, set_aside, state_of, whole_in
from tcprobe.flows.sweep.plan import SweepOptions, environment_of, options_of, plan_of
from tcprobe.jsonfile import read_object
from tcprobe.probe.constants import RECORD
from tcprobe.report.sweep.words import name_of, plan_text
from tcprobe.schema.sweep import Plan, PlannedRun, RunFigures

Say = Callable[[str], None]
REFUSED: Final = 2
"""The exit code of argparse where a script does not know an argument."""


Ran = dict[str, RunFigures]
"""The figures of the runs of this process, by folder: they need not be read again."""


def run_sweep(options: SweepOptions, say: Say) -> tuple[Path, Ran]:
    """Run all of a sweep that is not whole; return its folder and the figures of what was run.

    Args:
        options: what to vary, and how to run each.
        say: called with one line for each thing that happens.

    Raises:
        UsageError: the plan makes no sense, or the workload refuses the arguments of the first run.
        OutputError: the folder cannot be written; what was run before is kept.
        Interrupted: by Ctrl-C; likewise.
        TcprobeError: what profiling the first run raises.
    """
    plan = plan_of(options)
    ran: Ran = {}
    with opened(options, plan) as home:
        try:
            for run in _with_progress(home, options, say):
                _run(options, home, run, ran, say)
        except (KeyboardInterrupt, OutputError) as error:
            done = f"{len(whole_in(home.path, home.plan))} of {len(home.plan.runs)} runs are whole"
            goes_on = f"the same command goes on with the others ({home.path})"
            if isinstance(error, OutputError):
                raise OutputError(error.message, f"{error.hint or 'make room'}; {done}, and {goes_on}") from error
            say(f"{done}; {goes_on}")
            raise Interrupted from error
        return home.path, ran


def _with_progress(home: Home, options: SweepOptions, say: Say) -> Iterator[PlannedRun]:
    """Yield the runs that are not whole, and say before each which it is and how long all will take."""
    plan, whole = home.plan, whole_in(home.path, home.plan)
    say(f"{plan_text(home.shown)} ({home.path})")
    times = {run: _wall_s(home.path / run.folder) for run in whole}
    lacking = [run for run in plan.runs if run not in whole]
    if whole:
        say(f"{len(whole)} of them are whole already")
    for number, run in enumerate(lacking):
        if number and options.pause_s:
            time.sleep(options.pause_s)
        left = _left_s(lacking[number:], times)
        name = name_of(home.shown, home.shown.combination(run.combination))
        about = f", about {_text(left + options.pause_s * (len(lacking) - number - 1))} left" if left else ""
        say(f"run {plan.runs.index(run) + 1} of {len(plan.runs)}: {name}{about}")
        start = time.monotonic()
        yield run
        times[run] = time.monotonic() - start


def _wall_s(folder: Path) -> float:
    wall = read_object(folder / RECORD).get("wall_ns")
    return wall / 1e9 if isinstance(wall, int) else 0.0


def _left_s(lacking: list[PlannedRun], times: Mapping[PlannedRun, float]) -> float:
    """Return how long runs will take, by those of the same combination, else by all; 0 where none was run."""
    if not times:
        return 0.0
    usual = sum(times.values()) / len(times)
    left = 0.0
    for run in lacking:
        alike = [seconds for other, seconds in times.items() if other.combination == run.combination]
        left += sum(alike) / len(alike) if alike else usual
    return left


def _text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _run(options: SweepOptions, home: Home, run: PlannedRun, ran: Ran, say: Say) -> None:
    """Make one run; what fails is said, and the next one is made.

    Raises:
        KeyboardInterrupt: it was interrupted.
        OutputError: there is no room, and there will be none for the next one.
        TcprobeError: it could not be started, and none is whole yet.
    """
    plan, place, first = home.plan, home.path / run.folder, not whole_in(home.path, home.plan) and not ran
    set_aside(home.path, run)
    try:
        with _environment(environment_of(plan, run)):
            outcome = profile_by_key_node(options_of(options.base, plan, run, home.path), True, say)
    except TcprobeError as error:
        if first or isinstance(error, OutputError):
            discard(home) if first else None
            raise
        say(f"{run.folder}: {error.message}")
        return
    if outcome.cut:
        raise KeyboardInterrupt
    if first and outcome.workload_code == REFUSED and outcome.recorded_nothing:
        discard(home)
        raise _refused(home.shown, run)
    if isinstance(outcome.failure, OutputError):
        raise outcome.failure
    _keep(outcome, run, ran, state_of(place)[1], say)


def _keep(outcome: ProfileOutcome, run: PlannedRun, ran: Ran, ended: str, say: Say) -> None:
    if outcome.report is not None and not ended:
        ran[run.folder] = figures_of_run(outcome.report)
    elif why := ended or (outcome.failure.message if outcome.failure else ""):
        say(f"{run.folder}: {why}; it is kept, and the others are run")


def _refused(plan: Plan, run: PlannedRun) -> UsageError:
    pairs = zip(plan.factors, plan.combination(run.combination).values, strict=True)
    words = [f"{factor.key}={value}" for factor, value in pairs if factor.kind == "argument"]
    of = f" (varied: {', '.join(words)})" if words else ""
    return UsageError(
        f"{plan.workload} refuses its arguments{of}: it ended with exit code {REFUSED} before its first step",
        "its own words stand above; nothing else was run",
    )


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the environment, which the workload inherits."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
