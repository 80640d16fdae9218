"""The run folders that lie in a folder, by what their run.json says; nothing of a profile is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tcprobe.errors import UsageError
from tcprobe.foreign import folders_in, is_file
from tcprobe.jsonfile import read_object
from tcprobe.masking import mask_words
from tcprobe.probe.constants import PARTIAL, RECORD

_MAKE: Final = "tcprobe profile WORKLOAD makes one; or name a profile"


SWEEP: Final = "sweep.json"
"""What the folder of a sweep holds."""


def is_sweep(path: Path) -> bool:
    """Return whether a path is the folder of a sweep."""
    return is_file(path / SWEEP)


class Run(Struct, frozen=True):
    """A run folder, or that of a sweep; None for what its record does not say."""

    path: Path  # the folder, below the one that was searched
    started: str | None  # UTC, ISO 8601
    command: str | None  # what ran, secrets masked
    profiler: str | None
    precision: str | None  # as it was asked for
    exit_code: int | None  # the workload's own
    partial: bool  # whether it was cut off or failed


def runs_in(folder: Path) -> list[Run]:
    """Return the complete runs whose folders lie in a folder, the newest first; none where that is a run itself."""
    if not folder.is_dir() or (folder / RECORD).exists():
        return []
    places = [place for place in folders_in(folder) if not place.name.startswith(PARTIAL)]
    runs = [run for place in places if (run := _run(place)) is not None]
    return sorted(runs, key=lambda run: (run.started or "", str(run.path)), reverse=True)


def last_run(number: int = 1) -> Path:
    """Return the folder of the last run that was made from the working directory, or of the one so many back.

    Raises:
        UsageError: there are not so many.
    """
    from tcprobe.capture.folder import HOME

    runs = runs_in(Path(HOME))
    if number > len(runs):
        if not runs:
            raise UsageError(f"no run is named, and {HOME}/ here holds none", _MAKE)
        raise UsageError(f"--last {number}: {HOME}/ holds {len(runs)}", f"tcprobe report {HOME} lists them")
    return runs[number - 1].path


def _run(place: Path) -> Run | None:
    if not (record := read_object(place / RECORD) or read_object(place / SWEEP)):
        return None
    command, profiler = record.get("command"), record.get("profiler")
    words = [str(word) for word in command] if isinstance(command, list) else []
    return Run(
        path=place,
        started=_text(record.get("started")),
        command=" ".join(mask_words(words)) if words else None,
        profiler=_text(profiler.get("name")) if isinstance(profiler, dict) else None,
        precision=_text(record.get("precision")),
        exit_code=code if isinstance(code := record.get("exit_code"), int) else None,
        partial=record.get("partial") is not False,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
