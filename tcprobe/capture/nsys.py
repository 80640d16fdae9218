"""The capture with NVIDIA's Nsight Systems, for any script: starts the workload under it, and exports what it recorded.

The probe runs inside the workload where its interpreter can run it. It marks steps, phases and layers as NVTX ranges,
and begins and ends the recording by a range of its own: what follows the window of a long run is not recorded.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from tcprobe.bypath import last_line, run_to_end, scratch_folder
from tcprobe.capture import environment, program
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.launchers import once
from tcprobe.capture.probed import Unprobed, collected, filled, launched_below, of_ranks, read_probe, why_no_probe
from tcprobe.capture.program import Build, Further, Profiler, first_line, further, where
from tcprobe.errors import ToolError, writing
from tcprobe.foreign import SQLITE, head
from tcprobe.probe.constants import DOMAIN, WINDOW_RANGE
from tcprobe.schema.profile import Note
from tcprobe.visible import say

NAME = "nsys"
INSTALL: Final = (
    "it is part of the CUDA toolkit and of NVIDIA's containers (https://developer.nvidia.com/nsight-systems); "
    "put its folder on PATH"
)
NSYS: Final = Profiler(
    "nsys",
    "`nsys profile`",
    ("profile", "--help"),
    r"^\s*(?:-\w,\s*)?(--[a-z][a-z-]+)",
    INSTALL,
    "--nsys-args",
    "--cuda-memory-usage=true",
    {
        "--output": "its report must lie in the run folder",
        "--export": "the report is exported once the run has ended",
        "--command-file": "what it holds is not known; give its options here",
        "--session-new": "tcprobe profile runs a workload in a session of its own",
        "--session": "tcprobe profile runs a workload in a session of its own",
        "--start-later": "tcprobe profile waits for the recording",
        "--help": "run nsys by hand",
        "--version": "run nsys by hand",
    },
)
TRACES: Final = ("cuda", "nvtx", "cudnn", "cublas")
"""What is traced where a build can: kernels, ranges, and the libraries whose calls tell what a kernel is of."""
CHOOSE_WHEN: Final = frozenset(("--capture-range", "--nvtx-capture", "--capture-range-end", "--delay", "--duration"))
"""Options that decide what part of a run is recorded."""
ENDLESS: Final = 10**12
DISABLED: Final = "NVTX_DISABLE"  # the probe then marks nothing, and a recording that waits for its range never begins
PRIVATE: Final = "private-files"
"""Code of the note that says what a recording holds of the user's."""
REPORT: Final = "report"
REPORTS: Final = (".nsys-rep", ".qdrep")
STREAM: Final = ".qdstrm"
"""What is recorded, before nsys has made a report of it."""
EVENTS: Final = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS")
WHOLE_RUN: Final = "--nsys-args=--capture-range=none records the whole run"
_NEEDED: Final = ("--trace", "--output")
QUIET: Final = {"--sample": "none", "--cpuctxsw": "none"}
"""Nothing of the processor; without the second, some builds take minutes to end where it may not be traced."""
TRIAL_SECONDS: Final = 60
TRIAL: Final = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("tcprobe_ranges", sys.argv[1])
ranges = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ranges)
domain = ranges.find_domain("tcprobe", os.environ["NVTX_INJECTION64_PATH"])
domain.push(domain.event("trial"))
domain.pop()
open(sys.argv[2], "w").write(domain.by)
"""
"""Marks a range as the probe does, by its module, and writes through what."""


class _Plan(NamedTuple):
    """How one run is recorded: by which nsys, with which words of the user's, and why without the probe."""

    build: Build
    own: Further
    unprobed: Unprobed | None

    @property
    def windowed(self) -> bool:
        """Whether the recording begins and ends with the probe's range, and that does not end the workload."""
        hears = not os.environ.get(DISABLED) and ("--trace" not in self.own.flags or "nvtx" in " ".join(self.own.words))
        stops_alone = self.build.values("--capture-range-end", "stop")
        return bool(stops_alone) and hears and not self.unprobed and not self.own.flags & CHOOSE_WHEN


