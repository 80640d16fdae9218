"""What Nsight Systems left in its folder (reports, their exports), and what that says about the run."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcprobe.capture.nsys.build import NSYS
from tcprobe.capture.program import first_line
from tcprobe.foreign import SQLITE, head
from tcprobe.schema.profile import Note
from tcprobe.visible import say

REPORT: Final = "report"
REPORTS: Final = (".nsys-rep", ".qdrep")
STREAM: Final = ".qdstrm"
"""What is recorded, before nsys has made a report of it."""
EVENTS: Final = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS")
WHOLE_RUN: Final = "--nsys-args=--capture-range=none records the whole run"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What lies in the folder.

    Attributes:
        reports: nsys' own files.
        databases: their exports that can be opened.
        streams: recordings that nsys made no report of.
        unexported: why a report was not exported; empty if all were.
        is_empty: the databases hold no kernel, no copy and no range.
    """

    reports: tuple[Path, ...]
    databases: tuple[Path, ...]
    streams: tuple[Path, ...]
    unexported: str
    is_empty: bool


def home(folder: Path) -> Path:
    """Return Nsight Systems' output folder within a run folder."""
    return folder / "raw" / NSYS


def export(folder: Path, launcher: tuple[str, ...]) -> Recorded:
    """Export every report of a run folder to SQLite beside it, by the nsys that wrote it, and return what there is."""
    reports, streams = _files(folder, REPORTS), _files(folder, (STREAM,))
    databases, why = [], ""
    for report in reports:
        database = report.with_suffix(".sqlite")
        if failed := _export(report, database, launcher):
            why = why or f"{report.name}: {failed}"
        else:
            databases.append(database)
    empty = bool(databases) and not any(_events(database) for database in databases)
    return Recorded(reports, tuple(databases), streams, why, empty)


def _files(folder: Path, endings: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(sorted(p for p in home(folder).glob("*") if p.suffix in endings and p.stat().st_size > 0))


def _export(report: Path, database: Path, launcher: tuple[str, ...]) -> str:
    """Export one report; return why that failed, empty if it did not. Part of a database is removed."""
    say(f"exporting {report.name} to SQLite")
    command = [*launcher, NSYS, "export", "--type=sqlite", f"--output={database}", str(report)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        return f"nsys cannot be started: {error.strerror}"
    if done.returncode == 0 and _events(database) is not None:
        return ""
    with suppress(OSError):
        database.unlink(missing_ok=True)
    said = first_line(done.stderr) or first_line(done.stdout.rpartition("\r")[2])
    return f"`nsys export` ended with exit code {done.returncode}: {said}"


def _events(database: Path) -> int | None:
    """Return how many tables of events are there and hold a row; None where it is no database of nsys's."""
    try:
        import sqlite3
    except ImportError:  # not every Python has it: the export counts, and who reads it says what lacks
        return 1 if head(database, len(SQLITE)) == SQLITE else None
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as opened:
            tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            present = sorted(tables.intersection(EVENTS))
            held = sum(1 for name in present if opened.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone())
            return held if tables else None
    except sqlite3.Error:
        return None


def notes(recorded: Recorded, probe: Mapping[str, object], exit_code: int, iter_start: int | None) -> Iterator[Note]:
    """Say what is missing from a run, and what to do about it.

    Args:
        recorded: what lies in the folder.
        probe: probe.json; empty if there is none.
        exit_code: exit code of nsys.
        iter_start: first step that was asked for.
    """
    if not recorded.reports:
        yield _nothing(recorded, probe, exit_code, iter_start)
        return
    if recorded.unexported:
        yield Note(
            "nsys-export",
            f"the recording was not exported: {recorded.unexported}",
            "export it where this version of Nsight Systems, or a later one, is whole: in raw/nsys of the run folder, "
            f"nsys export --type=sqlite {recorded.reports[0].name}",
            "error",
        )
    if recorded.is_empty:
        yield Note(
            "nothing-recorded",
            "the recording holds no kernel, no copy and no range",
            f"the workload must use the GPU within the recorded part; {WHOLE_RUN}",
        )
    if len(recorded.reports) > 1:
        yield Note(
            "several-recordings",
            f"{len(recorded.reports)} processes were recorded, each in a report of its own",
            "tcprobe report reads each *.sqlite in raw/nsys by itself",
        )
    yield Note(
        "private-files",
        f"{' and '.join(path.name for path in (*recorded.reports, *recorded.databases))} in raw/nsys hold the whole "
        "environment of the run, passwords included, all that it printed, and its arguments where no probe ran",
        "leave that folder out when you pass the run folder on",
        "note",
    )


def _nothing(recorded: Recorded, probe: Mapping[str, object], exit_code: int, iter_start: int | None) -> Note:
    if recorded.streams:
        return Note(
            "nsys-importer",
            f"Nsight Systems recorded the run into {recorded.streams[0].name} and made no report of it: this "
            "installation lacks the importer (its host part)",
            "install all of Nsight Systems, or import the file where it is: QdstrmImporter -i FILE",
            "error",
        )
    if exit_code == 128 + signal.SIGKILL:
        return Note("no-report", "nsys was killed before it had written its report", "give it more memory, or time")
    if not probe:
        return Note(
            "no-report",
            f"nsys wrote no report and ended with exit code {exit_code}, and the probe left no record",
            "see what it printed: it may refuse an option, or not find the workload",
            "error",
        )
    return _never_begun(probe, iter_start)


def _never_begun(probe: Mapping[str, object], iter_start: int | None) -> Note:
    """Say that the recording waited for a range that never came; nsys then ends well and writes nothing."""
    steps = probe.get("steps")
    count = steps.get("count") if isinstance(steps, dict) else None
    if iter_start is not None and isinstance(count, int) and count <= iter_start:
        why = f"the run ended after {count} step{'' if count == 1 else 's'}, and step {iter_start} was to be the first"
        return Note("no-report", f"nothing was recorded: {why}", f"train longer; {WHOLE_RUN}", "error")
    gaps = probe.get("gaps")
    reasons = [gap.get("reason") for gap in gaps if isinstance(gap, dict)] if isinstance(gaps, list) else []
    why = f": {reasons[0]}" if reasons else ""
    return Note("no-report", f"nothing was recorded: the probe could not tell nsys to begin{why}", WHOLE_RUN, "error")
