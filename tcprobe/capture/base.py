"""What makes a module a capture: the names it must define. `tcprobe.capture.CAPTURES` lists the captures.

A capture says how to start a workload under its profiler and, once the workload has ended, what the profiler
wrote. Starting, waiting, signals and the run folder are the same for all (`process.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from tcprobe.schema.profile import Note


class Invocation(Struct, frozen=True):
    """The workload to run: a script or module and its arguments."""

    kind: str  # ``script`` (`name` is a path) or ``module`` (as after ``python -m``)
    name: str  # path of the script, or dotted name of the module
    args: tuple[str, ...] = ()  # its own arguments, unchanged
    label: str = "workload"  # short name for folders and headings (``train_gan``)
    source: bytes | None = None  # what runs in place of what the script's file holds; None: that


class DlprofOptions(Struct, frozen=True):
    """What was asked for that only DLProf knows; None and nothing leave it to DLProf."""

    key_node: str | None = None  # Op ID or Op Name of an op that runs once in each step
    mode: str | None = None  # auto, or one of DLProf's modes
    delay_s: float | None = None  # seconds before it begins to record
    duration_s: float | None = None  # seconds that it records; 0 is the whole run
    args: tuple[str, ...] = ()  # further words for its command line, unchanged


class NsysOptions(Struct, frozen=True):
    """What was asked for that only Nsight Systems knows."""

    args: tuple[str, ...] = ()  # further words for its command line, unchanged
    # run the workload a second time, under TensorFlow's own profiler, for the ops of its kernels
    with_xspace: bool = False


class NcuOptions(Struct, frozen=True):
    """What was asked for that only Nsight Compute knows; None and None count one step."""

    kernels: str | None = None  # regular expression for the names of the kernels to count
    launch_count: int | None = None  # launches to count, from the run's first; None: all


class CaptureOptions(Struct, frozen=True, kw_only=True):
    """How to run and profile a workload, as the user asked for it."""

    launcher: tuple[str, ...] = ()  # words to put before the whole command (``singularity exec --nv image.simg``)
    ranks: tuple[int, ...] | None = None  # ranks of the job that the launcher starts to profile; None: all
    # iter_start, iter_stop: first and last step to profile; None leaves the choice to the capture.
    iter_start: int | None = None
    iter_stop: int | None = None
    precision: str | None = None  # float32, tf32, mixed_float16, mixed_bfloat16; None changes nothing
    xla: bool | None = None  # True, False, or None for unchanged
    device: str | None = None  # value of CUDA_VISIBLE_DEVICES; None takes the first visible GPU
    numerics: bool = False  # count what float16 would make of gradients, which slows the steps
    metric_patterns: tuple[str, ...] = ()  # additional regular expressions for logged figures
    step_function: str | None = None  # name of the function that is one step, if the user named it
    dlprof: DlprofOptions = field(default_factory=DlprofOptions)  # settings of the capture with DLProf only
    nsys: NsysOptions = field(default_factory=NsysOptions)  # settings of the capture with Nsight Systems only
    ncu: NcuOptions = field(default_factory=NcuOptions)  # settings of the capture with Nsight Compute only


class CaptureRequest(CaptureOptions, frozen=True):
    """What to capture, and how."""

    target: Invocation  # the workload
    folder: Path  # the run folder (still under its temporary name), with ``raw/`` and ``probe/`` made
    python: str  # interpreter for the workload
    umask: int | None = None  # the workload's; None is that of this process


class Launch(Struct, frozen=True):
    """How to start a workload."""

    argv: tuple[str, ...]  # the whole command line, including the launcher
    environment: dict[str, str] = field(default_factory=dict)  # variables to set in addition to the inherited ones
    # a descriptor of this process that the workload inherits, and whose file it writes what is shown at its end: what
    # it had no time to sort; closed then
    aside: int | None = None
    # whether Ctrl-C reaches the workload at once (a terminal sends it to the whole process group); False starts it in
    # its own group, as DLProf needs
    forward_interrupt: bool = True
    # finds, below the process that is started, those of the workload, which alone signals are for where a profiler
    # would not pass each on once; None before it has any. Itself None where signals are for all.
    workload: Callable[[int], Sequence[int] | None] | None = None
    profiler_version: str | None = None  # version of the profiler, if it says so
    # whether the command that is started is the profiler, whose exit code need not be the workload's
    wraps: bool = False
    notes: tuple[Note, ...] = ()  # what this run will lack, known before it starts
    keeps: str = ""  # what the profiler's own files will hold that is the user's alone; empty if nothing


class Collected(Struct, frozen=True):
    """What the profiler wrote."""

    files: tuple[Path, ...] = ()  # profile files below ``raw/``
    notes: tuple[Note, ...] = ()  # what went wrong or limits the figures, each with its remedy
    # the workload's own exit code where a profiler wraps it; None where that is not known
    workload_code: int | None = None


class Capture(Protocol):
    """One profiler."""

    NAME: str  # its name on the command line

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
