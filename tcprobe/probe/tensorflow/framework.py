"""Answers for TensorFlow and Keras what the probe's core asks of a framework; hooks Keras, and reads event files."""

from __future__ import annotations

import functools
import glob
import os
import re
import sys
import threading
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ..core.framework import Core, Devices, Hook
from ..core.gaps import Gaps
from . import memory, places, precision
from .calls import CallWatch
from .gradients import Gradients
from .graph.recorder import GraphRecorder
from .hooks.patch import Patches, around
from .precision import PolicyRecord, on_model
from .profiler import LayerRanges, ProfilerLog, TensorFlowAnnotations, TensorFlowProfiler

LOGS = re.compile(r"loss|acc", re.IGNORECASE)
MOST_BYTES = 64 << 20  # of one file; a scalar takes about 60 bytes
Logged = Tuple[float, str, float]
"""Seconds since the epoch, name and value."""


class EventFiles:
    """Knows the folders that the script writes events to, by `tf.summary.create_file_writer` or Keras' TensorBoard."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._writers: Dict[str, Any] = {}
        self._tf: Any = None

    def install(self, tf: Any) -> None:
        """Watch the op that opens a writer."""
        from tensorflow.python.ops import gen_summary_ops as ops

        self._tf, make = tf, ops.create_summary_file_writer

        @functools.wraps(make)
        def create(writer: Any, logdir: Any, *args: Any, **kwds: Any) -> Any:
            self._gaps.run("event files", lambda: self._add(writer, logdir))
            return make(writer, logdir, *args, **kwds)

        ops.create_summary_file_writer = create

    def _add(self, writer: Any, logdir: Any) -> None:
        folder = logdir.numpy() if hasattr(logdir, "numpy") else logdir
        self._writers[folder.decode() if isinstance(folder, bytes) else str(folder)] = writer

    def losses(self, since: float) -> List[Logged]:
        """Return the losses and accuracies of files written since a time, in order of time."""
        found: List[Logged] = []
        for folder, writer in self._writers.items():
            try:
                self._tf.raw_ops.FlushSummaryWriter(writer=writer)
            except self._tf.errors.OpError:
                pass  # the script has closed it
            for path in glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*")):
                if os.path.getmtime(path) >= since and os.path.getsize(path) <= MOST_BYTES:
                    found += self._scalars(path, "val_" if os.path.basename(folder) == "validation" else "")
        return sorted(found)

    def _scalars(self, path: str, prefix: str) -> Iterator[Logged]:
        for event in self._tf.compat.v1.train.summary_iterator(path):
            for one in event.summary.value:
                if LOGS.search(one.tag):
                    number = self._tf.make_ndarray(one.tensor) if one.HasField("tensor") else one.simple_value
                    if getattr(number, "size", 1) == 1:
                        name = re.sub(r"[^a-z0-9/]+", "_", one.tag.lower()).strip("_")
                        yield event.wall_time, prefix + name, float(number)


VALIDATION = ("evaluate", "test_on_batch")


class Applies(threading.local):
    """Whether this thread applies an optimizer: one method calls another (`apply_gradients`, `apply`, the inner's)."""

    now = False


class KerasHooks:
    """Hooks keras, tf_keras, or the tf.keras of Keras 2.

    Args:
        core: the probe's.
        calls: is told of train functions and updates.
        updates: is told of each optimizer once.
        gradients: counts what they are given; None where that was not asked for.
    """

    def __init__(
        self, core: Core, calls: CallWatch, updates: Callable[[Any], None], gradients: Optional[Gradients]
    ) -> None:
        self._updates = updates
        self._gradients = gradients
        self._seen: Set[int] = set()
        self._config = core.config
        self._training = core.training
        self._gaps = core.gaps
        self._calls = calls
        self._patches = Patches()
        self._applies = Applies()

    def install(self, keras: Any) -> None:
        """Hook one Keras; a second call with the same does nothing."""
        run, method = self._gaps.run, self._patches.method
        run("Keras fit", lambda: method(keras.Model, "make_train_function", self._making))
        run("Keras optimizers", lambda: self.hook_optimizers(optimizer_classes(keras)))
        validating = around(self._gaps, "ranges", self._calls.tapes.validates)
        for name in VALIDATION:
            run("Keras validation", partial(method, keras.Model, name, validating))

    def _making(self, make: Any) -> Any:
        def make_train_function(model: Any, *args: Any, **kwds: Any) -> Any:
            before = model.__dict__.get("train_function")
            if before is None:
                on_model(model, self._config.xla, self._gaps)
            result = make(model, *args, **kwds)
            steps = self._gaps.run("Keras fit", lambda: steps_per_execution(model)) or 1
            made = model.__dict__.get("train_function") is not before
            self._calls.steps.fits(steps, str(model.name) if made else None)
            return result

        return make_train_function

    def hook_optimizers(self, roots: Sequence[Any]) -> None:
        """Hook the methods of optimizers, given their classes."""
        for kind in (kind for root in roots for kind in root.__mro__):
            for name in ("apply_gradients", "apply"):
                if name in vars(kind):
                    self._patches.method(kind, name, self._applying)

    def _applying(self, apply: Any) -> Any:
        calls, gaps, name, applies = self._calls, self._gaps, apply.__name__, self._applies
        seen, updates, gradients = self._seen, self._updates, self._gradients
        threads = self._training.threads
        here = threads.here

        def applying(optimizer: Any, *args: Any, **kwds: Any) -> Any:
            if applies.now:
                return apply(optimizer, *args, **kwds)
            within = here.current is not None or not calls.hooks.eager()
            if not within and (here.inside or (threads.callers and threads.is_inside())):
                return apply(optimizer, *args, **kwds)
            if id(optimizer) not in seen:
                seen.add(id(optimizer))
                gaps.run("loss scale", partial(updates, optimizer))
            applies.now, after = True, None
            try:
                args, kwds, variables = given(optimizer, name, args, kwds)
                if gradients is not None:
                    gaps.run("gradients", partial(gradients.given, optimizer, name, args, kwds, variables))
                if within:
                    gaps.run("traces", partial(calls.applies, optimizer, variables))
                else:
                    after = gaps.run("eager optimizers", partial(calls.tapes.applies, variables))
                return apply(optimizer, *args, **kwds)
            finally:
                applies.now = False
                if after is not None:
                    after()

        return applying


def given(optimizer: Any, name: str, args: Any, kwds: Any) -> Tuple[Any, Any, List[Any]]:
    """Return the arguments of an optimizer's method, to be used once, and the variables that they update.

    Args:
        optimizer: any Keras', or one of ``tf.compat.v1.train``.
        name: ``apply_gradients`` or ``apply``.
        args, kwds: of its call.
    """
    if name == "apply_gradients":
        pairs = args[0] if args else kwds.get("grads_and_vars", ())
        if hasattr(pairs, "__next__"):
            pairs = list(pairs)  # a zip is read once
            args, kwds = ((pairs, *args[1:]), kwds) if args else (args, dict(kwds, grads_and_vars=pairs))
        try:
            return args, kwds, [variable for gradient, variable in pairs if gradient is not None]
        except (TypeError, ValueError):
            return args, kwds, []  # what is wrong in a call, the optimizer itself has to say
    variables = args[1] if len(args) > 1 else kwds.get("trainable_variables")
    return args, kwds, _listed(getattr(optimizer, "_trainable_variables", ()) if variables is None else variables)


def _listed(value: Any) -> List[Any]:
    """Return what can be read again as a list; nothing for what cannot."""
    return list(value) if hasattr(value, "__iter__") and not hasattr(value, "__next__") else []


def optimizer_classes(keras: Any) -> List[Any]:
    """Return the roots of this Keras' optimizers, the legacy ones and the wrapper for loss scaling too."""
    optimizers = keras.optimizers
    legacy = getattr(optimizers, "legacy", None)
    mixed = getattr(keras, "mixed_precision", None)
    scaling = getattr(mixed, "LossScaleOptimizer", None) or getattr(optimizers, "LossScaleOptimizer", None)
    found = [
        getattr(optimizers, "Optimizer", None),
        getattr(legacy, "Optimizer", None),
        scaling,
        # Keras 2.11 and later wrap their new optimizers in another class, which is not exported.
        getattr(sys.modules.get(str(getattr(scaling, "__module__", None))), "LossScaleOptimizerV3", None),
    ]
    return [kind for kind in found if isinstance(kind, type)]


def steps_per_execution(model: Any) -> int:
    """Return the steps that one call of the model's train function makes."""
    value = getattr(model, "steps_per_execution", None)
    value = getattr(model, "_steps_per_execution", None) if value is None else value
    if value is None:
        return 1
    return int(value.numpy()) if hasattr(value, "numpy") else int(value)


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
