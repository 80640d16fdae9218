"""Run what a sweep lacks, one run after the other, each as `profile` does, and read what the runs gave.

Its folder holds ``sweep.json``, which says what is run, and beside it a run folder for each run.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from msgspec import ValidationError, convert
from msgspec.structs import replace

from tcprobe import __version__
from tcprobe.analysis import Options
from tcprobe.analysis.sweep import figures_of_run, result_of
from tcprobe.capture.folder import DISK_FULL, HOME, derived
from tcprobe.errors import Interrupted, OutputError, TcprobeError, UsageError, WrongFormat, writing
from tcprobe.flows.key_node import profile_by_key_node
from tcprobe.flows.profile import ProfileOutcome
from tcprobe.flows.report import make_report
from tcprobe.flows.runs import SWEEP, is_sweep
from tcprobe.flows.sweep.plan import SweepOptions, environment_of, masked, options_of, plan_of
from tcprobe.flows.workloads import find_workload
from tcprobe.flows.write import write_files
from tcprobe.foreign import folders_in, read
from tcprobe.jsonfile import read_object
from tcprobe.masking import mask_words
from tcprobe.probe.constants import PARTIAL, RECORD
from tcprobe.readers.run_folder.folder import how_ended
from tcprobe.report.sweep.words import name_of, plan_text
from tcprobe.schema.records import as_dict
from tcprobe.schema.sweep import Plan, PlannedRun, RunFigures, RunState, SweepResult, SweepRun
from tcprobe.source.imports import MOST_BYTES

EARLIER: Final = "earlier"
"""Where runs go that were not whole, when they are run again."""
OTHER: Final = ("output", "force", "share", "notes", "constants")
"""Options that make no other sweep."""


class Home(NamedTuple):
    """The folder of a sweep that is being run."""

    path: Path
    plan: Plan  # what is to be run
    # as people see it: without secrets, and with what was run there under another --limit, --exclude or --repeat
    shown: Plan
    new: bool  # whether it was made for this


def plan_in(folder: Path) -> Plan:
    """Return what a sweep runs, as its folder says.

    Raises:
        WrongFormat: sweep.json is damaged, or of another program.
    """
    try:
        plan = convert(read_object(folder / SWEEP).get("plan"), Plan)
    except ValidationError as error:
        raise WrongFormat(folder / SWEEP, f"is damaged, or none of tcprobe's: {str(error)[:100]}") from None
    numbers = {one.number for one in plan.combinations}
    alike = all(len(one.values) == len(plan.factors) for one in plan.combinations)
    inside = all(run.combination in numbers and Path(run.folder).name == run.folder for run in plan.runs)
    if not (alike and inside and plan.baseline in numbers):
        raise WrongFormat(folder / SWEEP, "is damaged, or none of tcprobe's: its runs and combinations do not match")
    return plan


def state_of(folder: Path) -> tuple[RunState, str]:
    """Return what became of a run, and how it ended where it is not whole."""
    record = read_object(folder / RECORD)
    if not record:
        return "missing", "not run"
    notes = record.get("notes")
    full = isinstance(notes, list) and any(isinstance(n, dict) and n.get("code") == DISK_FULL.code for n in notes)
    if record.get("partial") is False:
        return ("failed", "no space was left on the disk") if full else ("whole", "")
    return "interrupted" if record.get("interrupted") else "failed", how_ended(record)


def whole_in(folder: Path, plan: Plan) -> set[PlannedRun]:
    """Return the runs of a sweep that ended well."""
    return {run for run in plan.runs if state_of(folder / run.folder)[0] == "whole"}


@contextmanager
def opened(options: SweepOptions, plan: Plan) -> Iterator[Home]:
    """Provide the folder of a sweep, for this process alone: that of the same sweep if it is not whole, else a new one.

    Raises:
        OutputError: another sweep, or something else, is at --output; or the system refused.
    """
    digest, output = _digest(options, plan), options.base.output
    places = _unfinished(digest, plan) if output is None else [output]
    for path in places:
        if not _is_vacant(path):
            _refuse_other(path, digest)
            with _locked(path, output is None) as mine:
                if mine is not None:
                    earlier = whole_in(path, old := plan_in(path))
                    yield _written(Home(path, plan, _merged(old, earlier, masked(plan)), False), options, digest)
                    return
    path = derived(f"{plan.workload}-sweep") if output is None else output
    made = not os.path.lexists(path)
    with writing(path):
        path.mkdir(0o755 if options.base.share else 0o700, parents=True, exist_ok=True)
    with _locked(path, False):
        yield _written(Home(path, plan, masked(plan), made), options, digest)


def _unfinished(digest: str, plan: Plan) -> list[Path]:
    """Return the sweeps of this kind below ``tcprobe-runs`` that lack a run, the newest first."""
    places = [place for place in folders_in(HOME) if not place.name.startswith(PARTIAL)]
    same = [p for p in places if read_object(p / SWEEP).get("digest") == digest and whole_in(p, plan) != {*plan.runs}]
    return sorted(same, key=lambda path: path.name, reverse=True)


def _digest(options: SweepOptions, plan: Plan) -> str:
    """Return what tells a sweep from others: the workload, how it is run, and what is varied."""
    target, _ = find_workload(options.base.words)
    script = read(Path(target.name), MOST_BYTES) if target.kind == "script" else b""
    own = {name: value for name, value in as_dict(options.base).items() if name not in OTHER}
    own |= {"words": mask_words(options.base.words), "factors": [as_dict(one) for one in plan.factors]}
    return hashlib.sha256(json.dumps(own, default=str).encode() + script).hexdigest()


def _is_vacant(path: Path) -> bool:
    with writing(path):
        return not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir()))


def _refuse_other(path: Path, digest: str) -> None:
    if not is_sweep(path):
        raise OutputError(f"{path}: exists already, and is no sweep", "choose another --output")
    if read_object(path / SWEEP).get("digest") != digest:
        what = "another workload or script, other options, or other values"
        raise OutputError(f"{path}: holds another sweep ({what})", "choose another --output, or leave it out")


@contextmanager
def _locked(path: Path, passed_over: bool) -> Iterator[TextIO | None]:
    """Keep other processes from running the same sweep; None where one does and that is `passed_over`.

    Raises:
        OutputError: one does, else.
    """
    with writing(path), (path / f".{SWEEP}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not passed_over:
                raise OutputError(f"{path}: another tcprobe runs this sweep", "choose another --output") from None
            yield None
            return
        yield file


def _merged(old: Plan, earlier: Collection[PlannedRun], new: Plan) -> Plan:
    """Return a plan with the `earlier` runs of another one."""
    runs = sorted({*earlier, *new.runs}, key=lambda run: (run.repeat, run.combination))
    kept = {run.combination for run in runs}
    combinations = {one.number: one for one in (*old.combinations, *new.combinations) if one.number in kept}
    return replace(new, combinations=tuple(one for _, one in sorted(combinations.items())), runs=tuple(runs))


def _written(home: Home, options: SweepOptions, digest: str) -> Home:
    record: dict[str, Any] = {
        "schema": 1,
        "tcprobe": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(mask_words(options.base.words)),
        "profiler": {"name": "sweep"},
        "digest": digest,
        "plan": as_dict(home.shown),
    }
    write_files([(home.path / SWEEP, lambda out: json.dump(record, out, indent=1))], force=True)
    return home


def set_aside(home: Path, run: PlannedRun) -> None:
    """Keep a run that was not whole out of the way of the one that takes its place."""
    place, number = home / run.folder, 1
    if not os.path.lexists(place):
        return
    while os.path.lexists(aside := home / EARLIER / f"{run.folder}-{number}"):
        number += 1
    with writing(aside):
        aside.parent.mkdir(exist_ok=True)
        place.rename(aside)


def discard(home: Home) -> None:
    """Remove the folder of a sweep that was made for nothing."""
    import shutil

    if home.new:
        shutil.rmtree(home.path, ignore_errors=True)
        with suppress(OSError):  # it holds other runs
            home.path.parent.rmdir() if home.path.parent == Path(HOME) else None


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
    runs = [_read_run(folder, run, options or Options(), held.get(run.folder)) for run in plan.runs]
    return result_of(str(folder), plan, runs)


def _read_run(folder: Path, run: PlannedRun, options: Options, figures: RunFigures | None) -> SweepRun:
    state, why = state_of(folder / run.folder)
    if state != "whole" or figures is not None:
        return SweepRun(run, state, why, figures)
    try:
        return SweepRun(run, state, figures=figures_of_run(make_report(folder / run.folder, options)))
    except TcprobeError as error:
        return SweepRun(run, state, error.message)
