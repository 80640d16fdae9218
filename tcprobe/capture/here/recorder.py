"""Record steps in this process under TensorFlow's profiler, into a run folder as `tcprobe profile` leaves it."""

from __future__ import annotations

import atexit
import csv
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from tcprobe.capture import folder, run_record
from tcprobe.capture.base import Collected
from tcprobe.capture.gpu_state import Watch
from tcprobe.capture.here.graph import StepGraph
from tcprobe.capture.process import Ended
from tcprobe.errors import TcprobeError, ToolError, UsageError
from tcprobe.probe.constants import STEP_MARK
from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow import memory

REASON: Final = "as asked"


_recording: list[Recorder] = []
"""What records in this process, at most one."""


def conclude_left() -> None:
    """Write the folder of a recording whose workload went away without a word, as that of a failed run."""
    for one in (*_recording,):  # it leaves the list
        if one.is_left:
            one.finish(failed=True)


def _conclude_all() -> None:
    """Likewise, as the process ends; nobody is left to hear of an error."""
    with suppress(TcprobeError):
        for one in (*_recording,):
            one.finish(failed=True)


atexit.register(_conclude_all)


class Window(Struct, frozen=True):
    """How many steps to take, in this order."""

    warmup: int = 10  # steps that count nowhere: tracing, compilation, autotuning
    timed: int = 20  # steps timed without the profiler
    steps: int = 10  # steps under the profiler

    def __post_init__(self) -> None:
        if self.steps < 1 or self.warmup < 0 or self.timed < 0:
            raise UsageError(f"steps {self.steps}, timed {self.timed}, warmup {self.warmup}: no steps to profile")

    @property
    def first(self) -> int:
        """Number of the first step under the profiler."""
        return self.warmup + self.timed

    @property
    def parts(self) -> tuple[int, int, int]:
        """How many steps of each kind, in their order."""
        return self.warmup, self.timed, self.steps

    @property
    def count(self) -> int:
        """All steps."""
        return self.first + self.steps

    def within(self, count: int) -> Window:
        """Return the window for a workload of `count` steps: itself if it fits, else fewer of each kind.

        A third at least is profiled; of the others half are warm-up, at least one if there are two steps.
        """
        if count >= self.count:
            return self
        steps = min(self.steps, -(-count // 3))
        warmup = min(self.warmup, -(-(count - steps) // 2))
        return Window(warmup, min(self.timed, count - steps - warmup), steps)

    def kind(self, step: int) -> str:
        """Return where a step stands, as in the table `steps`."""
        if step < self.warmup:
            return "warm-up"
        return "measured" if step < self.first else "profiled" if step < self.count else "after"


class Recorder(Struct, eq=False):
    """Records the steps of a workload in this process; `step` is entered for each of them.

    One records at a time. One whose workload went away without a word (a `fit` that raised) is concluded when the next
    begins, or the process ends.
    """

    window: Window  # which steps are profiled
    label: str  # what to call the workload
    output: Path | None  # the run folder; None derives a name. It is made with the first step.
    force: bool  # replace an earlier run folder
    of_fit: bool  # Keras calls, and does not say when its `fit` fails
    _tf: Any
    _gaps: Gaps
    _graph: StepGraph
    _home: folder.RunFolder | None = None
    _begun: dict[str, Any] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)
    _began: int = 0
    _ended: int = 0
    _whole: int = 0  # steps that ended
    _paused: int = 0
    _open: bool = False
    _bounds: list[int] = field(default_factory=list)
    _wall_s: list[float] = field(default_factory=list)
    _gpus: Watch | None = None
    _done: bool = False

    @classmethod
    def make(cls, window: Window, label: str, output: Path | None, force: bool, of_fit: bool = False) -> Recorder:
        """Make a recorder.

        Raises:
            OutputError: the folder exists.
            ToolError: TensorFlow is not installed in this interpreter.
        """
        try:
            import tensorflow
        except ImportError as error:
            hint = "pip install 'tcprobe[cpu]' or [gpu]; without TensorFlow: tcprobe profile --profiler nsys script.py"
            raise ToolError("TensorFlow is not installed here, whose profiler records the steps", hint) from error
        if output is not None:
            folder.refuse(output, force)
        gaps = Gaps()
        graph = StepGraph(gaps, tensorflow)
        if of_fit:
            graph.watch_fits()
        return cls(window, label, output, force, of_fit, tensorflow, gaps, graph)

    def expect(self, count: int) -> None:
        """Fit the window into a training of `count` steps, and say so; it has not begun."""
        asked, self.window = self.window, self.window.within(count)
        if self.window != asked:
            each = zip(("warm-up", "timed", "profiled"), self.window.parts, asked.parts, strict=True)
            parts = ", ".join(f"{steps} of {wanted} {kind}" for kind, steps, wanted in each)
            self._gaps.note(
                "short-training",
                f"the training has {count} of the {asked.count} steps that were asked for: {parts}",
                "train longer, or give smaller steps, timed and warmup: the first steps are slower than later ones",
            )

    @property
    def is_over(self) -> bool:
        """Whether all steps of the window have been taken."""
        return len(self._starts) >= self.window.count and not self._open

    def forget(self) -> None:
        """Take out the hooks of a recorder that nobody will use."""
        if self._home is None:
            self._graph.remove()

    @property
    def has_begun(self) -> bool:
        """Whether a step was taken."""
        return bool(self._starts)

    @property
    def is_done(self) -> bool:
        """Whether the run folder has been written."""
        return self._done

    @property
    def is_left(self) -> bool:
        """Whether steps were taken, and the `fit` that took them is over without a word."""
        return self._home is not None and not self._done and self.of_fit and not self._graph.in_fit

    @contextmanager
    def step(self) -> Iterator[None]:
        """Mark one step; the first of the window opens the profiler, the end of its last one closes it.

        Raises:
            OutputError: the folder cannot be made.
            ToolError: other steps are recorded, or another session of the profiler is open.
        """
        number = len(self._starts)
        if number == 0:
            self._begin()
        if number == self.window.first:
            self._pausing(self._start)
        self._starts.append(self._clock())
        with self._mark(number), self._graph.step(self._open):
            yield
            self._wait()  # else a step ends when its work is launched, and what the GPU still does is of none
        self._ended, self._whole = self._clock(), number + 1
        if self._open and number + 1 == self.window.count:
            self._pausing(self._stop)

    def _begin(self) -> None:
        """Make the folder and put the hooks in place."""
        conclude_left()
        if _recording:
            raise ToolError("steps are recorded already in this process", "one recording runs at a time: end it first")
        values = {
            "workload": self.label, "command": [self.label], "iter_start": self.window.first,
            "iter_stop": self.window.count - 1, "profiler": {"name": "tensorflow", "version": self._tf.__version__},
        }  # fmt: skip
        self._begun = run_record.new_record(values, {})
        self._home = folder.make_folder(self.output, self.label, self.force)
        _recording.append(self)
        self._graph.install(self._home.path / "probe")
        self._gpus = Watch(own=os.getpid()).start()
        self._began, self._graph.clock = time.perf_counter_ns(), self._clock

    def finish(self, failed: bool = False) -> Path | None:
        """Close the profiler, write the folder, give it its final name and return it; a second call does nothing.

        Args:
            failed: whether the workload ended before its steps were all taken, by an exception.

        Returns:
            The run folder; None where no step was taken, which leaves nothing.

        Raises:
            OutputError: the folder cannot be written.
        """
        if self._home is None or self._done:
            self._graph.remove()
            return None if self._home is None else self._home.final
        self._done = True
        if self in _recording:
            _recording.remove(self)
        if self._open:
            self._pausing(self._stop)
        if not self._bounds and not failed:
            self._gaps.note(
                "short-training",
                f"the training ended after {self._whole} steps; the first to profile was {self.window.first}",
                "train longer, or give smaller timed and warmup",
            )
        self._graph.write()
        self._write_steps(self._home.path)
        record = self._record(self._home.path, failed)
        folder.write_last_record(self._home.path, record, record)
        return folder.seal(self._home)

    @property
    def _path(self) -> Path:
        assert self._home is not None
        return self._home.path

    def _mark(self, number: int) -> AbstractContextManager[Any]:
        if not self._open:
            return nullcontext()
        trace: AbstractContextManager[Any] = self._tf.profiler.experimental.Trace(STEP_MARK, step_num=number, _r=1)
        return trace

    def _start(self) -> None:
        self._wait()
        try:
            self._tf.profiler.experimental.start(str(self._path / "raw"))
        except self._tf.errors.AlreadyExistsError as error:
            raise ToolError("a profiler session is open in this process", "end it first: one runs at a time") from error
        self._open = True
        self._graph.profiled(True)
        self._bounds, self._wall_s = [self._clock()], [time.time()]

    def _stop(self) -> None:
        self._wait()
        self._open = False
        self._bounds.append(self._clock())
        self._wall_s.append(time.time())
        self._graph.profiled(False)
        self._tf.profiler.experimental.stop()

    def _wait(self) -> None:
        """Return when every GPU has finished what was launched."""
        if self._tf.config.list_logical_devices("GPU"):
            self._tf.test.experimental.sync_devices()

    def _clock(self) -> int:
        return time.perf_counter_ns() - self._began - self._paused

    def _pausing(self, act: Any) -> None:
        """Start or stop the profiler; the time that this takes is of no step."""
        began = time.perf_counter_ns()
        act()
        self._paused += time.perf_counter_ns() - began

    def _write_steps(self, home: Path) -> None:
        last = self._starts[self._whole] if self._whole < len(self._starts) else self._ended
        starts = [*self._starts[: self._whole], last]  # of a step that never ended, or when the last one was over
        kinds = [*map(self.window.kind, range(self._whole)), "after"]
        rows = [(step, start, kind) for step, (start, kind) in enumerate(zip(starts, kinds, strict=True))]
        with (home / "probe" / "steps.csv").open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([("step", "start_ns", "kind"), *rows])

    def _record(self, home: Path, failed: bool) -> dict[str, Any]:
        """Write probe.json, and return run.json."""
        gpus = memory.gpus(self._tf)
        peak = self._gaps.run("GPUs", lambda: memory.peak_gpu_memory_bytes(self._tf)) if gpus else None
        window = None
        if len(self._bounds) == 2:
            first, last = self.window.first, self._whole - 1
            window = {"first_step": first, "last_step": last, "start_ns": self._bounds[0],
                      "stop_ns": self._bounds[1], "wall_s": self._wall_s, "reason": REASON}  # fmt: skip
        steps = {"count": self._whole, "period": None, "functions": self._graph.names(), "basis": "marked"}
        probe = {
            "schema": run_record.SCHEMA, "gpus": gpus, "gpu_used": bool(gpus), "window": window,
            "peak_gpu_memory_bytes": peak, "notes": self._gaps.notes, "pid": os.getpid(),
            "python": platform.python_version(), "tensorflow": self._tf.__version__,
            "keras": getattr(self._tf.keras, "__version__", None), "finished": not failed, "gaps": self._gaps.gaps,
            "steps": steps, "policy": self._gaps.run("precision policy", self._graph.policy.described),
        }  # fmt: skip
        (home / "probe" / "probe.json").write_text(json.dumps(probe, indent=1) + "\n", encoding="utf-8")
        ended = Ended(int(failed), self._ended, gpus=None if self._gpus is None else self._gpus.stop())
        return run_record.finish(self._begun, ended, Collected(), probe, wraps=False)
