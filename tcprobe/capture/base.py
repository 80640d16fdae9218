"""What a capture is: a module of this package with these names, listed in `tcprobe.capture.CAPTURES`.

A capture says how to start a workload under its profiler and, when the workload has ended, what the
profiler left behind. Starting, waiting, signals and the run folder are the same for all (`process.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tcprobe.schema.profile import Note


@dataclass(frozen=True, slots=True)
class Invocation:
    """The workload.

    Attributes:
        kind: ``script`` (name is a path) or ``module`` (as after ``python -m``).
        name: path of the script, or dotted name of the module.
        args: its own arguments, untouched.
        label: short name for folders and headings (``train_gan``).
    """

    kind: str
    name: str
    args: tuple[str, ...] = ()
    label: str = "workload"


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What the user asked to be captured.

    Attributes:
        target: the workload.
        folder: the run folder (still under its temporary name), with ``raw/`` and ``probe/`` made.
        python: interpreter that runs the workload.
        launcher: words that stand before everything (``singularity exec --nv image.simg``).
        iter_start, iter_stop: steps asked for, both included; None leaves the choice to the capture.
        precision: float32, tf32, mixed_float16, mixed_bfloat16; None changes nothing.
        xla: True, False, or None for unchanged.
        device: value for CUDA_VISIBLE_DEVICES; None takes the first visible GPU.
        metric_patterns: further regular expressions for logged figures.
        step_function: name of the function that is one step, where the user names it.
        options: settings of one capture only (``key_node``, ``mode`` for DLProf).
    """

    target: Invocation
    folder: Path
    python: str
    launcher: tuple[str, ...] = ()
    iter_start: int | None = None
    iter_stop: int | None = None
    precision: str | None = None
    xla: bool | None = None
    device: str | None = None
    metric_patterns: tuple[str, ...] = ()
    step_function: str | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start it.

    Attributes:
        argv: the whole command line, launcher included.
        environment: variables to set over the inherited ones.
        forward_interrupt: whether Ctrl-C reaches the workload at once (a terminal sends it to the whole
            process group); False starts it in a group of its own, as DLProf needs.
        profiler_version: version of the profiler, where it can be asked.
    """

    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    forward_interrupt: bool = True
    profiler_version: str | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What the profiler left.

    Attributes:
        files: profile files below ``raw/``.
        notes: what went wrong or limits the figures, each with its remedy.
    """

    files: tuple[Path, ...] = ()
    notes: tuple[Note, ...] = ()


class Capture(Protocol):
    """One profiler.

    Attributes:
        NAME: its name on the command line.
    """

    NAME: str

    def available(self, request: CaptureRequest) -> str | None:
        """Return None where the profiler can be used for this request, else the reason why not."""
        ...

    def prepare(self, request: CaptureRequest) -> Launch:
        """Write what the workload's process needs into the folder and say how to start it.

        Raises:
            ToolError: the profiler is missing, foreign or too old.
        """
        ...

    def collect(self, request: CaptureRequest, exit_code: int) -> Collected:
        """Gather what the profiler left after the workload ended with `exit_code`."""
        ...
