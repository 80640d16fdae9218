"""The capture with NVIDIA's Nsight Compute: counts what the Tensor Cores do, kernel by kernel, in one step.

It runs each kernel alone, several times where its counters need that: what is counted is exact, and the times are those
of no step. The probe marks the step, by the range of NVTX that Nsight Systems' recording begins and ends with.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.capture import environment, program
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.nsys import DISABLED, ENDLESS
from tcprobe.capture.probed import collected, filled, launched_below, of_ranks, read_probe, why_no_probe
from tcprobe.capture.program import Profiler, first_line, where
from tcprobe.errors import InputError, ToolError, UsageError, writing
from tcprobe.foreign import read
from tcprobe.jsonfile import record
from tcprobe.probe.constants import DOMAIN, WINDOW_RANGE
from tcprobe.schema.profile import Note
from tcprobe.tensor_metrics import tensor_metrics
from tcprobe.visible import say

NAME = "ncu"
NCU: Final = Profiler(
    "ncu",
    "Nsight Compute",
    ("--help",),
    r"--[a-z][a-z-]+",
    "it is part of the CUDA toolkit (https://developer.nvidia.com/nsight-compute); put its folder on PATH",
    "",
    "",
    {},
)
REPORT: Final = "report"
LOG: Final = "ncu.log"
"""What ncu says, apart from what the workload prints."""
BY_NAME: Final = "name kernels instead: --kernels REGEX --launch-count 50"
MOST_BYTES: Final = 64 << 20
NOT_ALLOWED: Final = "ERR_NVGPUCTRPERM"
FIRST_STEP: Final = 10
"""The step that is counted where none was named: by then calls are known to be steps, and kernels were chosen."""
_NEEDED: Final = ("--metrics", "--nvtx-include", "--kernel-name", "--launch-count", "--log-file", "--export")
_SAYS: Final = re.compile(r"^==(?:ERROR|WARNING)==\s*(.*\S)", re.MULTILINE)
_FAILED: Final = re.compile(r"application returned an error code \((\d+)\)")


class _Window(Struct):
    """The steps that the probe marked for ncu, in probe.json."""

    first_step: int
    last_step: int


def prepare(request: CaptureRequest) -> Launch:
    """Ask which counters of the Tensor Cores this GPU has, and say how to start the workload so that they are read.

    Raises:
        ToolError: Nsight Compute is missing or another program, or nothing can mark a step for it.
        UsageError: the launcher starts ranks.
        OutputError: the run folder cannot be written.
    """
    if of_ranks(request):
        raise UsageError(
            "--profiler ncu is for one process: kernels that run alone leave the other ranks of a job waiting",
            "leave --launcher out, or record the ranks with --profiler nsys",
        )
    build = program.ask_build(NCU, request.launcher)
    if lacks := [flag for flag in _NEEDED if flag not in build.flags]:
        raise ToolError(
            f"{where(NCU, request.launcher)}: is not Nsight Compute, or one that is too old: its help lists no "
            f"{', '.join(lacks)}",
            f"it printed: {first_line(build.text)!r}",
        )
    unprobed = why_no_probe(request)
    if _of_step(request) and (unprobed or os.environ.get(DISABLED)):
        why = unprobed.why if unprobed else f"{DISABLED} is set"
        raise ToolError(f"no step can be marked for Nsight Compute: {why}", BY_NAME)
    with writing(home(request.folder)):
        home(request.folder).mkdir(parents=True, exist_ok=True)
    # How long a step takes in which kernels are run again and again says nothing.
    orders = {"profile": True, "nvtx": True, "tool": True, "umask": request.umask, "window_bytes": ENDLESS}
    orders |= {"window_seconds": ENDLESS, "window_steps": ENDLESS}
    if _of_step(request):  # named beforehand: a range that waits for steps to settle would have those in it too
        orders |= {"window_steps": 1, "iter_start": _first(request)}
    holds = environment.ask_interpreter(request.python, request.launcher)
    command = (NCU.program, *flags(request))
    return replace(launched_below(command, build, request, unprobed, holds.tensorflow, orders), keeps="")


def home(folder: Path) -> Path:
    """Return Nsight Compute's output folder within a run folder."""
    return folder / "raw" / NAME


def flags(request: CaptureRequest) -> tuple[str, ...]:
    """Return its options: the counters that this GPU has, of one step, or of the kernels that were asked for."""
    place, asked = str(home(request.folder)).replace("%", "%%"), request.ncu
    if _of_step(request):
        which = ["--nvtx", f"--nvtx-include={DOMAIN}@{WINDOW_RANGE}"]
    else:
        which = [] if asked.kernels is None else [f"--kernel-name=regex:{asked.kernels}"]
        which += [] if asked.launch_count is None else [f"--launch-count={asked.launch_count}"]
    metrics = ",".join(tensor_metrics(_output((*request.launcher, NCU.program, "--query-metrics"))[0]))
    files = (f"--log-file={home(request.folder) / LOG}", f"--export={place}/{REPORT}")
    return ("--target-processes=all", f"--metrics={metrics}", *which, *files)