def prepare(request: CaptureRequest) -> Launch:
    """Choose options that this build has and say how to start it.

    Raises:
        ToolError: Nsight Systems is missing or another program.
        UsageError: ``--nsys-args`` holds what is tcprobe's to set.
        OutputError: the run folder cannot be written.
    """
    build = program.ask_build(NSYS, request.launcher)
    if not build.flags.issuperset(_NEEDED) or not build.values("--trace", "nvtx"):
        raise ToolError(
            f"{where(NSYS, request.launcher)}: is not Nsight Systems, or one that is too old: `nsys profile --help` "
            f"lists no {', '.join(_NEEDED)} with nvtx",
            f"it printed: {first_line(build.text)!r}",
        )
    own = further(request.nsys.args, NSYS, build)
    with writing(home(request.folder)):
        home(request.folder).mkdir(parents=True, exist_ok=True)
    plan = _Plan(build, own, why_no_probe(request))
    holds = environment.ask_interpreter(request.python, request.launcher)
    # How large the recording is cannot be told while it grows: steps and seconds alone end the window.
    orders = {"profile": True, "nvtx": True, "tool": True, "window_bytes": ENDLESS, "umask": request.umask}
    if not plan.windowed:
        orders |= {"window_steps": ENDLESS, "window_seconds": ENDLESS}
    command = (NSYS.program, "profile", *flags(plan, request))
    return launched_below(command, build, request, plan.unprobed, holds.tensorflow, orders)


class Trial(NamedTuple):
    """What came of recording a range for a moment."""

    by: str  # through what it was marked: version of package nvtx, or ctypes; empty where nobody heard
    reported: bool | None  # whether nsys made a report of it; None where it did not come to an end
    text: str  # the last line that was printed


def try_ranges(python: str, build: Build) -> Trial:
    """Run an interpreter under the nsys on PATH, and mark a range in it, as the probe does.

    Raises:
        ToolError: it does not start.
    """
    import tcprobe.probe.core.nvtx as module

    with scratch_folder("tcprobe-doctor-") as folder:
        heard, log = folder / "heard", folder / "log"
        command = (*trial_words(build, "nvtx", folder), python, "-c", TRIAL, str(module.__file__), str(heard))
        ended = run_to_end(command, os.environ, log, log, TRIAL_SECONDS) is not None
        if not ended:
            end_trial(folder)
        reported = any((folder / REPORT).with_suffix(ending).exists() for ending in REPORTS)
        return Trial(last_line(heard), reported if ended else None, last_line(log))


def trial_words(build: Build, trace: str, folder: Path) -> tuple[str, ...]:
    """Return how a trial starts nsys, which leaves its report in a folder."""
    wanted = {"--trace": trace, **QUIET, "--session-new": _session(), "--output": str(folder / REPORT)}
    return (NSYS.program, "profile", *(f"{flag}={value}" for flag, value in wanted.items() if flag in build.flags))


def end_trial(folder: Path) -> None:
    """End what a trial left that was ended: its agent left the group, and would take a core for good."""
    shutdown = (NSYS.program, "shutdown", "--kill=sigkill", f"--session={_session()}")
    run_to_end(shutdown, os.environ, folder / "shutdown", folder / "shutdown", TRIAL_SECONDS)


def _session() -> str:
    return f"tcprobe-doctor-{os.getpid()}"


def flags(plan: _Plan, request: CaptureRequest) -> tuple[str, ...]:
    """Return the options for this build: kernels, ranges and library calls, no sampling of the processor."""
    wanted = {
        "--trace": ",".join(plan.build.values("--trace", *TRACES)),
        **QUIET,
        "--cuda-graph-trace": "node",  # else the kernels of a graph are one interval
    }
    if plan.windowed:
        wanted["--capture-range"] = "nvtx"
        wanted["--nvtx-capture"] = f"{WINDOW_RANGE}@{DOMAIN}"
        wanted["--capture-range-end"] = "stop"  # the default ends the workload
    given = {flag: value for flag, value in wanted.items() if flag in plan.build.flags and flag not in plan.own.flags}
    return (*(f"{flag}={value}" for flag, value in given.items()), *plan.own.words, f"--output={_output(request)}")


