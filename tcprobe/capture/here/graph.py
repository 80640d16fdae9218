"""What the steps of this process multiply: the probe's own recorder, for as long as steps are taken."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, Final

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.graph.recorder import GraphRecorder
from tcprobe.probe.tensorflow.hooks.calls import Calls, concrete_functions
from tcprobe.probe.tensorflow.hooks.patch import Patches
from tcprobe.probe.tensorflow.places import function_name
from tcprobe.probe.tensorflow.precision import PolicyRecord

KERAS: Final = ("keras", "tf_keras")
FILE: Final = "graph.json"
UNKNOWN: Final = "layers, shapes and sizes of its ops are not known"


@dataclass(slots=True)
class Function:
    """A tf.function that steps call."""

    key: int  # number of the function in graph.json
    name: str  # ``module.qualname`` of the Python function
    tf_function: Any  # held, so that no other has its id
    traced_before: bool  # it had traces when steps began, of which nothing was recorded
    calls: int = 0  # in whole steps under the profiler


@dataclass(slots=True, eq=False)
class StepGraph:
    """Records the functions that steps call: their products with shapes, passes and layers, and calls in a step.

    What cannot be known whole is not written at all, and a note says why: a step of which a part is missing would have
    too few FLOPs.
    """

    gaps: Gaps  # takes what fails, and the notes
    _tf: Any
    clock: Callable[[], int] = int  # of steps.csv, in ns
    policy: PolicyRecord = field(init=False)  # the precision that the steps compute in
    _recorder: GraphRecorder = field(init=False)
    _out: Path | None = None
    _hooks: Calls = field(init=False)
    _functions: dict[int, Function] = field(default_factory=dict)
    _thread: int | None = None
    _in_step: list[Function] = field(default_factory=list)
    _profiled: bool = False
    _awaits: Function | None = None  # that is called, until its trace runs
    _runs: Patches = field(default_factory=Patches)  # that see which trace runs, under the profiler
    _steps: int = 0
    _differentiates: bool = False

    def __post_init__(self) -> None:
        self._recorder = GraphRecorder("", self.gaps)
        self.policy = PolicyRecord(self._recorder.layers, self.gaps, None)
        self._recorder.on_training = self._recorder.training
        self._hooks = Calls(self.gaps, lambda: self._thread != get_ident() or self._recorder.current is not None)
        self._hooks.on_call = self._called
        self._hooks.on_gradient = self._hooks.on_take = self._takes_gradient

    @property
    def in_fit(self) -> bool:
        """Whether a `fit` of Keras runs in this thread, as far as `watch_fits` was called before it."""
        return self._recorder.fits.current() is not None

    def watch_fits(self) -> None:
        """See which `fit` runs from now on, which tells the batch; the other hooks come with the first step."""
        _ = self._tf.keras.Model  # TensorFlow loads Keras when it is asked for
        for keras in _kerases():
            self._recorder.fits.install(keras)

    def install(self, out: Path) -> None:
        """Put the hooks in place, before the first step; graph.json is written to the folder `out`."""
        tf, run = self._tf, self.gaps.run
        self._out = out
        self._recorder.writes_to(str(out))
        run("graph record", lambda: self._recorder.on_tensorflow(tf))
        self.policy.on_tensorflow(tf)
        for keras in _kerases():
            self.policy.on_keras(keras)
            run("graph record", lambda keras=keras: self._recorder.on_keras(keras))  # type: ignore[misc]
        self._hooks.install(tf)

    def remove(self) -> None:
        """Take every hook out again; a second call does nothing."""
        self._hooks.remove()
        self.gaps.run("graph record", self._recorder.stop)
        self._recorder.fits.remove()

    @contextmanager
    def step(self, counted: bool) -> Iterator[None]:
        """See the functions that are called within; count them if the step is under the profiler, and ends well."""
        self._thread = get_ident()
        self._in_step.clear()
        try:
            yield
        finally:
            self._thread = None
        if counted:
            self._steps += 1
            for function in self._in_step:
                function.calls += 1

    def profiled(self, opens: bool) -> None:
        """Keep in which shapes the functions run from now on, or no more: the profiler starts or stops."""
        self._profiled = opens
        if opens:
            self._recorder.window_opens()
            self._see_traces(*self._functions.values())
        else:
            self._runs.restore()
            self._recorder.window_closes()

    def _see_traces(self, *functions: Function) -> None:
        for known in functions:
            for kind in map(type, concrete_functions(known.tf_function)[:1]):
                self.gaps.run("traces", partial(self._runs.method, kind, "_call_flat", self._running))

    def _running(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def _call_flat(concrete: Any, tensors: Any, *args: Any, **kwds: Any) -> Any:
            known = self._awaits
            if known is not None and any(one.graph is concrete.graph for one in concrete_functions(known.tf_function)):
                self._awaits = None
                self.gaps.run("traces", lambda: self._recorder.ran(known.key, concrete, tensors, self.clock()))
            return run(concrete, tensors, *args, **kwds)

        return _call_flat

    def write(self) -> None:
        """Write graph.json, or a note on why it cannot be known whole; all hooks are out afterwards."""
        self.remove()
        called = [one for one in self._functions.values() if one.calls]
        if not self._steps or self._is_partly_unknown(called):
            if self._out is not None:
                (self._out / FILE).unlink(missing_ok=True)  # it was written as functions were traced
            return
        for one in called:
            self._recorder.training(one.key)
        self._recorder.calls_per_step({one.key: one.calls / self._steps for one in self._functions.values()})
        self.gaps.run("graph record", self._recorder.write)

    def _is_partly_unknown(self, called: Sequence[Function]) -> bool:
        """Say in a note what of the step was not seen, and return whether there is such a part."""
        before = ", ".join(sorted({one.name for one in called if one.traced_before}))
        if before:
            remedy = "profile before it is first called, or define it anew (for model.fit: compile the model anew)"
            self.gaps.note("traced-before", f"{before} was traced before the first recorded step: {UNKNOWN}", remedy)
        elif not called or self._differentiates:
            what = "takes gradients" if called else "runs"
            remedy = "decorate the whole step with tf.function, or use tcprobe profile script.py"
            self.gaps.note("eager-here", f"the step {what} outside of any tf.function: {UNKNOWN}", remedy, "note")
        return bool(before) or not called or self._differentiates

    def names(self) -> list[str]:
        """Return the names of the functions that steps under the profiler called."""
        return [one.name for one in self._functions.values() if one.calls]

    def _takes_gradient(self, *_: Any, **__: Any) -> None:
        if self._thread == get_ident() and self._tf.executing_eagerly():
            self._differentiates = True

    def _called(self, original: Callable[..., Any], function: Any, args: Any, kwds: Any) -> Any:
        known = self._functions.get(id(function))
        first = known is None
        if known is None:
            known = self._functions[id(function)] = self._known(function)
        self._in_step.append(known)
        self._recorder.begin(known.key, args, kwds, (function, known.name) if first else None)
        self._awaits = known if self._profiled else None
        try:
            return original(function, *args, **kwds)
        finally:
            self._awaits = None
            self._recorder.end()
            if first and self._profiled:
                self._see_traces(known)

    def _known(self, function: Any) -> Function:
        before = bool(self.gaps.run("traces", function.experimental_get_tracing_count))  # to list them may trace
        return Function(len(self._functions), function_name(function), function, before)


def _kerases() -> list[Any]:
    """Return every Keras that is loaded."""
    loaded = (sys.modules.get(name) for name in KERAS)
    return [keras for keras in loaded if hasattr(keras, "layers") and hasattr(keras, "Model")]
