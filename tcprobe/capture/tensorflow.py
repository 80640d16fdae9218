"""The capture with TensorFlow's own profiler, which the probe starts and stops inside the workload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tcprobe.capture import environment
from tcprobe.capture.base import CaptureRequest, Collected, Launch
from tcprobe.capture.probed import (
    filled,
    install_probe,
    launched,
    make_aside,
    no_probe_in,
    other_processes,
    read_probe,
    unfinished,
)
from tcprobe.errors import ToolError
from tcprobe.foreign import below
from tcprobe.schema.profile import Note

NAME = "tensorflow"


def prepare(request: CaptureRequest) -> Launch:
    """Copy the probe, write its orders, choose the environment.

    Raises:
        OutputError: the run folder cannot be written.
        ToolError: the interpreter cannot be started, or cannot run the probe.
    """
    holds = environment.ask_interpreter(request.python, request.launcher)
    if not holds.runs_probe:
        raise ToolError(f"{request.python}: {no_probe_in(holds)}", "choose another --python")
    chosen = environment.variables(request.precision, request.xla, request.device, holds.tensorflow)
    aside = None if request.launcher else make_aside()  # most launchers close it, or run elsewhere
    command = install_probe(request, profile=True, aside=aside)
    return launched(request, chosen, command, profiler_version=holds.tensorflow, aside=aside)


def collect(request: CaptureRequest, exit_code: int, died_of: int | None = None) -> Collected:  # noqa: ARG001
    """Find the XSpace files below ``raw/`` and say what is missing; for an empty one the reader says why."""
    found = below(request.folder / "raw", lambda name: name.endswith(".xplane.pb")).files
    probe = read_probe(request.folder)
    notes = (*_probe_notes(probe, bool(found), exit_code), *unfinished(probe, exit_code))
    return Collected(filled(found), (*notes, *other_processes(request.folder)))


def _probe_notes(probe: dict[str, Any], found: bool, exit_code: int) -> Iterator[Note]:
    """Say what is missing and why, unless the probe has said so."""
    said = {n.get("code") for n in probe.get("notes") or () if isinstance(n, dict)}
    steps = probe.get("steps")
    count = steps.get("count") if isinstance(steps, dict) else None
    if not probe:
        yield Note(
            "no-probe",
            "the probe left no record: the workload ended before it could start, or stopped it",
            "see what the workload printed",
            "error",
        )
    elif "replaced" in said:
        return  # what runs now is not known
    elif not probe.get("tensorflow"):
        missing, steps = "steps, graph and kernels", ""
        if count:
            missing, steps = "graph and kernels", "; the steps are those that it marks itself"
        yield Note(
            "no-tensorflow",
            f"the workload did not import TensorFlow: {missing} were not recorded{steps}",
            "profile it with --profiler nsys (Nsight Systems), which records any framework",
        )
    elif not count and exit_code:
        yield Note("no-steps", "the workload ended before a training step was found", None)
    elif not count and "no-steps" not in said:
        yield Note(
            "no-steps",
            "no training step was found: nothing was profiled",
            "mark your step with `with tcprobe.step():`, or name its function with --step-function",
        )
    elif count and not found and exit_code == 0 and not said & {"no-window", "no-profile"}:
        yield Note("no-profile", f"{count} steps ran and the profiler left no file", None, "error")