def _output(request: CaptureRequest) -> str:
    """Return the report's path without its ending; behind a launcher (mpirun) several processes may write one each."""
    folder = str(home(request.folder)).replace("%", "%%")
    return f"{folder}/{REPORT}-%h-%p" if request.launcher else f"{folder}/{REPORT}"


def collect(request: CaptureRequest, exit_code: int, died_of: int | None = None) -> Collected:
    """Export what was recorded, look at what is in it, and say what is missing: the exit code says nothing of that."""
    probe = read_probe(request.folder)
    recorded = _export(request.folder, once(request.launcher, NSYS.program) if of_ranks(request) else request.launcher)
    code = _workload_code(probe, exit_code, bool(recorded.reports), died_of)
    notes = _notes(recorded, probe, exit_code, request.iter_start)
    return collected(request, (*recorded.reports, *recorded.databases), notes, probe, exit_code, code)


def _workload_code(probe: dict[str, object], exit_code: int, reported: bool, died_of: int | None) -> int | None:
    """Return the workload's own exit code; None where it is not known.

    nsys ends with that, or with 128 + n where signal n ended the workload; with 1 where it could not start it; and
    with 0 or 130 where it was interrupted itself. A workload may die after its script has ended well.
    """
    own = probe.get("exit_code")
    if isinstance(own, int) and (own or exit_code < 128):
        return own
    if died_of is not None:
        return exit_code if exit_code > 128 else 128 + died_of  # nsys may tell of another that it died of later
    died = exit_code == 0 and probe.get("finished") is False
    return exit_code if (probe or reported) and not died else None


class Recorded(Struct, frozen=True):
    """What lies in the folder."""

    reports: tuple[Path, ...]  # nsys' own files
    databases: tuple[Path, ...]  # their exports that can be opened
    streams: tuple[Path, ...]  # recordings that nsys made no report of
    unexported: str  # why a report was not exported; empty if all were
    is_empty: bool  # the databases hold no kernel, no copy and no range


def home(folder: Path) -> Path:
    """Return Nsight Systems' output folder within a run folder."""
    return folder / "raw" / NAME


def _export(folder: Path, launcher: tuple[str, ...]) -> Recorded:
    """Export every report of a run folder to SQLite beside it, by the nsys that wrote it, and return what there is."""
    held = filled(home(folder).glob("*"))
    reports = tuple(path for path in held if path.suffix in REPORTS)
    streams = tuple(path for path in held if path.suffix == STREAM)
    databases, why = [], ""
    for report in reports:
        database = report.with_suffix(".sqlite")
        if failed := _exported(report, database, launcher):
            why = why or f"{report.name}: {failed}"
        else:
            databases.append(database)
    empty = bool(databases) and not any(_events(database) for database in databases)
    return Recorded(reports, tuple(databases), streams, why, empty)


def _exported(report: Path, database: Path, launcher: tuple[str, ...]) -> str:
    """Export one report; return why that failed, empty if it did not. Part of a database is removed."""
    say(f"exporting {report.name} to SQLite")
    command = [*launcher, NSYS.program, "export", "--type=sqlite", f"--output={database}", str(report)]
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


def _notes(recorded: Recorded, probe: Mapping[str, object], exit_code: int, iter_start: int | None) -> Iterator[Note]:
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
        PRIVATE,
        f"{' and '.join(path.name for path in (*recorded.reports, *recorded.databases))} in raw/nsys hold the whole "
        "environment of the run and of other processes, passwords included, all that it printed, and its arguments "
        "where no probe ran",
        "tcprobe redact blanks it in the SQLite files, and with --delete deletes the others",
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
