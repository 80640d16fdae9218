"""The capture with NVIDIA's DLProf, in containers that still have it: starts the workload, keeps every report.

DLProf finds iterations by a key node, an op that runs once per step. Its post-processing may take longer than the run.
The probe runs beside it where the workload's interpreter can run it, and records steps, graph and the exit code.
Sources: `dlprof --help` of the PyTorch build 1.0 (simple, pytorch; --nsys_database), command lines of the
TensorFlow 1 and 2 containers 20.07 to 21.07 (--key_node), and DLProf 1.8's messages (--key_op, --database).
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tcprobe.capture import program
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.probed import collected, filled, launched_below, read_probe, why_no_probe
from tcprobe.capture.program import Build, Profiler, first_line, further, where
from tcprobe.errors import ToolError, writing
from tcprobe.foreign import head
from tcprobe.probe.constants import PARTIAL
from tcprobe.schema.profile import Note

NAME = "dlprof"
DLPROF: Final = Profiler(
    "dlprof",
    "DLProf",
    ("--help",),
    r"--[a-z][a-z_]+",
    "it is part of NVIDIA's TensorFlow and PyTorch containers to 21.12; --profiler tensorflow needs no other program",
    "--dlprof-args",
    "--verbosity=quiet",
    {
        "--output_path": "its reports must lie in the run folder",
        "--profile_name": "its reports are found by their names",
        "--nsys_base_name": "its recording is found by its name",
        "--nsys_database": "tcprobe profile runs a workload",
        "--database": "tcprobe profile runs a workload",
        "--help": "run dlprof by hand",
        "--version": "run dlprof by hand",
    },
    {
        "-f": "--force",
        "-v": "--verbosity",
        "-m": "--mode",
        "-y": "--delay",
        "-d": "--duration",
        "-b": "--suppress_tb_files",
    },
)
MODES: Final = ("simple", "tensorflow1", "tensorflow2", "pytorch", "tensorrt")
KEY_FLAGS: Final = ("--key_node", "--key_op")
"""The option for the key node, whose name differs between builds."""
AUTO: Final = "auto"
REPORTS: Final = (".csv", ".json")
PEEK_BYTES: Final = 1 << 20
# NVIDIA's DLProf wraps Nsight Systems and writes reports; Biren's BRDLProf, also called dlprof, does neither.
_OURS: Final = ("--nsys_opts", "--reports")
_NOT_FOUND: Final = re.compile(r"Unable to split profile into training iterations: key (?:op|node) (.*?) not found")


def ask_build(launcher: tuple[str, ...]) -> Build:
    """Ask the installed DLProf for its version and options.

    Raises:
        ToolError: there is none, it does not start, or it is another vendor's.
    """
    build = program.ask_build(DLPROF, launcher)
    if lacks := ", ".join(flag for flag in _OURS if flag not in build.text):
        raise ToolError(
            f"{where(DLPROF, launcher)}: is not NVIDIA's DLProf: its help lacks {lacks}",
            f"another vendor's tool of that name comes first on PATH; it printed: {first_line(build.text)!r}",
        )
    return build


def prepare(request: CaptureRequest) -> Launch:
    """Choose flags that this build has and say how to start it.

    Raises:
        ToolError: DLProf is missing, another program, or lacks what was asked for.
        UsageError: ``--dlprof-args`` holds what is tcprobe's to set.
        OutputError: the run folder cannot be written.
    """
    build = ask_build(request.launcher)
    folder = home(request.folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    unprobed, command = why_no_probe(request), (DLPROF.program, *flags(build, request))
    orders = {"profile": False, "umask": request.umask}
    return launched_below(command, build, request, unprobed, None, orders, forward_interrupt=False)


def home(folder: Path) -> Path:
    """Return DLProf's output folder within a run folder."""
    return folder / "raw" / "dlprof"


