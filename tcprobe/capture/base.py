"""What makes a module a capture: the names it must define. `tcprobe.capture.CAPTURES` lists the captures.

A capture says how to start a workload under its profiler and, once the workload has ended, what the profiler
wrote. Starting, waiting, signals and the run folder are the same for all (`process.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tcprobe.schema.profile import Note


@dataclass(frozen=True, slots=True)
class Invocation:
    """The workload to run: a script or module and its arguments.

    Attributes:
        kind: ``script`` (`name` is a path) or ``module`` (as after ``python -m``).
        name: path of the script, or dotted name of the module.
        args: its own arguments, unchanged.
        label: short name for folders and headings (``train_gan``).
    """

    kind: str
    name: str
    args: tuple[str, ...] = ()
    label: str = "workload"


@dataclass(frozen=True, slots=True)
class DlprofOptions:
    """What was asked for that only DLProf knows; None and nothing leave it to DLProf.

    Attributes:
        key_node: Op ID or Op Name of an op that runs once in each step.
        mode: auto, or one of DLProf's modes.
        delay_s: seconds before it begins to record.
        duration_s: seconds that it records; 0 is the whole run.
        args: further words for its command line, unchanged.
    """

    key_node: str | None = None
    mode: str | None = None
    delay_s: float | None = None
    duration_s: float | None = None
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NsysOptions:
    """What was asked for that only Nsight Systems knows.

    Attributes:
        args: further words for its command line, unchanged.
        with_xspace: run the workload a second time, under TensorFlow's own profiler, for the ops of its kernels.
    """

    args: tuple[str, ...] = ()
    with_xspace: bool = False


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What to capture, as the user asked for it.

    Attributes:
        target: the workload.
        folder: the run folder (still under its temporary name), with ``raw/`` and ``probe/`` made.
        python: interpreter for the workload.
        launcher: words to put before the whole command (``singularity exec --nv image.simg``).
        iter_start, iter_stop: first and last step to profile; None leaves the choice to the capture.
        precision: float32, tf32, mixed_float16, mixed_bfloat16; None changes nothing.
        xla: True, False, or None for unchanged.
        device: value of CUDA_VISIBLE_DEVICES; None takes the first visible GPU.
        metric_patterns: additional regular expressions for logged figures.
        step_function: name of the function that is one step, if the user named it.
        dlprof: settings of the capture with DLProf only.
        nsys: settings of the capture with Nsight Systems only.
        umask: the workload's; None is that of this process.
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
    dlprof: DlprofOptions = field(default_factory=DlprofOptions)
    nsys: NsysOptions = field(default_factory=NsysOptions)
    umask: int | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a workload.

    Attributes:
        argv: the whole command line, including the launcher.
        environment: variables to set in addition to the inherited ones.
        forward_interrupt: whether Ctrl-C reaches the workload at once (a terminal sends it to the whole
            process group); False starts it in its own group, as DLProf needs.
        workload: finds, below the process that is started, those of the workload, which alone signals are for where a
            profiler would not pass each on once; None before it has any. Itself None where signals are for all.
        profiler_version: version of the profiler, if it says so.
        wraps: whether the command that is started is the profiler, whose exit code need not be the workload's.
        notes: what this run will lack, known before it starts.
        keeps: what the profiler's own files will hold that is the user's alone; empty if nothing.
    """

    argv: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    forward_interrupt: bool = True
    workload: Callable[[int], Sequence[int] | None] | None = None
    profiler_version: str | None = None
    wraps: bool = False
    notes: tuple[Note, ...] = ()
    keeps: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """What the profiler wrote.

    Attributes:
        files: profile files below ``raw/``.
        notes: what went wrong or limits the figures, each with its remedy.
        workload_code: the workload's own exit code where a profiler wraps it; None where that is not known.
    """

    files: tuple[Path, ...] = ()
    notes: tuple[Note, ...] = ()
    workload_code: int | None = None


class Capture(Protocol):
    """One profiler.

    Attributes:
        NAME: its name on the command line.
    """

    NAME: str

    def available(self, request: CaptureRequest) -> str | None:
        """Return None if the profiler can be used for this request, else the reason why not."""
        ...

    def prepare(self, request: CaptureRequest) -> Launch:
        """Write what the workload's process needs into the folder and say how to start it.

        Raises:
            ToolError: the profiler is missing, too old, or another program of that name.
        """
        ...

    def collect(self, request: CaptureRequest, exit_code: int, died_of: int | None = None) -> Collected:
        """Gather what the profiler wrote, once all has ended.

        Args:
            request: what was captured.
            exit_code: that of the command which was started.
            died_of: signal that was sent to the workload, which did not handle it; None where there was none.
        """
        ...
