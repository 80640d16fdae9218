"""Records every product that a training function traces, and what of it executes, into graph.json."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Callable, Hashable, List, Mapping, Optional, Sequence, Tuple, Type

from ...core.gaps import Guard
from ..eager.parts import EagerParts
from ..eager.sampler import EagerSample, EagerSampler
from ..hooks.fits import Datasets, Fits
from ..hooks.layers import LayerHooks
from .execute import Collector, assign
from .records import write_json
from .resolve import FunctionCall, Resolver, Trace, text_of
from .store import Function, Store, stem
from .trace import Tracer


class GraphRecorder:
    """Hooks tracing, collects the optimised graphs, and writes graph.json.

    The runtime calls `begin` and `end` around every call of a tf.function from outside any other, `first_call` around
    the first of each function besides, and `write` as often as it likes.

    Attributes:
        on_training: called with the key of the current function when a gradient function runs inside it.
        on_sample: called with an eager step once it is over; it may add to its records.
        store: the records so far; the runtime may append to its `models`.
        resolver: makes the records of a trace.
        parts: samples eager steps, part by part.
    """

    def __init__(self, out_dir: str, gaps: Any) -> None:
        self.on_training: Optional[Callable[[Hashable], None]] = None
        self.on_sample: Optional[Callable[[EagerSample], None]] = None
        self.layers = LayerHooks(gaps)
        self.fits = Fits(gaps)
        self.datasets = Datasets(gaps)
        self.tracer = Tracer(self.layers, gaps)
        self._path = os.path.join(out_dir, "graph.json")
        self._gaps = gaps
        self._collector = Collector(gaps)
        self._tf: Any = None
        self._keras: List[Any] = []
        self._call: Optional[FunctionCall] = None
        self.store = Store(gaps)
        self.resolver = Resolver(self.store, self.tracer, self.datasets, gaps)
        self.parts = EagerParts(self._sampler, self.store.keep_part, gaps)
        self._pending: List[Trace] = []
        self._owner = 0
        self._stopped = False
        self._passing = False  # on again for a first call
        self._lock = threading.RLock()

    def writes_to(self, out_dir: str) -> None:
        """Write graph.json to this folder from now on."""
        self._path = os.path.join(out_dir, "graph.json")

    @property
    def current(self) -> Optional[Hashable]:
        """Key of the function whose call is in progress, None between calls."""
        return None if self._call is None else self._call.key

    def begin(self, key: Hashable, args: Any, kwds: Any, first: bool = False) -> None:
        """Begin a call of the function `key` from outside any other; what is traced until `end` is recorded as its.

        The first call of a function is recorded after a `stop` too, as far as the hooks see it that are in place then.
        """
        if self._stopped:
            if not first:
                return
            self.resume()
            self._passing = True
        if self._pending:
            # A tape outside the function runs its gradient after the call: that graph is collected a little later.
            self._settle(final=True)
        self._call = FunctionCall(key, threading.get_ident(), (args, kwds), self.fits.current())

    def end(self) -> None:
        """End the call that `begin` began."""
        self._call = None
        if self._passing:
            self._passing = False
            self.stop()
        elif self._pending:
            self._settle(final=False)

    def on_tensorflow(self, tf: Any) -> None:
        """Install the hooks of tracing."""
        self._tf = self.resolver.tf = tf
        self.layers.eager = tf.executing_eagerly
        self.tracer.on_graph = self._began
        self.tracer.on_gradient = self._differentiated
        self.tracer.install(tf)
        self.datasets.install(tf)

    def on_keras(self, keras: Any) -> None:
        """Install the hooks on the layers and the `fit` of one Keras."""
        self._keras.append(keras)
        if not self._stopped:
            self.layers.install(keras)
            self.fits.install(keras)

    def stop(self) -> bool:
        """Take every hook out again; what is traced from now on is not recorded. Called between two calls.

        Return False where that was done before.
        """
        if self._stopped:
            return False
        self._stopped = True
        self.parts.close(True)
        if self._pending:
            self._settle(final=True)
        self.tracer.remove()
        self.layers.remove()
        self.fits.remove()
        self.datasets.remove()
        return True

    def resume(self) -> None:
        """Put the hooks back after a `stop`; nothing happens without one."""
        if self._stopped:
            self._stopped = False
            self.parts.close(False)
            self.tracer.install(self._tf)
            self.datasets.install(self._tf)
            for keras in self._keras:
                self.layers.install(keras)
                self.fits.install(keras)

    def first_call(self, function: Any, key: Hashable, name: str) -> "FirstCall":
        """Return a context manager for the first outermost call of `function`."""
        return FirstCall(self, function, key, name)

    def eager_sample(self) -> EagerSampler:
        """Return a context manager for one eager step, whose ops it records with the shapes that they have."""
        return self._sampler(self._sampled)

    def _sampler(self, done: Callable[[EagerSample], object] = id) -> EagerSampler:
        return EagerSampler(self.layers, self.tracer, self._gaps, done)

    def _sampled(self, sample: EagerSample) -> None:
        if self.on_sample is not None:
            with Guard(self._gaps, "notes on an eager step"):
                self.on_sample(sample)
        self.store.sampled([record for _, record in sample.products])

    def training(self, key: Hashable) -> None:
        """Note that the function `key` trains."""
        function = self.store.functions.get(key)
        if function is not None and not function.training:
            function.training = self.store.changed = True

    def is_part(self, concrete: Any, key: Hashable, trains: bool) -> None:
        """Note what a trace counts as, by the runtime's key, and whether that trains."""
        self.store.is_part(text_of(concrete.name), key)
        if trains:
            self.training(key)

    def ran(self, concrete: Any) -> None:
        """Note that a trace has run within the profiled window; only those are told that others stand beside."""
        self.store.runs[text_of(concrete.name)] += 1

    def calls_per_step(self, calls: Mapping[Any, Optional[float]]) -> None:
        """Note how often each function is called in one step, where the writer of the file knows the steps."""
        for key, count in calls.items():
            if key in self.store.functions:
                self.store.functions[key].calls_per_step = count
                self.store.changed = True

    def write(self) -> None:
        """Write graph.json if there is anything new."""
        if self._pending and self._owner == threading.get_ident() and self.layers.eager():
            self._settle(final=True)
        self._save()

    def _save(self) -> None:
        with Guard(self._gaps, "graph.json"), self._lock:
            if self.store.changed:
                write_json(self._path, self.store.document(getattr(self._tf, "__version__", None)))

    def _began(self, graph: Any) -> None:
        """Take note of a new trace; what it runs as is collected when TensorFlow starts to execute it."""
        call = self._call
        if call is None or call.thread != threading.get_ident():
            return  # a dataset's function, a model under construction
        function = self.store.functions.get(call.key)
        if function is not None and function.sizes is None and function.call is None:
            function.call = call
        self._owner = call.thread
        self._pending.append(Trace(graph, call.key))
        self._collect()

    def _collect(self) -> None:
        with Guard(self._gaps, "graph collection"):
            self._collector.start()

    def _differentiated(self) -> None:
        call = self._call
        if call is None or not self._pending:
            return
        if self.on_training is not None:
            self.on_training(call.key)

    def _settle(self, final: bool) -> None:
        """Resolve the traces that have run; `final` also those that have not."""
        with Guard(self._gaps, "graph resolution"), self._lock:
            collected: List[Any] = []
            with Guard(self._gaps, "graph collection"):
                collected = self._collector.take()
            graphs = assign(collected, [t.graph for t in self._pending])
            later = [] if final else [t for i, t in enumerate(self._pending) if i not in graphs and _runs_later(t)]
            settled = [(t, graphs.get(i)) for i, t in enumerate(self._pending) if not any(t is x for x in later)]
            self._pending = later
            if not later:
                self._collector.stop()
            self._resolve_all(settled)
        self._save()

    def _resolve_all(self, settled: Sequence[Tuple[Trace, Any]]) -> None:
        """Resolve traces; one that never ran goes where another of the same function did (Keras 2 traces twice)."""
        ran = {(t.key, stem(t.graph.name)) for t, graphs in settled if graphs is not None}
        for trace, graphs in settled:
            if graphs is not None or (trace.key, stem(trace.graph.name)) not in ran:
                with Guard(self._gaps, "graph resolution"):
                    self.resolver.resolve(trace, graphs)
        for trace, _ in settled:
            function = self.store.functions.get(trace.key)
            if function is not None:
                function.call = None  # it holds the script's tensors

    def _enter(self, function: Any, key: Hashable, name: str) -> None:
        if not self._stopped:
            self.store.functions[key] = Function(function, name)
            self._collect()

    def _leave(self) -> None:
        if self._pending:
            self._settle(final=False)
        elif self._collector.on:
            with Guard(self._gaps, "graph collection"):
                self._collector.take()
                self._collector.stop()


class FirstCall:
    """Collects the graphs of a function's first call; it adds no frame to a traceback that passes."""

    def __init__(self, recorder: GraphRecorder, function: Any, key: Hashable, name: str) -> None:
        self._recorder = recorder
        self._function = function
        self._key = key
        self._name = name

    def __enter__(self) -> None:
        with Guard(self._recorder._gaps, "first call"):
            self._recorder._enter(self._function, self._key, self._name)

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        with Guard(self._recorder._gaps, "first call"):
            self._recorder._leave()


def _runs_later(trace: Trace) -> bool:
    return bool(trace.graph.name.startswith("__backward"))