def _of_step(request: CaptureRequest) -> bool:
    """Whether one step is counted; else what is counted is chosen by name and number, from the run's start."""
    return request.ncu.kernels is None and request.ncu.launch_count is None


def _first(request: CaptureRequest) -> int:
    """Return the first step that is counted."""
    start, stop = request.iter_start, request.iter_stop
    return start if start is not None else FIRST_STEP if stop is None else min(FIRST_STEP, stop)


def _output(command: Sequence[str]) -> tuple[str, str]:
    """Return what a command of ncu's prints, and why it failed; empty if it did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        return "", f"ncu cannot be started: {error.strerror}"
    said = first_line(done.stderr) or first_line(done.stdout)
    return done.stdout, f"it ended with exit code {done.returncode}: {said}" if done.returncode else ""


def collect(request: CaptureRequest, exit_code: int, died_of: int | None = None) -> Collected:
    """Print what was counted as CSV beside it, and say what is missing."""
    folder, probe = home(request.folder), read_probe(request.folder)
    reports = filled(folder.glob("*.ncu-rep"))
    said = _said(folder / LOG)
    files, notes = list(reports), []
    for report in reports:
        if failed := _exported(report, request.launcher):
            how = f"ncu --import {report.name} --csv --page raw > {report.stem}.csv"
            message = f"what was counted was not printed as CSV: {report.name}: {failed}"
            notes.append(Note("ncu-export", message, f"in raw/{NAME} of the run folder, {how}", "error"))
        else:
            files.append(report.with_suffix(".csv"))
    if not reports:
        notes.append(_nothing(request, probe, said, exit_code))
    elif _of_step(request) and (window := record(_Window, probe.get("window"))) is not None:
        last = "" if window.last_step == window.first_step else f" to {window.last_step}"
        notes.append(Note("ncu-one-step", f"all launches are of step {window.first_step}{last}", None, "note"))
    own = _workload_code(probe, said, bool(reports), died_of)
    return collected(request, files, notes, probe, exit_code, own)


def _said(log: Path) -> list[str]:
    """Return the errors and warnings in what ncu said; none of what cannot be read."""
    try:
        return _SAYS.findall(read(log, MOST_BYTES).decode(errors="replace"))
    except InputError:
        return []


def _exported(report: Path, launcher: tuple[str, ...]) -> str:
    """Print a report as CSV beside it; return why that failed, empty if it did not."""
    say(f"printing {report.name} as CSV")
    text, failed = _output((*launcher, NCU.program, "--import", str(report), "--csv", "--page", "raw"))
    if failed or "Kernel Name" not in text:
        return failed or f"ncu printed no table: {first_line(text)}"
    report.with_suffix(".csv").write_text(text, encoding="utf-8")
    return ""


def _workload_code(probe: Mapping[str, object], said: Sequence[str], reported: bool, died_of: int | None) -> int | None:
    """Return the workload's own exit code; None where it is not known.

    ncu's own tells nothing of it: without a GPU it is 1, and the workload never began.
    """
    own = probe.get("exit_code")
    if isinstance(own, int):
        return own
    if died_of is not None:
        return 128 + died_of
    if probe or not reported:
        return None
    return next((int(code[1]) for code in map(_FAILED.search, said) if code), 0)


def _nothing(request: CaptureRequest, probe: Mapping[str, object], said: Sequence[str], exit_code: int) -> Note:
    """Say why no kernel was counted."""
    said = [line for line in said if not _FAILED.search(line)]
    if any(NOT_ALLOWED in line for line in said):
        message = f"Nsight Compute was not allowed to read the GPU's counters ({NOT_ALLOWED})"
        remedy = "tcprobe doctor says what allows it"
    elif not probe and why_no_probe(request) is None:
        message = f"Nsight Compute ended with exit code {exit_code} before the workload began, as it does without a GPU"
        remedy = "run it where there is a GPU and its driver; --profiler tensorflow and nsys run anywhere"
    elif _of_step(request) and isinstance(count := _steps(probe), int) and count <= _first(request):
        ended = f"the run ended after {count} steps" if count else "no step was seen in the run"
        message = f"no kernel was counted: step {_first(request)} was to be, and {ended}"
        remedy = f"train longer, or name a step: --iter-start N; or {BY_NAME}"
    else:
        message = f"no kernel was counted; Nsight Compute says '{said[0] if said else f'exit code {exit_code}'}'"
        step = f"see whether the step runs on the GPU; or {BY_NAME}"
        remedy = step if _of_step(request) else "see whether --kernels is part of the name of a kernel that runs"
    return Note("no-report", message, remedy, "error")


def _steps(probe: Mapping[str, object]) -> object:
    steps = probe.get("steps")
    return steps.get("count") if isinstance(steps, dict) else None
