"""The folder of a sweep: ``sweep.json`` says what is run, and each run has a run folder of its own beside it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from msgspec import ValidationError, convert
from msgspec.structs import replace

from tcprobe import __version__
from tcprobe.capture.folder import DISK_FULL, HOME, derived
from tcprobe.errors import OutputError, WrongFormat, writing
from tcprobe.flows.runs import SWEEP, is_sweep
from tcprobe.flows.sweep.plan import SweepOptions, masked
from tcprobe.flows.workloads import find_workload
from tcprobe.flows.write import write_files
from tcprobe.foreign import read, walk
from tcprobe.jsonfile import read_object
from tcprobe.masking import mask_words
from tcprobe.probe.constants import PARTIAL, RECORD
from tcprobe.readers.run_folder.folder import how_ended
from tcprobe.schema.records import as_dict
from tcprobe.schema.sweep import Plan, PlannedRun, RunState
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
    _, folders, _ = next(walk(HOME, {}), ("", [], []))
    places = [Path(entry.path) for entry in folders if not entry.name.startswith(PARTIAL)]
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
