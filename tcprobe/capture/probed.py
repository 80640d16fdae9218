"""Put the probe into a run folder and start a workload through it: what captures with a probe share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.bypath import PROBE
from tcprobe.capture.base import CaptureRequest
from tcprobe.errors import OutputError
from tcprobe.jsonfile import read_object

CONFIG: Final = "config.json"
WINDOW_STEPS: Final = 20
WINDOW_SECONDS: Final = 60
WINDOW_BYTES: Final = 200_000_000
SKIPPED_STEPS: Final = 2


def install_probe(request: CaptureRequest, profile: bool) -> tuple[str, ...]:
    """Copy the probe into the run folder, write its orders, return the command that runs the workload through it.

    Args:
        request: what to capture; its folder holds ``probe/`` and ``raw/``.
        profile: whether the probe starts TensorFlow's profiler, or only watches.

    Raises:
        OutputError: the folder cannot be written.
        ToolError: this installation of tcprobe lacks its probe.
    """
    home = request.folder / "probe"
    try:
        return PROBE.command(request.python, home / "src", orders(request, profile), home / CONFIG, link=False)
    except OSError as error:
        raise OutputError(
            f"{home}: cannot be written: {error.strerror}", "make room, or choose another --output"
        ) from error


def orders(request: CaptureRequest, profile: bool) -> dict[str, object]:
    """Return config.json, as docs/run-folder.md describes it."""
    return {
        "schema": 1,
        "out": str(request.folder / "probe"),
        "raw": str(request.folder / "raw"),
        "target": [request.target.kind, request.target.name],
        "argv": list(request.target.args),
        "profile": profile,
        "iter_start": request.iter_start,
        "iter_stop": request.iter_stop,
        "window_steps": WINDOW_STEPS,
        "window_seconds": WINDOW_SECONDS,
        "window_bytes": WINDOW_BYTES,
        "precision": request.precision,
        "xla": request.xla,
        "step_function": request.step_function,
        "metric_patterns": list(request.metric_patterns),
        "steps_min_skip": SKIPPED_STEPS,
    }


def read_probe(folder: Path) -> dict[str, object]:
    """Return probe.json of a run folder; empty where the probe left none or it is damaged."""
    return read_object(folder / "probe" / "probe.json")
