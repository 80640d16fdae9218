"""The capture with NVIDIA's DLProf, in containers that still have it: starts the workload, keeps every report.

DLProf finds iterations by a key node, an op that runs once per step. Its post-processing may take longer than the run.
The probe runs beside it where the workload's interpreter can run it, and records steps, graph and the exit code.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tcprobe.capture import environment
from tcprobe.capture.args import Options, further
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.dlprof import left as dlprof_left
from tcprobe.capture.dlprof.build import DLPROF, Build, ask_build
from tcprobe.capture.environment import NAMED_OPS
from tcprobe.capture.probed import (
    install_probe,
    kept_by_profiler,
    other_processes,
    read_probe,
    unfinished,
    unwatched,
    why_no_probe,
    workload_below,
)
from tcprobe.capture.program import missing
from tcprobe.errors import ToolError, writing
from tcprobe.probe.constants import PARTIAL

NAME = "dlprof"

PROFILE_NAME: Final = "dlprof"
AUTO: Final = "auto"
OPTIONS: Final = Options(
    "--dlprof-args",
    "DLProf",
    "--verbosity=quiet",
    {
        "-f": "--force",
        "-v": "--verbosity",
        "-m": "--mode",
        "-y": "--delay",
        "-d": "--duration",
        "-b": "--suppress_tb_files",
    },
    {
        "--output_path": "its reports must lie in the run folder",
        "--profile_name": "its reports are found by their names",
        "--nsys_base_name": "its recording is found by its name",
        "--nsys_database": "tcprobe profile runs a workload",
        "--database": "tcprobe profile runs a workload",
        "--help": "run dlprof by hand",
        "--version": "run dlprof by hand",
    },
)


def available(request: CaptureRequest) -> str | None:
    """Return None if there is a `dlprof`, or a launcher that may lead to one; else the reason."""
    return missing(DLPROF, request.launcher)


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
    chosen = {**environment.variables(request.precision, request.xla, request.device, None), NAMED_OPS: "1"}
    unprobed = why_no_probe(request)
    # A launcher may start with a clean environment (a container, ssh): `env` sets ours on its far side.
    inside = ("env", *(f"{name}={value}" for name, value in chosen.items())) if request.launcher else ()
    workload = unwatched(request, unprobed) if unprobed else install_probe(request, profile=False, umask=request.umask)
    return Launch(
        argv=(*request.launcher, *inside, DLPROF, *flags(build, request), *workload),
        environment=chosen,
        forward_interrupt=False,
        workload=partial(workload_below, request.folder, workload),
        profiler_version=build.version,
        wraps=True,
        notes=(unprobed.note,) if unprobed else (),
        keeps=kept_by_profiler(unprobed),
    )


def home(folder: Path) -> Path:
    """Return DLProf's output folder within a run folder."""
    return folder / "raw" / "dlprof"


def flags(build: Build, request: CaptureRequest) -> tuple[str, ...]:
    """Return the options for this build: all reports in all formats, into the run folder.

    Raises:
        ToolError: the build lacks what was asked for.
        UsageError: ``--dlprof-args`` holds what is tcprobe's to set.
    """
    asked, own = request.dlprof, further(request.dlprof.args, OPTIONS)
    wanted = {
        "--mode": _mode(build, asked.mode or AUTO),
        "--reports": "all",
        "--formats": ",".join(build.formats) if len(build.formats) > 1 else None,
        "--output_path": str(home(request.folder)),
        "--profile_name": PROFILE_NAME,
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
    if asked == AUTO:
        return "tensorflow2" if "tensorflow2" in build.modes else None
    if asked not in build.modes:
        has = f"the modes {', '.join(build.modes)}" if build.modes else "no --mode"
        raise ToolError(
            f"DLProf {build.version or ''}".strip() + f" has {has}, not {asked}",
            "use --mode auto, or the container of the other framework",
        )
    return asked


def _key_node(build: Build, key_node: str | None) -> dict[str, str]:
    if key_node is None:
        return {}
    flag = build.key_flag()
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
    found = [*dlprof_left.reports(folder), dlprof_left.database(folder)]
    probe = read_probe(request.folder)
    own = probe.get("exit_code")
    code = own if isinstance(own, int) else None if died_of is None else 128 + died_of
    notes = (
        *dlprof_left.missing_notes(folder, exit_code, code, request.dlprof.key_node),
        *other_processes(request.folder),
        *unfinished(probe, exit_code if code is None else code),
    )
    return Collected(tuple(path for path in found if path is not None), notes, code)


def _beside(folder: Path) -> list[Path]:
    """Return what Nsight Systems wrote beside the workload; the name shows that it belongs to this run."""
    return sorted(p for p in Path().glob(f"{_base_name(folder)}.*") if p.is_file())


def _fetch(folder: Path, files: list[Path]) -> None:
    """Move files into DLProf's folder; those that cannot be moved stay, as the reports do not need them."""
    for path in files:
        if not (folder / path.name).exists():
            with suppress(OSError):
                shutil.move(path, folder / path.name)


def progress(folder: Path) -> str | None:
    """Say what DLProf is doing; None while the workload runs."""
    return dlprof_left.stage(home(folder), _beside(folder))
