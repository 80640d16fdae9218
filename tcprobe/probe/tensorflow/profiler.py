"""Runs TensorFlow's own profiler: one session at a time, beside whatever the script itself profiles.

Steps and phases are marked for it, and the layers and waits of eager steps as phases. What it logs of its own work is
kept off the workload's standard error: its C++ code writes to file descriptor 2, only while a session starts or stops.
For that time alone 2 is a file in memory, which tcprobe gave us: then the profiler's lines go to a file of the run, and
all else to where it was headed, in its order. If the process dies meanwhile, tcprobe has the file in memory and shows
what it holds.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Sequence

from ..constants import ASIDE, LAYER_MARK, PROFILER_LOG, STEP_MARK
from ..core import ranges
from ..core.gaps import Gaps
from ..core.resources import why_cut
from .hooks.fits import Fits
from .hooks.layers import LayerHooks
from .hooks.patch import Ending, Patches, around

OWN = re.compile(
    rb"(?:I\d{4} \d\d:\d\d:[\d.:]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: I )"
    rb"(?:(?:\S*/profiler/\S*|(?:profiler|cupti|host_tracer|device_tracer|gpu_tracer|xplane)\w*|save_profile)"
    rb"\.cc:\d+\] |\S*dso_loader\.cc:\d+\] [^\n]*libcupti)[^\n]*\n(?:(?:Dumped tool data for [^\n]*\n)+\n?)?"
)
"""A line of the profiler's own, for information: as absl writes it since TensorFlow 2.18, and as it was before.

Warnings and errors of it stay where they are. Source: the LOG(INFO) of tsl/profiler and xla/backends/profiler.
"""


class ProfilerLog:
    """What the profiler logs.

    Args:
        aside: the descriptor of tcprobe's file in memory; None where there is none.
        folder: where the profiler's lines go.
    """

    def __init__(self, aside: Optional[int], folder: str) -> None:
        self._aside = aside if aside is not None and is_aside(aside) else None
        self._folder = folder
        if self._aside is not None:
            os.set_inheritable(self._aside, False)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Sort what is written to standard error within: after it, for it comes while the profiler has the process."""
        if self._aside is None:
            yield
            return
        shown = os.dup(2)
        os.dup2(self._aside, 2)
        try:
            yield
        finally:
            os.dup2(shown, 2)
            os.close(shown)
            self._sort(self._aside)

    def _sort(self, aside: int) -> None:
        text = os.pread(aside, os.fstat(aside).st_size, 0)
        os.ftruncate(aside, 0)
        own = b"".join(OWN.findall(text))
        write_all(2, OWN.sub(b"", text))
        if own:
            with open(os.path.join(self._folder, PROFILER_LOG), "ab") as file:
                file.write(own)


def is_aside(number: int) -> bool:
    """Return whether a descriptor is tcprobe's file: it may have been closed, and another file have its number."""
    try:
        return os.readlink("/proc/self/fd/%d" % number).startswith("/memfd:%s" % ASIDE)
    except OSError:
        return False


def write_all(number: int, text: bytes) -> None:
    """Write text to a descriptor; where nobody reads it any more, the rest is lost as it would have been."""
    try:
        while text:
            text = text[os.write(number, text) :]
    except OSError:
        pass


ROOT = {"_r": 1}  # the profiler counts steps by the annotations that have it


class TensorFlowAnnotations(ranges.Annotations):
    """Marks steps and phases with `tf.profiler.experimental.Trace`.

    Raises:
        AttributeError: this TensorFlow has none.
    """

    def __init__(self, tf: Any, fits: Fits) -> None:
        self._fits = fits
        self._trace: Callable[..., ContextManager[Any]] = tf.profiler.experimental.Trace
        self._root: Dict[str, int] = ROOT

    def open(self) -> None:
        """Leave the counting of steps to Keras where it does that."""
        fit = self._fits.current()
        self._root = {} if fit is not None and fit.marks_steps else ROOT

    def step(self, number: int) -> ContextManager[Any]:
        """Return what marks step `number`."""
        return self._trace(STEP_MARK, step_num=number, **self._root)

    def phase(self, name: str) -> ContextManager[Any]:
        """Return what marks a phase."""
        return self._trace("tcprobe/" + name)


