"""Record steps in this process under TensorFlow's profiler, into a run folder as `tcprobe profile` leaves it."""

from __future__ import annotations

import csv
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tcprobe import __version__
from tcprobe.capture import environment, folder
from tcprobe.errors import ToolError, UsageError
from tcprobe.probe.constants import STEP_MARK

SCHEMA: Final = 1
REASON: Final = "as asked"


@dataclass(frozen=True, slots=True)
class Window:
    """How many steps to take, in this order.

    Attributes:
        warmup: steps that count nowhere: tracing, compilation, autotuning.
        timed: steps timed without the profiler.
        steps: steps under the profiler.
    """

    warmup: int = 10
    timed: int = 20
    steps: int = 10

    def __post_init__(self) -> None:
        if self.steps < 1 or self.warmup < 0 or self.timed < 0:
            raise UsageError(f"steps {self.steps}, timed {self.timed}, warmup {self.warmup}: no steps to profile")

    @property
    def first(self) -> int:
        """Number of the first step under the profiler."""
        return self.warmup + self.timed

    @property
    def count(self) -> int:
        """All steps."""
        return self.first + self.steps

    def kind(self, step: int) -> str:
        """Return where a step stands, as in the table `steps`."""
        if step < self.warmup:
            return "warm-up"
        return "measured" if step < self.first else "profiled" if step < self.count else "after"


@dataclass(slots=True)
class Recorder:
    """Records the steps of a workload in this process; `step` is entered for each of them.

    Attributes:
        window: which steps are profiled.
        label: what to call the workload.
        home: the run folder in the making.
    """

    window: Window
    label: str
    home: folder.RunFolder
    _tf: Any = None
    _starts: list[int] = field(default_factory=list)
    _began: int = field(default_factory=time.perf_counter_ns)
    _paused: int = 0
    _open: bool = False
    _bounds: list[int] = field(default_factory=list)
    _done: bool = False

    @classmethod
    def make(cls, window: Window, label: str, output: Path | None, force: bool) -> Recorder:
        """Make a recorder and its folder.

        Raises:
            OutputError: the folder exists, or cannot be made.
            ToolError: TensorFlow is not installed in this interpreter.
        """
        try:
            import tensorflow
        except ImportError as error:
            hint = "pip install 'tcprobe[cpu]' or [gpu]; without TensorFlow: tcprobe profile --profiler nsys script.py"
            raise ToolError("TensorFlow is not installed here, whose profiler records the steps", hint) from error
        return cls(window, label, folder.make_folder(output, label, force), tensorflow)

    @property
    def is_over(self) -> bool:
        """Whether all steps of the window have been taken."""
        return len(self._starts) >= self.window.count and not self._open

    @contextmanager
    def step(self) -> Iterator[None]:
        """Mark one step; the first of the window opens the profiler, the end of its last one closes it."""
        number = len(self._starts)
        if number == self.window.first:
            self._pausing(self._start)
        self._starts.append(self._clock())
        with self._mark(number):
            yield
            self._wait()  # else a step ends when its work is launched, and what the GPU still does is of none
        if self._open and number + 1 == self.window.count:
            self._pausing(self._stop)

    def finish(self, failed: bool = False) -> Path:
        """Close the profiler, write the folder, give it its final name and return it; a second call does nothing.

        Args:
            failed: whether the workload ended before its steps were all taken, by an exception.

        Raises:
            OutputError: the folder cannot be written.
        """
        if self._open:
            self._pausing(self._stop)
        if self._done:
            return self.home.final
        self._done = True
        ended = self._clock()
        self._write_steps(ended)
        record = self._record(ended, failed)
        folder.write_last_record(self.home.path, record, record)
        return folder.seal(self.home)

    def _mark(self, number: int) -> AbstractContextManager[Any]:
        if not self._open:
            return nullcontext()
        trace: AbstractContextManager[Any] = self._tf.profiler.experimental.Trace(STEP_MARK, step_num=number, _r=1)
        return trace

    def _start(self) -> None:
        self._wait()
        try:
            self._tf.profiler.experimental.start(str(self.home.path / "raw"))
        except self._tf.errors.AlreadyExistsError as error:
            raise ToolError("a profiler session is open in this process", "end it first: one runs at a time") from error
        self._open = True
        self._bounds = [self._clock()]

    def _stop(self) -> None:
        self._wait()
        self._open = False
        self._bounds.append(self._clock())
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

    def _write_steps(self, ended: int) -> None:
        rows: list[tuple[Any, ...]] = [(n, at, self.window.kind(n)) for n, at in enumerate(self._starts)]
        if rows and len(rows) == self.window.count:
            rows.append((len(rows), ended, "after"))  # when the last step was over
        with (self.home.path / "probe" / "steps.csv").open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([("step", "start_ns", "kind"), *rows])

    def _record(self, ended: int, failed: bool) -> dict[str, Any]:
        versions = {"tensorflow": self._tf.__version__, "keras": getattr(self._tf.keras, "__version__", None)}
        gpus = self._gpus()
        window = None
        if len(self._bounds) == 2:
            first, last = self.window.first, len(self._starts) - 1
            window = {"first_step": first, "last_step": last, "start_ns": self._bounds[0],
                      "stop_ns": self._bounds[1], "reason": REASON}  # fmt: skip
        record = {
            "schema": SCHEMA, "tcprobe": __version__, "workload": self.label, "command": [self.label],
            "cwd": str(Path.cwd()), "profiler": {"name": "tensorflow", "version": self._tf.__version__},
            "started": datetime.now(UTC).isoformat(timespec="seconds"), "wall_ns": ended,
            "exit_code": 1 if failed else 0, "profiler_exit_code": None, "partial": failed, "interrupted": False,
            "environment": environment.recorded(os.environ, {}), **environment.host_facts(),
            "python": platform.python_version(), **versions, "precision": self._precision(), "xla": None,
            "iter_start": self.window.first, "iter_stop": self.window.count - 1, "gpu_used": bool(gpus), "gpus": gpus,
            "peak_gpu_memory_bytes": self._peak(gpus), "window": window, "gaps": [], "target_gpu": None,
            "step_range": None, "with_xspace": None, "key_node": None, "notes": [],
        }  # fmt: skip
        probe = {key: record[key] for key in ("schema", "gpus", "gpu_used", "window", "peak_gpu_memory_bytes", "notes")}
        probe |= {"pid": os.getpid(), "python": sys.version.split()[0], **versions, "finished": not failed, "gaps": []}
        probe["steps"] = {"count": len(self._starts), "period": None, "functions": [], "basis": "marked"}
        (self.home.path / "probe" / "probe.json").write_text(json.dumps(probe, indent=1) + "\n", encoding="utf-8")
        return record

    def _gpus(self) -> list[dict[str, Any]]:
        found = []
        for device in self._tf.config.list_physical_devices("GPU"):
            details = self._tf.config.experimental.get_device_details(device)
            capability = details.get("compute_capability")
            found.append({"name": details.get("device_name"), "compute_capability": _dotted(capability)})
        return found

    def _peak(self, gpus: Sequence[Any]) -> int | None:
        if not gpus:
            return None
        return int(self._tf.config.experimental.get_memory_info("GPU:0")["peak"])

    def _precision(self) -> str | None:
        policy = str(self._tf.keras.mixed_precision.global_policy().name)
        return policy if policy in ("mixed_float16", "mixed_bfloat16") else None


def _dotted(capability: Any) -> str | None:
    return None if capability is None else ".".join(str(part) for part in capability)
