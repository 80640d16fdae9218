"""Answers for TensorFlow and Keras what the probe's core asks of a framework."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Tuple

from ..core.framework import Core, Devices, Hook
from . import memory, places, precision
from .calls import CallWatch
from .events import EventFiles
from .gradients import Gradients
from .graph.recorder import GraphRecorder
from .keras_hooks import KerasHooks
from .log import ProfilerLog
from .policy import PolicyRecord
from .profiler import TensorFlowProfiler
from .ranges import LayerRanges, TensorFlowAnnotations

# Builds for CUDA name their ops to NVTX instead of to the profiler while a tool listens, and CUPTI serves one client.
TOOL_LISTENS = "TensorFlow's profiler was not started: another profiler listens to NVTX, and takes the names of ops"
TOOL_REMEDY = "run once under each: the other profiler alone has the marked steps, tcprobe alone has ops and layers"


class TensorFlow:
    """Hooks TensorFlow and every Keras that the script imports; a `core.framework.Framework`."""

    name = "TensorFlow"

    def __init__(self, core: Core) -> None:
        self._core = core
        self._gaps = core.gaps
        self._recorder = GraphRecorder(core.config.out, core.gaps)
        self._policy = PolicyRecord(self._recorder.layers, core.gaps, core.config.precision, core.config.xla)
        self._marks = LayerRanges(self._recorder.layers, core.ranges, core.gaps)
        self.calls = CallWatch(core, self._recorder)
        self._gradients = Gradients(core.config.out, self._recorder.layers, core.gaps) if core.config.numerics else None
        self._keras = KerasHooks(core, self.calls, self._policy.updates, self._gradients)
        self.profiler = TensorFlowProfiler(core.config.raw, core.gaps, ProfilerLog(core.config.aside, core.config.out))
        self.profiler.cautious = core.config.iter_start is None
        self._events = EventFiles(core.gaps)
        self._tf: Any = None
        self._versions: Dict[str, Optional[str]] = {"tensorflow": None, "keras": None}

    @property
    def imported(self) -> bool:
        """Whether the script has imported TensorFlow."""
        return self._tf is not None

    def install(self) -> Dict[str, Hook]:
        """Set the environment; return what to call after the imports of TensorFlow and Keras."""
        self._gaps.run("precision", lambda: precision.set_environment(self._core.config))
        return {"tensorflow": self._on_tensorflow, "keras": self._on_keras, "tf_keras": self._on_keras}

    def training_calls(self, deferred: bool) -> None:
        """Count training calls as they come, or only note them."""
        self.calls.set_deferred(deferred)

    def window_opens(self) -> None:
        """Record again after a `stop_recording`; mark the layers of an eager model."""
        self._gaps.run("graph record", self._recorder.resume)
        self.calls.profiled(True)
        self._recorder.parts.profiled = True
        if self._core.training.is_eager():
            self._gaps.run("ranges of layers", self._marks.open)

    def window_begins(self) -> None:
        """Count gradients from here."""
        if self._gradients is not None:
            self._gaps.run("gradients", self._gradients.window_begins)

    def window_closes(self, how: str) -> None:
        """Mark no layers any more."""
        self._marks.close()
        self.calls.profiled(False)
        if self._gradients is not None:
            self._gaps.run("gradients", functools.partial(self._gradients.window_closes, how))
        self._gaps.run("graph record", self._recorder.parts.window_closes)

    def stop_recording(self) -> None:
        """Resolve what was traced, take out the hooks of tracing and of layers, and write graph.json."""
        if self._gaps.run("graph record", self._recorder.stop):
            self._gaps.run("graph record", self._recorder.write)

    def finish(self) -> None:
        """End the sample of eager steps."""
        self._gaps.run("eager sample", self._recorder.parts.end)

    def write(self) -> None:
        """Write graph.json."""
        self._gaps.run("updates", self.calls.steps.conclude)
        if self._gradients is not None:
            self._gaps.run("gradients", self._gradients.write)
        self._recorder.write()

    def basis(self) -> Optional[str]:
        """Return "keras fit" where Keras makes the steps."""
        return "keras fit" if self.calls.steps.fit else None

    def versions(self) -> Dict[str, Optional[str]]:
        """Return the versions of TensorFlow and Keras."""
        return self._versions

    def policy(self) -> Dict[str, Any]:
        """Return Keras' policy, those of layers, and what of the model's outputs is in 16 bits."""
        return self._policy.described()

    def losses(self, since: float) -> "List[Tuple[float, str, float]]":
        """Return what the script's own event files hold."""
        return self._events.losses(since)

    def devices(self) -> Devices:
        """Return the GPUs that TensorFlow sees, and the peak of its allocator."""
        gpus = memory.gpus(self._tf)
        peak = self._gaps.run("GPUs", lambda: memory.peak_gpu_memory_bytes(self._tf)) if gpus else None
        return Devices(gpus, peak)

    def _on_tensorflow(self, tf: Any) -> None:
        self._tf = tf
        self._policy.on_tensorflow(tf)
        if self._gradients is not None:
            self._gradients.on_tensorflow(tf)
        self._versions["tensorflow"] = tf.__version__
        run = self._gaps.run
        run("precision", lambda: precision.on_tensorflow(tf, self._core.config))
        run("TensorFlow's profiler", lambda: self.profiler.on_tensorflow(tf))
        run("trace annotations", lambda: self._annotate(tf))
        run("parameter servers", lambda: self._watch_parameter_servers(tf))
        run("tracebacks of AutoGraph", places.clean_converted)
        run("tracebacks of ops", lambda: places.clean_defined(self._core.config.kind == "script"))
        if self._core.config.nvtx:
            run("NVTX ranges", lambda: self._find_tool(tf))
        run("ranges of input", self._mark_input)
        self.calls.on_tensorflow(tf)
        run("TensorFlow 1's optimizers", lambda: self._keras.hook_optimizers([tf.compat.v1.train.Optimizer]))
        run("graph record", lambda: self._recorder.on_tensorflow(tf))
        run("event files", lambda: self._events.install(tf))
        if precision.version(tf) < (2, 6):
            # Keras is a part of TensorFlow here and is never imported under its own name.
            self._on_keras(tf.keras)

    def _mark_input(self) -> None:
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator

        self._marks.iterator = OwnedIterator

    def _watch_parameter_servers(self, tf: Any) -> None:
        """Say that the steps of a coordinator are not seen: they are scheduled, and run on other machines."""
        strategy = tf.distribute.experimental.ParameterServerStrategy
        make, note = strategy.__init__, self._core.gaps.note

        @functools.wraps(make)
        def __init__(made: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            note(
                "parameter-server",
                "ParameterServerStrategy is not supported: steps that it schedules run elsewhere and are not counted",
                "profile one worker's step alone, or under MirroredStrategy",
            )
            make(made, *args, **kwds)

        strategy.__init__ = __init__

    def _find_tool(self, tf: Any) -> None:
        """Look for a tool that listens to NVTX; what it records replaces a profile of TensorFlow's."""
        ranges, config = self._core.ranges, self._core.config
        ranges.find_tool()
        if ranges.listening and config.profile and not config.tool and tf.test.is_built_with_cuda():
            self.profiler.available = False
            self._gaps.note("no-profile", TOOL_LISTENS, TOOL_REMEDY)

    def _annotate(self, tf: Any) -> None:
        self._core.ranges.annotations = TensorFlowAnnotations(tf, self._recorder.fits)

    def _on_keras(self, keras: Any) -> None:
        self._versions["keras"] = getattr(keras, "__version__", None)
        self._gaps.run("precision", lambda: precision.on_keras(keras, self._core.config))
        self._policy.on_keras(keras)
        self._keras.install(keras)
        self._gaps.run("graph record", lambda: self._recorder.on_keras(keras))
