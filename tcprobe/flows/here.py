"""`profile` of a function of this process: take its steps, record them, report on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcprobe.analysis import Options
from tcprobe.capture.here.recorder import Recorder, Window
from tcprobe.flows.report import make_report
from tcprobe.schema.profile import Profile


def profile_function(
    function: Callable[[], Any],
    window: Window,
    output: Path | None = None,
    force: bool = False,
    options: Options | None = None,
) -> tuple[Path, Profile]:
    """Call `function` once for each step of the window, and report on the steps.

    Args:
        function: one training step.
        window: how many steps to take, and which of them under the profiler.
        output: the run folder; None derives a name below ``tcprobe-runs``.
        force: replace an earlier run folder.
        options: of the report.

    Returns:
        The run folder, and its analysed profile.

    Raises:
        OutputError: the folder exists, or cannot be written.
        ToolError: TensorFlow is not installed, or a profiler session is open.
        MeasurementFailed: a GPU was used and no kernel was recorded.
        Exception: what `function` raises; what was recorded until then stays in a folder that is marked partial.
    """
    recorder = Recorder.make(window, getattr(function, "__name__", "function"), output, force)
    folder: Path | None = None
    complete = False
    try:
        while not recorder.is_over:
            with recorder.step():
                function()
        complete = True
    finally:
        folder = recorder.finish(failed=not complete)
    assert folder is not None  # a window has a step
    return folder, make_report(folder, options)