class LayerRanges:
    """Marks calls of layers and iterators from `open` to `close`, so that steps outside the window pay nothing.

    Attributes:
        iterator: the class of iterators over datasets; None where there is none.
    """

    def __init__(self, layers: LayerHooks, marks: ranges.Ranges, gaps: Gaps) -> None:
        self.iterator: Any = None
        self._layers = layers
        self._ranges = marks
        self._gaps = gaps
        self._patches = Patches()
        self._end: Ending = partial(gaps.run, "ranges", marks.end_phase)

    def open(self) -> None:
        """Mark from now on."""
        self._layers.on_eager = self._called
        if self.iterator is not None:
            self._patches.method(self.iterator, "_next_internal", around(self._gaps, "ranges", self._waits))

    def close(self) -> None:
        """Mark no more."""
        self._layers.on_eager = None
        self._patches.restore()

    def _called(self, layer: Any) -> Optional[Ending]:
        return self._begin(str(layer.name), LAYER_MARK)

    def _waits(self, _: Any) -> Optional[Ending]:
        return self._begin("input") if self._layers.eager() else None

    def _begin(self, name: str, mark: str = "") -> Optional[Ending]:
        if not self._ranges.active:
            return None
        self._ranges.begin_phase(name, mark)
        return self._end


# With 2.21 a worker of several dies now and then as a session ends, under the script's own profiler too; not with 2.15.
CRASHES_SINCE = (2, 16)
CRASHES = "TensorFlow's profiler was not started: since TensorFlow 2.16 it can crash a worker of several as it ends"
CRASHES_REMEDY = "profile one worker alone, or take the risk: --iter-start N starts it at step N"
CUT_REMEDY = "make room, or choose another place with --output"
WARM_UP_REMEDY = "check that libcupti is on LD_LIBRARY_PATH and that the user may use the performance counters"


