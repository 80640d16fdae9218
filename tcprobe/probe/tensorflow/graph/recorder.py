"""Records every product that a training function traces, and what of it executes, into graph.json."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any, Callable, Dict, Hashable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.gaps import Guard
from ..eager.parts import EagerParts
from ..eager.sampler import EagerSampler, text_of
from ..hooks.calls import concrete_functions
from ..hooks.fits import Datasets, Fit, Fits
from ..hooks.layers import LayerHooks
from .execute import Collector, assign
from .records import Record, write_json
from .resolve import traced_records
from .shapes import CallSizes, first_arguments, is_open, ordered, sizes_of_call
from .signatures import OpenTrace, Signatures
from .store import Function, Store, stem
from .trace import Tracer
from .walk import Visit, walk


class FunctionCall(NamedTuple):
    """A call of a tf.function from outside any other.

    Attributes:
        key: the runtime's, of the function.
        thread: that calls.
        arguments: positional and keyword arguments.
        fit: the `fit` of Keras around it, None outside any.
    """

    key: Hashable
    thread: int
    arguments: Tuple[Any, Any]
    fit: Optional[Fit]


class Trace(NamedTuple):
    """A FuncGraph, and the call in which it was traced."""

    graph: Any
    call: FunctionCall


class GraphRecorder:
    """Hooks tracing, collects the optimised graphs, and writes graph.json.

    The runtime calls `begin` and `end` around every call of a tf.function from outside any other, and `write` as often
    as it likes.

    Attributes:
        on_training: called with the key of the current function when a gradient function runs inside it.
        on_trace: called with a trace, its products and their records, in the same order; it may add to the records.
        store: the records so far.
        parts: samples eager steps, part by part.
    """

    def __init__(self, out_dir: str, gaps: Any) -> None:
        self.on_training: Optional[Callable[[Hashable], None]] = None
        self.on_trace: Optional[Callable[[Trace, Sequence[Visit], List[Record]], None]] = None
        self.layers = LayerHooks(gaps)
        self.fits = Fits(gaps)
        self.datasets = Datasets(gaps)
        self.tracer = Tracer(self.layers, gaps)
        self.store = Store(gaps)
        self.parts = EagerParts(self.sampler, self.store.keep_part, gaps)
        self._path = os.path.join(out_dir, "graph.json")
        self._gaps = gaps
        self._collector = Collector(gaps)
        self._tf: Any = None
        self._keras: List[Any] = []
        self._calls: Dict[int, FunctionCall] = {}  # that run, by thread
        self._pending: List[Trace] = []
        self._mixed = False  # two threads trace at once, and TensorFlow collects what both run as of one function
        self._open: Dict[str, OpenTrace] = {}  # by the name of the trace
        self._signatures: Optional[Signatures] = None  # of the latest window
        self._stopped = False
        self._passing = False  # on again for a first call
        self._lock = threading.RLock()

    def writes_to(self, out_dir: str) -> None:
        """Write graph.json to this folder from now on."""
        self._path = os.path.join(out_dir, "graph.json")

    @property
    def current(self) -> Optional[Hashable]:
        """Key of the function whose call is in progress, in this thread or for a replica in it; None between calls."""
        call = self._calls.get(threading.get_ident()) or next(iter(list(self._calls.values())), None)
        return None if call is None else call.key

    def begin(self, key: Hashable, args: Any, kwds: Any, first: Optional[Tuple[Any, str]] = None) -> None:
        """Begin a call of the function `key` from outside any other; what is traced until `end` is recorded as its.

        The first call of a function, given with its name, is recorded after a `stop` too, as far as the hooks see it
        that are in place then.
        """
        if self._stopped:
            if first is None:
                return
            self.resume()
            self._passing = True
        if self._ready():
            # A tape outside the function runs its gradient after the call: that graph is collected a little later.
            self._settle(final=True)
        if first is not None:
            with Guard(self._gaps, "first call"):
                self.store.functions[key] = Function(*first)
            self._collect()
        thread = threading.get_ident()
        self._calls[thread] = FunctionCall(key, thread, (args, kwds), self.fits.current())

    def end(self) -> None:
        """End the call that `begin` began."""
        self._calls.pop(threading.get_ident(), None)
        if self._passing:
            self._passing = not self.stop()
        elif self._pending or self._collector.on:
            self._settle(final=False)

    def on_tensorflow(self, tf: Any) -> None:
        """Install the hooks of tracing."""
        self._tf = tf
        self.layers.eager = tf.executing_eagerly
        self.tracer.on_graph = self._began
        self.tracer.on_gradient = self._differentiated
        self.tracer.install(tf)
        self.datasets.install(tf)

    def on_keras(self, keras: Any) -> None:
        """Install the hooks on the layers and the `fit` of one Keras."""
        self._keras.append(keras)
        self.fits.install(keras)
        if not self._stopped:
            self.layers.install(keras)

    def stop(self) -> bool:
        """Take the hooks out again but for that on `fit`; what is traced from now on is not recorded.

        Called between two calls of its thread.

        Return False where that was done before, or has to wait: another thread traces.
        """
        if self._stopped or len(self._ready()) < len(self._pending):
            return False
        self._stopped = True
        self.parts.close(True)
        if self._pending or self._collector.on:
            self._settle(final=True)
        self._open.clear()
        self.tracer.remove()
        self.layers.remove()
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

    def sampler(self, done: Callable[[EagerSampler], object] = id) -> EagerSampler:
        """Return what records eager ops with the shapes that they have, and calls `done` with itself at the end."""
        return EagerSampler(self.layers, self.tracer, self._gaps, done)

    def training(self, key: Hashable) -> None:
        """Note that the function or part `key` trains."""
        self.store.trains(key)

    def is_part(self, concrete: Any, key: Hashable, trains: bool) -> None:
        """Note what a trace counts as, by the runtime's key, and whether that trains."""
        self.store.is_part(text_of(concrete.name), key)
        if trains:
            self.training(key)

    def window_opens(self) -> None:
        """Keep from now on which traces run in which sizes."""
        self.store.runs.clear()
        self.store.signatures = []
        self._signatures = Signatures(self._tf, self._gaps)
        self.datasets.watching = True

    def ran(self, key: Hashable, concrete: Any, tensors: Any, at: int) -> None:
        """Note that a trace of the function `key` runs within the profiled window, with these arguments.

        Args:
            key: the runtime's, of the function.
            concrete: the trace.
            tensors: its arguments, without what it captures.
            at: when, in ns since the start of the workload.
        """
        name = text_of(concrete.name)
        self.store.runs[name] += 1
        if self._signatures is not None:
            self._signatures.ran(key, name, concrete.graph, tensors, at, self.fits.current())

    def window_closes(self) -> None:
        """Infer the sizes of the calls that were seen."""
        self.datasets.watching = False
        if self._signatures is not None:
            with Guard(self._gaps, "sizes of the profiled calls"), self._lock:
                self.store.signatures = self._signatures.records(self._open, self.datasets, self.store)
                self.store.changed = True

    def calls_per_step(self, calls: Mapping[Any, Optional[float]]) -> None:
        """Note how often each function is called in one step, where the writer of the file knows the steps."""
        self.store.calls_per_step.update(calls)
        self.store.changed = True

    def write(self) -> None:
        """Write graph.json if there is anything new."""
        if self._ready() and self.layers.eager():
            self._settle(final=True)
        self._save()

    def _save(self) -> None:
        with Guard(self._gaps, "graph.json"), self._lock:
            if self.store.changed:
                write_json(self._path, self.store.document(getattr(self._tf, "__version__", None)))

    # --- traces ------------------------------------------------------------------------------------------

    def _began(self, graph: Any) -> None:
        """Take note of a new trace; what it runs as is collected when TensorFlow starts to execute it."""
        call = self._calls.get(threading.get_ident())
        if call is not None:  # no dataset's function, no model that is built
            self._pending.append(Trace(graph, call))
            self._mixed = self._mixed or len({trace.call.thread for trace in self._pending}) > 1
            self._collect()

    def _differentiated(self) -> None:
        key = self.current
        if key is not None and self._pending and self.on_training is not None:
            self.on_training(key)

    def _collect(self) -> None:
        with Guard(self._gaps, "graph collection"):
            self._collector.start()

    def _settle(self, final: bool) -> None:
        """Resolve the traces that have run; `final` also those that have not.

        One that never ran goes where another of the same function did: Keras 2 traces twice.
        """
        with Guard(self._gaps, "graph resolution"), self._lock:
            collected: List[Any] = []
            with Guard(self._gaps, "graph collection"):
                collected = self._collector.take()
            traces = self._ready()
            graphs = {} if self._mixed else assign(collected, [trace.graph for trace in traces])
            gone = set(map(id, traces))
            self._pending = [trace for trace in self._pending if id(trace) not in gone]
            self._mixed = self._mixed and bool(self._pending)
            ran = {_kind(traces[place]) for place in graphs}
            for place, trace in enumerate(traces):
                if place not in graphs and not final and trace.graph.name.startswith("__backward"):
                    self._pending.append(trace)
                elif place in graphs or _kind(trace) not in ran:
                    with Guard(self._gaps, "graph resolution"):
                        self._resolve(trace, graphs.get(place))
            if not self._pending:
                self._collector.stop()
        self._save()

    def _ready(self) -> List[Trace]:
        """Return the traces that are waited for in no other thread."""
        others = self._calls.keys() - {threading.get_ident()}
        return [trace for trace in self._pending if trace.call.thread not in others]

    def _resolve(self, trace: Trace, graphs: Any) -> None:
        """Keep the records of a trace; `graphs` are those that TensorFlow made of it, None where they are unknown."""
        function = self.store.functions[trace.call.key]
        self.store.made_by(self.tracer.scopes(trace.graph))
        concrete = _concrete(function, trace.graph)
        visits = walk(trace.graph, _is_compiled(function, concrete))
        name = text_of(getattr(concrete, "name", trace.graph.name))
        if not visits:
            self.store.without_products.add(name)
            return
        sizes = self._sizes(function, trace)
        function.traces += 1
        records = partial(traced_records, self._tf, trace.graph, visits, graphs, tracer=self.tracer, gaps=self._gaps)
        ops = records(sizes)
        if self.on_trace is not None:
            with Guard(self._gaps, "notes on a trace"):
                self.on_trace(trace, visits, ops)
        if any(is_open(visit.op) for visit in visits):
            self._open[name] = OpenTrace(trace.graph, ops, sizes, records)
        record: Record = {
            "name": name,
            "python_name": function.name,
            "executed_basis": _basis(visits, graphs),
            "ops": ops,
        }
        self.store.keep(trace.call.key, record)

    def _sizes(self, function: Function, trace: Trace) -> CallSizes:
        """Return the sizes of the first call with products, which is over; its trace knows its arguments best."""
        if function.sizes is None:
            function.sizes = CallSizes(None, ())
            with Guard(self._gaps, "sizes of the first call"):
                arguments = ordered(function.reference(), *trace.call.arguments)
                fit, graph = trace.call.fit, trace.graph
                function.sizes = sizes_of_call(self._tf, self.datasets, arguments, fit, graph)
                if function.sizes.replicas > 1:
                    message = "a step runs on %d replicas: each has products of its own, for its share of the batch"
                    self._gaps.note("replicas", message % function.sizes.replicas, level="note")
        if not function.traces and not trace.graph.name.startswith("__backward"):
            known = function.sizes
            function.sizes = known._replace(arguments=first_arguments(trace.graph, known.arguments))
        return function.sizes


def _kind(trace: Trace) -> Tuple[Hashable, str]:
    return trace.call.key, stem(trace.graph.name)


def _concrete(function: Function, graph: Any) -> Any:
    """Return the ConcreteFunction whose graph this is, None where the tf.function lists none."""
    return next((c for c in concrete_functions(function.reference()) if c.graph is graph), None)


def _is_compiled(function: Function, concrete: Any) -> bool:
    owner = function.reference()
    flag = getattr(owner, "_jit_compile", None) or getattr(owner, "_experimental_compile", None)
    if flag or concrete is None:
        return bool(flag)
    attributes = concrete.function_def.attr
    # To ask for what is not there would write it, and datasets refuse functions with an empty attribute.
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)


def _basis(visits: Sequence[Visit], graphs: Any) -> str:
    if all(visit.site.compiled for visit in visits):
        return "traced"
    return "liveness" if graphs is None else "graph collection"