def flags(build: Build, request: CaptureRequest) -> tuple[str, ...]:
    """Return the options for this build: all reports in all formats, into the run folder.

    Raises:
        ToolError: the build lacks what was asked for.
        UsageError: ``--dlprof-args`` holds what is tcprobe's to set.
    """
    asked, own = request.dlprof, further(request.dlprof.args, DLPROF, build)
    wanted = {
        "--mode": _mode(build, asked.mode or AUTO),
        "--reports": "all",
        "--formats": ",".join(formats) if len(formats := build.values("--formats", "csv", "json")) > 1 else None,
        "--output_path": str(home(request.folder)),
        "--profile_name": NAME,
        "--nsys_base_name": _base_name(request.folder),
        "--suppress_tb_files": "true",
        "--iter_start": _number(request.iter_start),
        "--iter_stop": _number(request.iter_stop),
    }
    given = {flag: value for flag, value in wanted.items() if value is not None and flag in build.flags}
    given |= _required(build, {"--delay": _number(asked.delay_s), "--duration": _number(asked.duration_s)})
    given |= _key_node(build, asked.key_node)
    return (*(f"{flag}={value}" for flag, value in given.items() if flag not in own.flags), *own.words)


def _number(value: float | None) -> str | None:
    return None if value is None else str(int(value) if value == int(value) else value)


def _required(build: Build, asked: dict[str, str | None]) -> dict[str, str]:
    """Return the options that were asked for, none of which a build may lack."""
    given = {flag: value for flag, value in asked.items() if value is not None}
    if lacking := [flag for flag in given if flag not in build.flags]:
        raise ToolError(f"this build of DLProf has no {' and no '.join(lacking)}", "leave it out")
    return given


def _mode(build: Build, asked: str) -> str | None:
    """Return the mode to pass; None leaves the build's default, its framework's mode."""
    modes = build.values("--mode", *MODES)
    if asked == AUTO:
        return "tensorflow2" if "tensorflow2" in modes else None
    if asked not in modes:
        has = f"the modes {', '.join(modes)}" if modes else "no --mode"
        raise ToolError(
            f"DLProf {build.version or ''}".strip() + f" has {has}, not {asked}",
            "use --mode auto, or the container of the other framework",
        )
    return asked


def _key_node(build: Build, key_node: str | None) -> dict[str, str]:
    if key_node is None:
        return {}
    flag = next((name for name in KEY_FLAGS if name in build.flags), None)
    if flag is None:
        raise ToolError("this build of DLProf takes no key node", "leave --key-node out, or use a later container")
    return {flag: key_node}


def _base_name(folder: Path) -> str:
    """Return a unique name for Nsight Systems' files, as they may land in the working directory."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", f"nsys_{folder.name.removeprefix(PARTIAL)}")


def collect(request: CaptureRequest, exit_code: int, died_of: int | None = None) -> Collected:
    """Gather reports and database, and say what is missing."""
    folder = home(request.folder)
    _fetch(folder, _beside(request.folder))
    probe, database = read_probe(request.folder), _database(folder)
    own = probe.get("exit_code")
    code = own if isinstance(own, int) else None if died_of is None else 128 + died_of
    files = [*_reports(folder), *([database] if database else [])]
    return collected(request, files, _notes(folder, exit_code, code, request.dlprof.key_node), probe, exit_code, code)


def _beside(folder: Path) -> list[Path]:
    """Return what Nsight Systems wrote beside the workload; the name shows that it belongs to this run."""
    return sorted(p for p in Path().glob(f"{_base_name(folder)}.*") if p.is_file())


def _fetch(folder: Path, files: list[Path]) -> None:
    """Move files into DLProf's folder; those that cannot be moved stay, as the reports do not need them."""
    for path in files:
        if not (folder / path.name).exists():
            with suppress(OSError):
                shutil.move(path, folder / path.name)


def _reports(home: Path) -> tuple[Path, ...]:
    """Return the reports that are not empty, sorted."""
    return filled(p for p in home.glob("*") if p.suffix in REPORTS)


