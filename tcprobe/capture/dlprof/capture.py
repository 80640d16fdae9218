"""The capture with NVIDIA's DLProf, in containers that still have it: starts the workload, keeps every report.

DLProf finds iterations by a key node, an op that runs once per step. ``--iter-stop`` is applied later, when the
reports are read, because DLProf's own option is unreliable. Its post-processing may take longer than the run.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from tcprobe.capture import environment
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.dlprof import left as dlprof_left
from tcprobe.capture.dlprof.build import DLPROF, Build, ask_build, missing
from tcprobe.errors import OutputError, ToolError

NAME = "dlprof"

PROFILE_NAME: Final = "dlprof"
AUTO: Final = "auto"
NVTX: Final = "TF_ENABLE_NVTX_RANGES"
"""NVIDIA's TensorFlow names its ops to the profiler only if this is 1 (in later builds); others ignore it."""


def available(request: CaptureRequest) -> str | None:
    """Return None if there is a `dlprof`, or a launcher that may lead to one; else the reason."""
    return missing(request.launcher)


def prepare(request: CaptureRequest) -> Launch:
    """Choose flags that this build has and say how to start it.

    Raises:
        ToolError: DLProf is missing, another program, or lacks what was asked for.
        OutputError: the run folder cannot be written.
    """
    if request.precision in ("mixed_float16", "mixed_bfloat16"):
        raise ToolError(
            f"DLProf runs the script as it is and cannot set {request.precision}",
            "set the policy in the script, or profile with --profiler tensorflow",
        )
    build = ask_build(request.launcher)
    folder = home(request.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror}", "choose another --output") from error
    chosen = {**environment.variables(request.precision, request.xla, request.device, None), NVTX: "1"}
    # A launcher may start with a clean environment (a container, ssh): `env` sets ours on its far side.
    inside = ("env", *(f"{name}={value}" for name, value in chosen.items())) if request.launcher else ()
    command = (*request.launcher, *inside, DLPROF, *flags(build, request), *_workload(request))
    return Launch(command, chosen, forward_interrupt=False, profiler_version=build.version)


def home(folder: Path) -> Path:
    """Return DLProf's output folder within a run folder."""
    return folder / "raw" / "dlprof"


def _workload(request: CaptureRequest) -> tuple[str, ...]:
    module = ("-m",) if request.target.kind == "module" else ()
    return (request.python, *module, request.target.name, *request.target.args)


def flags(build: Build, request: CaptureRequest) -> tuple[str, ...]:
    """Return the options for this build: all reports in all formats, into the run folder.

    Raises:
        ToolError: the build lacks the mode or key node that was asked for.
    """
    wanted = {
        "--mode": _mode(build, request.options.get("mode", AUTO)),
        "--reports": "all",
        "--formats": ",".join(build.formats) if len(build.formats) > 1 else None,
        "--output_path": str(home(request.folder)),
        "--profile_name": PROFILE_NAME,
        "--nsys_base_name": _base_name(request.folder),
        "--suppress_tb_files": "true",
        "--iter_start": None if request.iter_start is None else str(request.iter_start),
    }
    given = [f"{flag}={value}" for flag, value in wanted.items() if value is not None and flag in build.flags]
    return (*given, *_key_node(build, request.options.get("key_node")))


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


def _key_node(build: Build, key_node: str | None) -> tuple[str, ...]:
    if key_node is None:
        return ()
    flag = build.key_flag()
    if flag is None:
        raise ToolError("this build of DLProf takes no key node", "leave --key-node out, or use a later container")
    return (f"{flag}={key_node}",)


def _base_name(folder: Path) -> str:
    """Return a unique name for Nsight Systems' files, as they may land in the working directory."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", f"nsys_{folder.name.removeprefix('.partial-')}")


def collect(request: CaptureRequest, exit_code: int) -> Collected:
    """Gather reports and database, and say what is missing."""
    folder = home(request.folder)
    _fetch(folder, _beside(request.folder))
    found = [*dlprof_left.reports(folder), dlprof_left.database(folder)]
    notes = dlprof_left.missing_notes(folder, exit_code, request.options.get("key_node"))
    return Collected(tuple(path for path in found if path is not None), tuple(notes))


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
