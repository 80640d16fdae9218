"""Follow a run in progress by what its folder holds: nothing of the run is touched."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tcprobe.capture.folder import HOME
from tcprobe.errors import InputError, UsageError
from tcprobe.flows.runs import runs_in
from tcprobe.foreign import folders_in, is_file, is_folder, modified
from tcprobe.jsonfile import read_object
from tcprobe.probe.constants import PARTIAL, RANKS, RECORD
from tcprobe.readers.run_folder.steps import read_metrics, read_steps
from tcprobe.schema.columns import Table

TAIL_BYTES: Final = 1 << 16  # of steps.csv and metrics.csv: some 2,000 lines
PATIENCE_S: Final = 300.0  # after the workload's end: reading a large profile takes less
EVERY_S: Final = 1.0


class Look(NamedTuple):
    """What a run folder holds of a run that goes on."""

    place: Path  # the folder, under the name that it has now
    steps: Table | None  # the last ones; None before the first
    metrics: Table | None  # what was logged last; None where nothing was
    silent_s: float  # since a step began, or since the run did
    finished: bool  # whether the workload has ended, and its profile is being read


def follow(path: Path | None, show: Callable[[Look], None], pause: Callable[[float], None] = time.sleep) -> Path:
    """Show what a run does until it ends, and return its folder then; of one that has ended, at once.

    Args:
        path: a run folder, under the name that it has or will have, or a folder of runs; None is that of all runs here.
        show: told each second what the run has written.
        pause: waits for so many seconds.

    Raises:
        UsageError: no run is there.
        InputError: the run folder was removed.
    """
    place = _place(Path(HOME) if path is None else path)
    identity, waited = _identity(place), 0.0
    while _goes_on(place):
        if (look := _look(place)).finished:
            waited += EVERY_S
            if waited > PATIENCE_S:
                break  # tcprobe itself was killed: the folder keeps its name
        show(look)
        pause(EVERY_S)
        place = _renamed(place, identity)
    return place


def _place(path: Path) -> Path:
    """Return the folder of the run that a path means: of several, the one that goes on, else the last."""
    path = path.parent if path.name == RECORD else path
    name = path.name[:50]
    if not is_folder(path):
        if not path.exists() and (found := _begun(path.parent, f"{PARTIAL}{name}-")):
            return found
        raise UsageError(f"{path}: --watch follows a run of tcprobe profile, and there is none", "name its folder")
    if is_file(path / RECORD) or is_folder(path / "probe"):
        return path
    complete, begun = runs_in(path), _begun(path, PARTIAL)
    started = [str(read_object(begun / RECORD).get("started") or "")] if begun else []
    if begun and (not complete or started[0] > (complete[0].started or "")):
        return begun
    if not complete:
        raise UsageError(f"{path}: no run of tcprobe profile lies there", "name the folder of one")
    return complete[0].path


def _begun(folder: Path, start: str) -> Path | None:
    """Return the folder of a run that began last and has a temporary name; None where there is none."""
    found = [place for place in folders_in(folder) if place.name.startswith(start)]
    return max(found, key=lambda one: (str(read_object(one / RECORD).get("started") or ""), one), default=None)


def _goes_on(place: Path) -> bool:
    """Say whether a run may still write: its folder has a temporary name, which a run that was killed keeps."""
    return place.name.startswith(PARTIAL)


def _identity(place: Path) -> tuple[int, int]:
    found = place.stat()
    return found.st_dev, found.st_ino


def _renamed(place: Path, identity: tuple[int, int]) -> Path:
    """Return the folder under the name that it has now.

    Raises:
        InputError: it is nowhere beside where it was.
    """
    if is_folder(place):
        return place
    for other in folders_in(place.parent):
        if is_folder(other) and _identity(other) == identity:
            return other
    raise InputError(place, "the run folder was removed or moved while it was watched")


def _look(place: Path) -> Look:
    """Return what a run has written: of several ranks, what the first one has."""
    probe = place / "probe"
    if not is_file(probe / "steps.csv") and is_folder(place / RANKS):
        ranks = (rank / "probe" for rank in folders_in(place / RANKS))
        probe = next((one for one in ranks if is_file(one / "steps.csv")), probe)
    seen = read_object(probe / "probe.json", place)
    steps, _ = read_steps(probe / "steps.csv", seen, TAIL_BYTES)
    metrics, _ = read_metrics(probe / "metrics.csv", TAIL_BYTES)
    last = modified(probe / "steps.csv") if steps is not None else modified(place / RECORD)
    return Look(place, steps, metrics, max(time.time() - last, 0.0), seen.get("finished") is True)
