"""Puts the parts of the probe together, and acts as steps begin."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .api import Marker
from .config import Config
from .constants import RESERVE, RESERVED_BYTES
from .core import lines
from .core.framework import Core, Devices, Framework
from .core.gaps import Gaps
from .core.journal import Journal
from .core.ranges import Ranges
from .core.resources import free_bytes
from .core.stepper import DOMINANT, MARKED, PERIOD, Stepper
from .core.training import TrainingCalls
from .core.window import WindowState
from .script.script import AfterImport
from .script.tee import Patterns, Tee
from .sessions import RecordedRange, RecordedWindow, Sessions

SCHEMA = 1
MARK = "mark the step: with tcprobe.step(): ..., or name the ranges that are steps: tcprobe report --step-range REGEX"


class Probe:
    """One probe in one process.

    Args:
        config: its orders.
        framework: makes the framework that the workload trains with.

    Attributes:
        exit_code: the workload's; None until its main module has ended.
    """

    def __init__(self, config: Config, framework: Callable[[Core], Framework]) -> None:
        os.makedirs(config.out, 0o700, exist_ok=True)
        self.config = config
        self.exit_code: Optional[int] = None
        self.gaps = Gaps(config.mask)
        self.journal = Journal(config.out, self.gaps)
        self.ranges = Ranges(self.gaps)
        self.stepper = Stepper(self.journal, self.clock, self)
        self.training = TrainingCalls(
            self.stepper, self.journal.calls, self.ranges, self._at, self.gaps, config.step_function
        )
        self.framework = framework(Core(config, self.gaps, self.ranges, self.training))
        self._recorded = RecordedRange(self.ranges, self.gaps) if config.tool else None
        self.window = self._window()
        self.sessions = Sessions(
            config, self.gaps, self.journal, self.framework, self._recorded or self.framework.profiler,
            self.ranges, self.clock, self._finish_by, self.window,
        )  # fmt: skip
        self.marker = Marker(self.stepper, self.ranges, self.gaps)
        self.tee = Tee(self._patterns(), self.clock, self.journal.step_at, self.journal.metric, self.gaps)
        self._pid = os.getpid()
        self._began = time.perf_counter_ns()
        self._paused = 0
        self._paused_at: List[Tuple[int, int]] = []  # when it grew, and to what
        self._devices: Optional[Devices] = None
        self._policy: Optional[Dict[str, Any]] = None
        self._forks = 0
        self._finished = False
        self._replaced = False

    # --- the run -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let the framework get ready, and watch for its import."""
        hooks = self.framework.install()
        self.journal.kind = self.window.kind
        self.journal.summary = self.summary
        self.journal.before_flush = self._catch_up
        self.journal.clock = self.clock
        self.sessions.install()
        self.ranges.heard = self._heard
        hooks.update(logging=self.tee.listen_to_files, traceback=lines.clean_printed)
        hooks.update(inspect=lines.clean_inspected, warnings=lines.place_warnings)
        self._set_pace()
        self.gaps.run("imports", AfterImport(hooks, self.gaps).install)
        self.gaps.run("tcprobe.step", self.marker.install)
        self.gaps.run("fork", lambda: os.register_at_fork(after_in_parent=self._forked, after_in_child=self._in_child))
        self.gaps.run("os._exit", self._hook_exit)
        self.gaps.run("os.exec", self._hook_exec)
        self.tee.start()
        self.journal.start()
        self._began = time.perf_counter_ns()
        self._record()

    def _window(self) -> WindowState:
        numbers, starts = self.journal.numbers, self.journal.starts
        if self._recorded is None:
            return WindowState(self.config, numbers, starts)
        return RecordedWindow(self.config, numbers, starts, self.stepper.is_certain)

    def _record(self) -> None:
        """Let the tool that runs this process record, from the start unless the first step was asked for."""
        if self._recorded is not None:
            self._recorded.find_tool()
            if self.config.profile and self.config.iter_start is None:
                self.gaps.run("profiler window", self.sessions.record_from_here)

    def finish(self) -> None:
        """End the step, the window and the files; a second call does nothing."""
        if self._finished or os.getpid() != self._pid:
            return
        self._finished = True
        self.framework.finish()
        self.gaps.run("steps", self.training.drain)
        self.gaps.run("steps", self.training.conclude)
        self.gaps.run("steps", self.stepper.conclude)
        self.gaps.run("profiler stop", self._finish_window)
        self._count_no_more()
        self.gaps.run("graph record", self.framework.write)
        self.gaps.run("GPUs", self._look_at_gpus)
        self.gaps.run("notes", self._conclude)
        self.tee.stop()
        self.gaps.run("event files", self._take_losses)
        self.gaps.run("room for the last files", self._make_room)
        self.journal.finish()

    def _take_losses(self) -> None:
        """Take the losses of the workload's event files where it printed none."""
        self.tee.drain()
        if not self.framework.imported or any("loss" in name for name in self.journal.names):
            return
        now, reading = time.time(), time.perf_counter_ns()
        logged = self.framework.losses(now - (reading - self._began) / 1e9)
        for seconds, name, value in logged:
            step = self.journal.step_at(self._at_earlier(reading - round((now - seconds) * 1e9)))
            self.journal.metric(step, name, value, "")
        if logged:
            text = "no loss was printed: %d figures are of the event files that the workload wrote" % len(logged)
            self.gaps.note("event-files", text, level="note")

    def _finish_by(self, number: int) -> None:
        """Finish before a signal ends the process."""
        self.exit_code = 128 + number
        self.finish()

    def _make_room(self) -> None:
        home = os.path.dirname(self.config.out)
        reserve = os.path.join(home, RESERVE)
        if os.path.exists(reserve) and free_bytes(home) < RESERVED_BYTES:
            os.remove(reserve)

    def clock(self) -> int:
        """Return nanoseconds since the workload began, the profiler's own start and stop left out."""
        return self._at(time.perf_counter_ns())

    def _at(self, reading: int) -> int:
        return reading - self._began - self._paused

    def _at_earlier(self, reading: int) -> int:
        """Return what the clock was at an earlier reading."""
        return reading - self._began - next((all_ for at, all_ in reversed(self._paused_at) if at <= reading), 0)

    def summary(self) -> Dict[str, Any]:
        """Return the content of probe.json."""
        devices = self._devices
        return {
            "schema": SCHEMA,
            "pid": self._pid,
            "python": sys.version.split()[0],
            **self.framework.versions(),
            "policy": self._policy,
            "nvtx": self.ranges.nvtx,
            "gpus": [] if devices is None else devices.gpus,
            "gpu_used": None if devices is None else bool(devices.gpus),
            "steps": {
                "count": self.stepper.count,
                "period": self.stepper.period,
                "basis": self._basis() if self.stepper.count else None,
            },
            "parts": self.training.described(),
            "calls": {"kept": self.journal.calls.kept, "lost": self.journal.calls.lost},
            "pauses": [{"start_ns": start, "stop_ns": stop} for start, stop in list(self.journal.pauses)],
            "retraces": [{"name": name, "at_ns": at} for name, at in list(self.training.retraces)],
            "window": self.sessions.describe(self.stepper.count),
            "peak_gpu_memory_bytes": None if devices is None else devices.peak_bytes,
            "exit_code": self.exit_code,
            "gaps": self.gaps.gaps,
            "notes": self.gaps.notes,
            "finished": self._finished,
        }

    def _basis(self) -> str:
        basis = self.stepper.basis
        if self.config.step_function and basis != MARKED:
            return "step function"
        return self.framework.basis() or basis if basis == PERIOD else basis

    # --- steps -------------------------------------------------------------------------------------------

    def before_step(self, row: int, number: int) -> None:
        """Let the window act, then forget the time that it took. Between two steps, in the thread that trains."""
        began = time.perf_counter_ns()
        acted = self.sessions.before_step(row, number)
        if self.config.profile and self.window.is_over():
            self.framework.stop_recording()
        self._set_pace()
        if acted:
            ended = time.perf_counter_ns()
            self._paused += ended - began
            self._paused_at.append((ended, self._paused))

    def _set_pace(self) -> None:
        """Only note the calls from now on where nothing more is decided as they come."""
        deferred = self.window.is_over() and not self.ranges.active
        if deferred != self.training.deferred:
            self.framework.training_calls(deferred)

    def _heard(self) -> None:
        """Mark every call from now on: a tool listens."""
        self.sessions.catch_signals()
        self._set_pace()

    def _count_no_more(self) -> None:
        self.framework.training_calls(deferred=False)
        self.training.disable()

    def begun(self, number: int) -> None:
        """Mark the step that has begun."""
        if self.ranges.active:
            self.gaps.run("ranges", lambda: self.ranges.begin_step(number, self.stepper.is_certain()))

    def lost(self) -> None:
        """Mark no step while it is not known where one begins."""
        self.gaps.run("ranges", self.ranges.end_step)

    def revised(self, row: int) -> None:
        """Take the window again where the steps in it were none."""
        self.window.revised(row)
        self._set_pace()

    def phase_began(self, row: int) -> None:
        """Let the window not mix phases."""
        self.window.phase_began(row)
        self._set_pace()

    def retracted(self, row: int) -> None:
        """Forget the step that began last."""
        self.sessions.retracted(row)
        self.gaps.run("ranges", self.ranges.end_step)

    def _catch_up(self) -> None:
        self.training.drain()
        self.tee.drain()

    def _finish_window(self) -> None:
        # A call that raised has not finished its step.
        self.sessions.finish(len(self.journal.numbers) - 1 - self.training.failed)

    # --- hooks -------------------------------------------------------------------------------------------

    def _patterns(self) -> Patterns:
        own = self.gaps.run("metric patterns", lambda: Patterns(self.config.metric_patterns))
        return own or Patterns([])

    def _hook_exit(self) -> None:
        leave = os._exit

        def leaving(status: int) -> None:
            self.exit_code = status
            self.finish()
            leave(status)

        setattr(os, "_exit", leaving)

    def _hook_exec(self) -> None:
        for name in ("execv", "execve"):
            setattr(os, name, self._replacing(getattr(os, name)))

    def _replacing(self, execute: Callable[..., None]) -> Callable[..., None]:
        """Return a function that finishes before the process becomes another program."""

        def replacing(path: Any, *arguments: Any) -> None:
            if os.getpid() == self._pid and self.gaps.run("os.exec", lambda: _is_program(path)):
                text = "the workload replaced itself by %s, and what that did was not recorded" % (path,)
                self.gaps.note("replaced", text, "profile that command itself")
                self._replaced = True
                self.finish()
            execute(path, *arguments)

        return replacing

    def _forked(self) -> None:
        self._forks += 1

    def _in_child(self) -> None:
        """Be silent in a forked child: it is no run of its own."""
        self._count_no_more()
        self.journal.disable()
        self.tee.stop()
        self.ranges.abandon()
        self.sessions.release_signals()

    # --- the end -----------------------------------------------------------------------------------------

    def _look_at_gpus(self) -> None:
        if self.framework.imported:
            self._policy = self.gaps.run("precision policy", self.framework.policy)
            self._devices = self.framework.devices()

    def _conclude(self) -> None:
        count, name = self.stepper.count, self.framework.name
        if self._replaced and not (count and self.framework.imported):
            return  # what the other program imports and trains is not known
        if not self.framework.imported:
            self._note_other_framework(count, name)
        elif not count:
            self.gaps.note("no-steps", "no training step was found", "mark the step: with tcprobe.step(): ...")
        else:
            self.sessions.conclude(count)
        if self._forks and not count and not self.config.tool:
            text = "the workload forked, and what its children did was not recorded"
            self.gaps.note("forked", text, "profile the process that trains, without making it a daemon")
        if self.stepper.basis == DOMINANT:
            self.gaps.note("no-period", "training calls have no period; each call of the commonest counts as a step")

    def _note_other_framework(self, count: int, name: str) -> None:
        code, message = "no-" + name.lower(), "the workload never imported %s" % name
        if not self.config.tool:
            self.gaps.note(code, message, "profile it with another profiler" if self.config.profile else None)
        elif count:
            self.gaps.note(code, message + ": the steps are those that it marks itself", level="note")
        else:
            self.gaps.note(code, message + " and marked no step: the whole run was recorded", MARK, "note")


def _is_program(path: Any) -> bool:
    """Return whether a process may become what lies there; of an open file that is taken for granted."""
    return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
