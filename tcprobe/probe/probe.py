"""The probe: puts the parts together and listens to the steps."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any, Dict, Optional, Tuple

from .api import Marker
from .config import Config
from .core import tracebacks
from .core.gaps import Gaps
from .core.journal import Journal
from .core.memory import resident_bytes
from .core.metrics import Patterns
from .core.ranges import Ranges
from .core.stepper import Stepper
from .core.window import CLOSE, DISCARD, OPEN, WindowState
from .script.imports import AfterImport
from .script.tee import Tee
from .tensorflow import memory, precision
from .tensorflow.annotations import Annotations
from .tensorflow.calls import Calls
from .tensorflow.keras_hooks import KerasHooks
from .tensorflow.layer_ranges import LayerRanges
from .tensorflow.profiler import Profiler

SCHEMA = 1


class Probe:
    """One probe in one process."""

    def __init__(self, config: Config) -> None:
        os.makedirs(config.out, exist_ok=True)
        self.config = config
        self.gaps = Gaps()
        self.journal = Journal(config.out, self.gaps)
        self.window = WindowState(config, self.journal.numbers, self.journal.starts)
        self.ranges = Ranges(self.gaps)
        self.profiler = Profiler(config.raw, self.gaps)
        self.stepper = Stepper(self.journal, self.clock, self)
        self.calls = Calls(config, self.stepper, self.ranges, self.clock, self.gaps)
        self.layers = LayerRanges(self.ranges, self.gaps)
        self.keras = KerasHooks(config, self.calls, self.layers, self.gaps)
        self.marker = Marker(self.stepper, self.ranges, self.gaps)
        self.tee = Tee(self._patterns(), self.clock, self.journal.step_at, self.journal.metric, self.gaps)
        self.recorder: Any = self.calls.recorder
        self._pid = os.getpid()
        self._began = time.perf_counter_ns()
        self._paused = 0
        self._tf: Any = None
        self._resident = 0
        self._times: Tuple[Optional[int], Optional[int]] = (None, None)
        self._facts: Dict[str, Any] = {"tensorflow": None, "keras": None, "gpus": [], "gpu_used": None, "peak": None}
        self._finished = False

    # --- the run -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Set the environment and watch for TensorFlow and Keras."""
        self.gaps.run("precision", lambda: precision.set_environment(self.config))
        self.gaps.run("graph record", self._make_recorder)
        self.journal.kind = self.window.kind
        self.journal.summary = self.summary
        self.journal.before_flush = self._catch_up
        self.profiler.preempted = self._preempted
        hooks = {
            "tensorflow": self._on_tensorflow,
            "keras": self._on_keras,
            "tf_keras": self._on_keras,
            "logging": self.tee.listen_to_files,
            "traceback": tracebacks.clean_printed,
        }
        self._set_pace()
        self.gaps.run("imports", AfterImport(hooks, self.gaps).install)
        self.gaps.run("tcprobe.step", self.marker.install)
        self.gaps.run("fork", lambda: os.register_at_fork(after_in_child=self._in_child))
        self.gaps.run("os._exit", self._hook_exit)
        self.tee.start()
        self.journal.start()
        self._began = time.perf_counter_ns()

    def finish(self) -> None:
        """End the step, the window and the files; a second call does nothing."""
        if self._finished or os.getpid() != self._pid:
            return
        self._finished = True
        self.gaps.run("eager sample", self.calls.end_sample)
        self.gaps.run("steps", self.calls.backlog.drain)
        self.gaps.run("profiler stop", self._finish_window)
        self.calls.disable()
        self.gaps.run("graph record", self._write_graph)
        self.gaps.run("GPUs", self._look_at_gpus)
        self.gaps.run("notes", self._conclude)
        self.tee.stop()
        self.journal.finish()

    def clock(self) -> int:
        """Return nanoseconds since the workload began, the profiler's own start and stop left out."""
        return time.perf_counter_ns() - self._began - self._paused

    def summary(self) -> Dict[str, Any]:
        """Return the content of probe.json."""
        facts, finder = self._facts, self.stepper.finder
        basis = "keras fit" if self.calls.weights.fit and self.stepper.basis == "period" else self.stepper.basis
        if self.config.step_function and self.stepper.explicit is None:
            basis = "step function"
        return {
            "schema": SCHEMA,
            "pid": self._pid,
            "python": sys.version.split()[0],
            "tensorflow": facts["tensorflow"],
            "keras": facts["keras"],
            "nvtx": self.ranges.nvtx,
            "gpus": facts["gpus"],
            "gpu_used": facts["gpu_used"],
            "steps": {
                "count": self.stepper.count,
                "period": len(finder.pattern) or None,
                "functions": self.calls.names(),
                "basis": basis if self.stepper.count else None,
            },
            "window": self.window.describe(self.stepper.count, *self._times),
            "peak_gpu_memory_bytes": facts["peak"],
            "gaps": self.gaps.gaps,
            "notes": self.gaps.notes,
            "finished": self._finished,
        }

    # --- steps -------------------------------------------------------------------------------------------

    def before_step(self, row: int, number: int) -> None:
        """Let the window act, then forget the time that it took."""
        grown = resident_bytes() - self._resident if self.profiler.is_open else 0
        actions = self.window.before_step(row, number, self.clock(), grown)
        if not actions:
            return
        began = time.perf_counter_ns()
        for action in actions:
            self.gaps.run("profiler window", {OPEN: self._open, CLOSE: self._close, DISCARD: self._discard}[action])
        self._paused += time.perf_counter_ns() - began
        self._set_pace()

    def _set_pace(self) -> None:
        """Only note the calls from now on where nothing more is decided as they come."""
        quick = self.window.is_over() and not self.ranges.active
        if quick != self.calls.quick:
            self.calls.set_quick(quick)

    def begun(self, number: int) -> None:
        """Mark the step that has begun."""
        if self.ranges.active:
            self.gaps.run("ranges", lambda: self.ranges.begin_step(number))

    def lost(self) -> None:
        """Mark no step while it is not known where one begins."""
        self.gaps.run("ranges", self.ranges.end_step)

    def revised(self, row: int) -> None:
        """Take the window again where the steps in it were none."""
        self.window.revised(row)
        self._set_pace()

    def retracted(self, _: int) -> None:
        """Forget the step that began last."""
        self.gaps.run("ranges", self.ranges.end_step)

    def _catch_up(self) -> None:
        self.calls.backlog.drain()
        self.tee.drain()

    # --- the window --------------------------------------------------------------------------------------

    def _open(self) -> None:
        if not self.profiler.start():
            self.window.failed()
            return
        self._resident = resident_bytes()
        self._times = (self.clock(), None)
        self.ranges.open()
        if self.calls.is_eager():
            self.gaps.run("ranges of layers", self.layers.open)
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self.gaps.run("SIGTERM", lambda: signal.signal(signal.SIGTERM, self._terminated))

    def _close(self) -> None:
        self._times = (self._times[0], self.clock())
        self.layers.close()
        self.ranges.close()
        self.profiler.stop()
        self._release_sigterm()

    def _discard(self) -> None:
        self.layers.close()
        self.ranges.close()
        self.profiler.discard()
        self._release_sigterm()

    def _preempted(self) -> None:
        self.window.preempted(len(self.journal.numbers) - 1)
        self._close()

    def _finish_window(self) -> None:
        # A call that raised has not finished its step.
        if self.window.finish(len(self.journal.numbers) - 1 - self.calls.failed):
            self._close()
        self.ranges.close()

    def _release_sigterm(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminated(self, number: int, _: Any) -> None:
        """Save the profile, then die of the signal as the workload would have."""
        signal.signal(number, signal.SIG_DFL)
        self.finish()
        os.kill(os.getpid(), number)

    # --- hooks -------------------------------------------------------------------------------------------

    def _patterns(self) -> Patterns:
        own = self.gaps.run("metric patterns", lambda: Patterns(self.config.metric_patterns))
        return own or Patterns([])

    def _make_recorder(self) -> None:
        from .graph.recorder import GraphRecorder

        self.recorder = self.calls.recorder = GraphRecorder(self.config.out, self.gaps)
        self.recorder.on_training = self.calls.trains

    def _write_graph(self) -> None:
        self.recorder.calls_per_step(self.stepper.calls_per_step())
        self.recorder.write()

    def _on_tensorflow(self, tf: Any) -> None:
        self._tf = tf
        self._facts["tensorflow"] = tf.__version__
        run = self.gaps.run
        run("precision", lambda: precision.on_tensorflow(tf, self.config))
        run("TensorFlow's profiler", lambda: self.profiler.on_tensorflow(tf))
        run("trace annotations", lambda: self._annotate(tf))
        self.ranges.find_nvtx()
        self.layers.eager = tf.executing_eagerly
        self.calls.on_tensorflow(tf)
        run("graph record", lambda: self.recorder.on_tensorflow(tf))
        if precision.version(tf) < (2, 6):
            # Keras is a part of TensorFlow here and is never imported under its own name.
            self._on_keras(tf.keras)

    def _annotate(self, tf: Any) -> None:
        self.ranges.annotations = Annotations(tf)

    def _on_keras(self, keras: Any) -> None:
        self._facts["keras"] = getattr(keras, "__version__", None)
        self.gaps.run("precision", lambda: precision.on_keras(keras, self.config))
        self.keras.install(keras)
        self.gaps.run("graph record", lambda: self.recorder.on_keras(keras))

    def _hook_exit(self) -> None:
        leave = os._exit

        def leaving(status: int) -> None:
            self.finish()
            leave(status)

        setattr(os, "_exit", leaving)

    def _in_child(self) -> None:
        """Be silent in a forked child: it is no run of its own."""
        self.calls.disable()
        self.journal.disable()
        self.tee.stop()
        self.ranges.active = False
        self._release_sigterm()

    # --- the end -----------------------------------------------------------------------------------------

    def _look_at_gpus(self) -> None:
        if self._tf is None:
            return
        self._facts["gpus"] = memory.gpus(self._tf)
        self._facts["gpu_used"] = bool(self._facts["gpus"])
        if self._facts["gpus"]:
            self._facts["peak"] = memory.peak_gpu_memory_bytes(self._tf)

    def _conclude(self) -> None:
        count = self.stepper.count
        if self._tf is None:
            self.gaps.note(
                "no-tensorflow", "the workload never imported TensorFlow", "profile it with another profiler"
            )
        elif not count:
            self.gaps.note("no-steps", "no training step was found", "mark the step: with tcprobe.step(): ...")
        elif self.config.profile and self.window.first_row is None:
            self.gaps.note("no-window", "the run ended after %d steps, before any was profiled" % count, "train longer")
        if self.stepper.basis == "dominant function":
            self.gaps.note("no-period", "training calls have no period; each call of the commonest counts as a step")
