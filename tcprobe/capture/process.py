"""Run a workload until it ends, with its own terminal, signals and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.capture.base import Launch
from tcprobe.capture.gpu_state import Watch
from tcprobe.capture.signals import ENDING, WorkloadSignals, handled, told_of_children
from tcprobe.errors import ToolError
from tcprobe.jsonfile import read_object
from tcprobe.visible import interject, say

POLL_SECONDS: Final = 0.2
ANEW: Final = "\r\x1b[K"  # clears the line: the workload may have left the cursor anywhere
Watcher = Callable[[], None]


class Ended(Struct, frozen=True):
    """How a workload ended."""

    exit_code: int  # its own; 128 + n if signal n ended it
    wall_ns: int  # how long it ran
    signals: tuple[str, ...] = ()  # names of the signals that came meanwhile and were the workload's, each once
    died_of: int | None = None  # the signal that was sent to the workload below a profiler, and that it did not handle
    gpus: Watch | None = None  # what the GPUs of this machine were in meanwhile; None where nobody looked

    @property
    def interrupted(self) -> bool:
        """Return whether it was interrupted, by Ctrl-C or otherwise."""
        return signal.SIGINT.name in self.signals

    @property
    def cut(self) -> bool:
        """Return whether a signal came that is sent to end something: whether the run is whole is not known then."""
        return any(number.name in self.signals for number in ENDING)


def run_workload(
    launch: Launch,
    stdout_to_stderr: bool = False,
    watch: Watcher | None = None,
    goes_on: Callable[[], bool] = lambda: False,
    umask: int | None = None,
    early: list[int] | None = None,
) -> Ended:
    """Start `launch` and wait until it ends; it inherits standard input, output and error.

    In the foreground of a terminal, the workload shares our process group: the terminal sends Ctrl-C and Ctrl-Z to
    both, and we wait for the workload to end. Otherwise it gets its own group, and we pass on what is sent to us. The
    second interrupt terminates it, the third kills it.

    Args:
        launch: what to start.
        stdout_to_stderr: move its standard output to standard error, so that ours holds only the report.
        watch: function to call several times per second while it runs.
        goes_on: says whether the workload still runs, although the command that started it has ended.
        umask: the mask of its process; None leaves it ours.
        early: signals that were held until now, and are the workload's; emptied.

    Raises:
        ToolError: it cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    shared = launch.forward_interrupt and launch.workload is None
    own_group = not (shared and in_foreground())
    start = time.monotonic_ns()
    signals = WorkloadSignals(own_group, launch.forward_interrupt, launch.workload)
    with told_of_children(), handled(signals.handlers()):
        signals.take(early or [])
        child = _start(launch, own_group, stdout_to_stderr, umask)
        signals.started(child)
        while (code := _wait(child)) is None:
            signals.deliver()
            watch = _watched(watch)
        if goes_on():
            interject(f"{launch.argv[0]} has ended and the workload goes on; waiting for it to end")
        while goes_on():
            time.sleep(POLL_SECONDS)
            signals.deliver()
            watch = _watched(watch)
    names = tuple(dict.fromkeys(number.name for number in signals.came))
    return Ended(128 - code if code < 0 else code, time.monotonic_ns() - start, names, signals.died_of)


def _watched(watch: Watcher | None) -> Watcher | None:
    """Let a watcher watch; return it, or None where it can tell nobody any more (its terminal was closed)."""
    try:
        if watch is not None:
            watch()
    except (OSError, ValueError):
        return None
    return watch


def in_foreground() -> bool:
    """Say whether the terminal sends Ctrl-C to our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _start(launch: Launch, own_group: bool, stdout_to_stderr: bool, umask: int | None) -> subprocess.Popen[bytes]:
    # A group in the background of a terminal would be stopped at its first read from it.
    asks_terminal = launch.forward_interrupt and launch.workload is None
    no_input = own_group and not asks_terminal and os.isatty(0)
    try:
        return subprocess.Popen(
            list(launch.argv),
            env={**os.environ, **launch.environment},
            process_group=0 if own_group else None,
            umask=-1 if umask is None else umask,
            stdin=subprocess.DEVNULL if no_input else None,
            stdout=sys.stderr.fileno() if stdout_to_stderr else None,
            pass_fds=() if launch.aside is None else (launch.aside,),
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        what = "no such program" if missing else f"cannot be started: {error.strerror}"
        raise ToolError(f"{launch.argv[0]}: {what}", "check --python and --launcher") from error


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


class Progress:
    """Prints on a terminal how far the workload is, from the probe's steps.csv.

    Prints whole lines only, at the start and end of the profiled window and every `every_s` seconds in between:
    the workload writes to the same terminal, and a line redrawn in place would garble its output. Steps among which the
    process was stopped have no length here.
    """

    def __init__(self, steps: Path, every_s: float = 10.0) -> None:
        self.steps, self.every_s = steps, every_s
        self.said_at = time.monotonic()
        self.inode, self.offset, self.rest = 0, 0, b""
        self.kind = ""
        self.last: tuple[int, int] | None = None
        self.shown: tuple[int, int] | None = None

    def __call__(self) -> None:
        """Read what is new and print it if it is worth a line."""
        before = self.kind
        self._read()
        changed = self.kind != before and (self.kind == "profiled" or before == "profiled")
        due = time.monotonic() - self.said_at >= self.every_s and self.last != self.shown
        if self.last is not None and (changed or due):
            say(self._text(), ANEW)
            self.said_at, self.shown = time.monotonic(), self.last

    def _read(self) -> None:
        try:
            with self.steps.open("rb") as file:
                if (inode := os.fstat(file.fileno()).st_ino) != self.inode:
                    # The probe rewrites the file when it finds that the steps are other calls than it thought.
                    self.inode, self.offset, self.rest, self.last, self.shown = inode, 0, b"", None, None
                file.seek(self.offset)
                new = file.read(1 << 20)
        except OSError:
            return
        self.offset += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        for line in lines:
            step, _, after = line.partition(b",")
            start, _, kind = after.partition(b",")
            if step.isdigit() and start.isdigit():
                self.last, self.kind = (int(step), int(start)), kind.decode("ascii", "replace").strip()
                self.shown = self.shown or self.last

    def _text(self) -> str:
        step, start = self.last or (0, 0)
        shown_step, shown_start = self.shown or (step, start)
        state = {"profiled": ", profiling", "after": ", profiled"}.get(self.kind, "")
        if step == shown_step or self._stood_still(shown_start, start):
            return f"step {step}{state}"
        return f"step {step}, {(start - shown_start) / (step - shown_step) / 1e9:.4g} s a step{state}"

    def _stood_still(self, since: int, until: int) -> bool:
        """Say whether the probe saw the whole process stand still (Ctrl-Z) between two times of steps.csv."""
        said = read_object(self.steps.with_name("probe.json")).get("pauses")
        stops = [pause.get("stop_ns") for pause in said if isinstance(pause, dict)] if isinstance(said, list) else []
        return any(isinstance(stop, int) and since < stop <= until for stop in stops)


def progress_watcher(folder: Path) -> Watcher | None:
    """Return a function that shows on a terminal how far a run folder's workload is; None if standard error is none."""
    return Progress(folder / "probe" / "steps.csv") if sys.stderr.isatty() else None