class TensorFlowProfiler:
    """Starts and stops the session.

    Args:
        raw: folder for the profile; TensorBoard's layout below it is TensorFlow's own.
        gaps: takes what fails.
        log: sorts out what it says while it starts and stops.

    Attributes:
        available: False until TensorFlow's profiler has been found, and where it must not be used.
        cautious: no session is opened where TensorFlow may crash.
        is_open: our session runs.
        preempted: called before the script's own session starts while ours is open; it must close ours.
        script_began: called once the script's own session runs.
        script_ends: called before it ends.
        script_ended: called after it with the paths of the profiles that it left.
        files: paths of the profiles that our sessions wrote.
    """

    def __init__(self, raw: str, gaps: Gaps, log: ProfilerLog) -> None:
        self.available = False
        self.cautious = True
        self.is_open = False
        self.preempted: Callable[[], None] = lambda: None
        self.script_began: Callable[[], None] = lambda: None
        self.script_ends: Callable[[], None] = lambda: None
        self.script_ended: Callable[[List[str]], None] = lambda _: None
        self.files: List[str] = []
        self._raw = raw
        self._gaps = gaps
        self._log = log
        self._tf: Any = None
        self._start: Any = None
        self._stop: Any = None
        self._warm = False
        self._script: Any = None  # what began the script's own session, while that runs
        self._folder = ""  # of the script's own session
        self._before: Dict[str, float] = {}  # profiles in it when that began

    def on_tensorflow(self, tf: Any) -> None:
        """Take TensorFlow's start and stop, and stand between them and the script."""
        public = tf.profiler.experimental
        private: Any = sys.modules[public.start.__module__]
        self._tf, self._start, self._stop = tf, public.start, public.stop
        start, stop = self._beside(public.start), self._after(public.stop, public.start)
        # Keras 2 takes them from tensorflow.compat.v2, a module of its own.
        same = [m for name, m in list(sys.modules.items()) if name.endswith("profiler.experimental")]
        for module in (public, private, *(m for m in same if vars(m).get("start") is self._start)):
            module.start, module.stop = start, stop
        # What `tf.summary.trace_on(profiler=True)` called before TensorFlow 2.13.
        older = sys.modules.get("tensorflow.python.eager.profiler")
        if older is not None:
            began = older.start
            setattr(older, "start", self._beside(began))
            setattr(older, "stop", self._after(older.stop, began))
        self.available = True

    def start(self) -> bool:
        """Open the session; return False where it cannot be opened now."""
        if self.is_open or self._script is not None or not self.available:
            return False
        if self.cautious and _may_crash(self._tf.__version__):
            self.available = False
            self._gaps.note("no-profile", CRASHES, CRASHES_REMEDY)
            return False
        return bool(self._gaps.run("profiler start", self._open, False))

    def stop(self, save: bool = True) -> None:
        """Wait for the device, close the session and write the profile; it replaces an earlier one of ours."""
        if not self.is_open:
            return
        self.is_open = False
        before = profiles(self._raw)
        self._gaps.run("profiler stop", lambda: self._close(save))
        if save:
            new = _written(self._raw, before)
            self._remove([path for path in self.files if path not in new])
            self.files = new
            self._gaps.run("size of the profile", lambda: self._check_written(new))

    def _check_written(self, paths: List[str]) -> None:
        cut = why_cut(self._raw, paths)
        if cut is not None:
            self._gaps.note("no-profile", "TensorFlow's profile could not be written: " + cut, CUT_REMEDY, "error")
        elif not any(os.path.getsize(path) for path in paths):
            self._gaps.note("no-profile", "TensorFlow's profiler wrote no profile", WARM_UP_REMEDY, "error")

    def drop(self) -> None:
        """Close the session without a profile; an earlier one stays."""
        self.stop(save=False)

    def discard(self) -> None:
        """Close the session without a profile, and remove the profiles written so far."""
        self.stop(save=False)
        self._remove(self.files)
        self.files = []

    def size(self) -> int:
        """Return the bytes of the profile that our latest session wrote."""
        return sum(os.path.getsize(path) for path in self.files)

    def adopt(self, paths: Sequence[str]) -> None:
        """Take copies of the script's own profiles instead of ours."""
        self.discard()
        folder = os.path.join(self._raw, "plugins", "profile", "script")
        os.makedirs(folder, exist_ok=True)
        self.files = [shutil.copy2(path, folder) for path in paths]

    def _remove(self, paths: List[str]) -> None:
        for path in paths:
            self._gaps.run("removal of an earlier profile", functools.partial(os.remove, path))

    def wait_for_device(self) -> None:
        """Return when every GPU has finished what was launched."""
        if not self._tf.config.list_logical_devices("GPU"):
            return
        sync = getattr(getattr(self._tf.test, "experimental", None), "sync_devices", None)
        if sync is not None:
            sync()
            return
        # TensorFlow before 2.12: a value read back comes after everything on the GPU's one compute stream.
        for device in self._tf.config.list_logical_devices("GPU"):
            with self._tf.device(device.name):
                (self._tf.zeros(()) + 1).numpy()

    def _open(self) -> bool:
        if not self._warm:
            # The first session loads CUPTI, which takes seconds that would fall into the window.
            self._warm = True
            with self._log.apart():
                self._start(self._raw)
                self._stop(save=False)
        self.wait_for_device()
        with self._log.apart():
            self._start(self._raw)
        self.is_open = True
        return True

    def _close(self, save: bool) -> None:
        try:
            self.wait_for_device()
        finally:
            with self._log.apart():
                self._stop(save=save)

    def _beside(self, start: Any) -> Any:
        @functools.wraps(start)
        def begin(*args: Any, **kwds: Any) -> Any:
            if self.is_open:
                self._gaps.run("script's own profiler", self.preempted)
            result = start(*args, **kwds)
            self._script = start
            self._gaps.run("script's own profiler", lambda: self._script_began(*args, **kwds))
            return result

        return begin

    def _after(self, stop: Any, start: Any) -> Any:
        """Stand around `stop`, which also tidies up where no session of `start` runs."""

        @functools.wraps(stop)
        def end(*args: Any, **kwds: Any) -> Any:
            if self._script is not start:
                return stop(*args, **kwds)
            self._gaps.run("script's own profiler", self.script_ends)
            try:
                return stop(*args, **kwds)
            finally:
                self._script = None
                self._gaps.run("script's own profiler", lambda: self.script_ended(_written(self._folder, self._before)))

        return end

    def _script_began(self, logdir: Any = "", *_: Any, **__: Any) -> None:
        self._folder = os.path.abspath(os.fspath(logdir)) if isinstance(logdir, (str, os.PathLike)) and logdir else ""
        self._before = profiles(self._folder)
        self.script_began()


def profiles(folder: str) -> Dict[str, float]:
    """Return the profiles that lie below a folder where TensorFlow puts them, with the times of their last change."""
    below = os.walk(os.path.join(folder, "plugins", "profile")) if folder else ()
    found = [os.path.join(at, name) for at, _, names in below for name in names if name.endswith(".xplane.pb")]
    return {path: os.path.getmtime(path) for path in found}


def _written(folder: str, before: Dict[str, float]) -> List[str]:
    return [path for path, changed in profiles(folder).items() if before.get(path) != changed]


def _may_crash(version: str) -> bool:
    """Return whether this process is one of several workers, by TF_CONFIG, under a TensorFlow that fails there."""
    major, minor = version.split(".")[:2]
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))["cluster"]
        workers = sum(len(cluster.get(task, ())) for task in ("chief", "worker"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return workers > 1 and (int(major), int(minor)) >= CRASHES_SINCE