def _database(home: Path) -> Path | None:
    """Return DLProf's database: the newest, for DLProf numbers them and overwrites none."""
    return _newest(home.glob("dlprof_dldb*.sqlite"))


def _nsys_database(home: Path) -> Path | None:
    """Return the database that Nsight Systems exported, which DLProf can read again; None if there is none."""
    return _newest(p for p in home.glob("*.sqlite") if "dldb" not in p.name)


def _newest(paths: Iterable[Path]) -> Path | None:
    return max(filled(paths), key=lambda p: p.stat().st_mtime_ns, default=None)


def _text(path: Path) -> str:
    return (head(path, PEEK_BYTES) or b"").decode("utf-8", errors="replace")


def _notes(home: Path, exit_code: int, workload_code: int | None, key_node: str | None) -> Iterator[Note]:
    """Say what is missing from a run, and what to do about it.

    Args:
        home: DLProf's output folder.
        exit_code: exit code of DLProf.
        workload_code: the workload's own; None where it is not known.
        key_node: the key node asked for.
    """
    held = _reports(home)
    if not held:
        yield _nothing(home, exit_code, key_node)
    elif exit_code != 0 and exit_code != workload_code:
        known = workload_code is not None
        whose = f"the workload itself ended with {workload_code}" if known else "the workload's own code or DLProf's"
        yield Note(
            "dlprof-exit",
            f"dlprof ended with exit code {exit_code}, though it wrote reports: {whose}",
            "see what the workload printed",
        )
    if held and not any(path.stem.endswith("_summary") for path in held):
        yield Note(
            "no-summary",
            "DLProf wrote no summary (runs of batch size 1 have been seen to end so): GPU and versions are not known",
            "run it again, with a larger batch",
        )
    if key_node is not None:
        yield from _no_key_node(held, key_node)
    if _database(home) or _nsys_database(home):
        yield _private(home)


def _private(home: Path) -> Note:
    return Note(
        "private-files",
        f"the databases in {home.name} hold the whole environment and command line of the run, passwords included",
        "leave *.sqlite out when you pass the folder on; the report does not need them",
        "note",
    )


def _no_key_node(held: Sequence[Path], key_node: str) -> Iterator[Note]:
    told = [m[1] for p in held if p.stem.endswith("_expert_systems") for m in _NOT_FOUND.finditer(_text(p))]
    if told:
        yield Note(
            "key-node-not-found",
            f"DLProf found no op called {key_node!r}: the whole process counts as one iteration",
            "give --key-node the Op ID or Op Name of an op that runs once a step, from raw/dlprof/dlprof_detailed.csv "
            "of the run folder (the loss, or the optimizer's counter, as in ASSIGNADDVARIABLEOP_1)",
        )


def _nothing(home: Path, exit_code: int, key_node: str | None) -> Note:
    interrupted = exit_code > 128
    if (found := _nsys_database(home)) is not None:
        key = f" --key_node={shlex.quote(key_node)}" if key_node else ""
        return Note(
            "dlprof-post-processing",
            f"Nsight Systems recorded the run and DLProf wrote no report from it (exit code {exit_code})",
            "the report is of the recording itself; for DLProf's own figures aggregate it again, without running the "
            f"workload: in raw/{home.name} of the run folder, dlprof --database={found.name}{key} --reports=all "
            "--output_path=reports, then tcprobe report reports (other builds: --nsys_database, --key_op)",
            "error",
        )
    if interrupted:
        return Note(
            "dlprof-interrupted",
            "DLProf was interrupted and wrote nothing: it does not complete when its workload is",
            "let the workload end by itself, after fewer steps",
            "error",
        )
    return Note(
        "no-reports",
        f"DLProf wrote no report (exit code {exit_code})",
        "see what it printed; a build may refuse a mode or the driver, and needs nsys beside it",
        "error",
    )
