"""Put the probe into a run folder and start a workload through it, for every capture that uses the probe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tcprobe.bypath import PROBE
from tcprobe.capture.base import CaptureRequest
from tcprobe.capture.environment import PROBE_SINCE, PythonInfo
from tcprobe.errors import OutputError
from tcprobe.jsonfile import read_object
from tcprobe.probe.constants import SKIPPED_STEPS, WINDOW_BYTES, WINDOW_SECONDS, WINDOW_STEPS
from tcprobe.schema.profile import Note

CONFIG: Final = "config.json"


def install_probe(request: CaptureRequest, profile: bool) -> tuple[str, ...]:
    """Copy the probe into the run folder, write its orders, and return the command that runs the workload through it.

    Args:
        request: what to capture; its folder has ``probe/`` and ``raw/``.
        profile: whether the probe starts TensorFlow's profiler, or only watches beside another.

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


def no_probe_in(holds: PythonInfo) -> str:
    """Return why an interpreter cannot run the probe, which is too old for it."""
    return f"is Python {holds.python}; the probe needs {'.'.join(map(str, PROBE_SINCE))} or later"


def orders(request: CaptureRequest, profile: bool) -> dict[str, object]:
    """Return the content of config.json, described in docs/run-folder.md."""
    return {
        "schema": 1,
        "out": str(request.folder / "probe"),
        "raw": str(request.folder / "raw"),
        "target": [request.target.kind, request.target.name],
        "argv": list(request.target.args),
        "profile": profile,
        "nvtx": profile,  # another profiler's own ranges stay as they are
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
    """Return probe.json of a run folder; empty if there is none or it is damaged."""
    return read_object(folder / "probe" / "probe.json")


def unfinished(probe: Mapping[str, object], exit_code: int | None) -> Iterator[Note]:
    """Say so if a workload ended well and the probe could not write how: its last steps are missing.

    Args:
        probe: probe.json.
        exit_code: the workload's own; None where it is not known.
    """
    if exit_code == 0 and probe.get("finished") is False:
        yield Note(
            "probe-unfinished",
            "the probe could not write the end of the run: the last steps and figures may be missing",
            "let the workload keep the right to write into the run folder, and end by itself or by sys.exit",
        )


def still_runs(folder: Path) -> bool:
    """Say whether the workload that the probe of a run folder watches runs now; False where this cannot be told.

    Its process outlives the command that was started where that is a profiler or a launcher, and is killed.
    """
    try:
        words = Path(f"/proc/{read_probe(folder).get('pid')}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or there is no /proc here, or it runs on another machine
    return os.fsencode(folder / "probe" / CONFIG) in words
