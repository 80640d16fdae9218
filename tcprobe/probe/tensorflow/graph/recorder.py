"""Records every product that a training function traces, and what of it executes, into graph.json."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Callable, Dict, Hashable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from ...core.gaps import Guard
from ..eager.parts import EagerParts
from ..eager.sampler import EagerSample, EagerSampler
from ..fits import Datasets, Fit, Fits
from ..layers import LayerHooks
from .execute import Collector, assign, match, optimised, swapped_in, unoptimised
from .passes import GraphPasses
from .records import Record, executed_record, op_record, write_json
from .shapes import (
    CallSizes,
    OpShapes,
    first_arguments,
    has_unknown,
    infer,
    infer_loop,
    ordered,
    shape_list,
    sizes_of_call,
)
from .store import Function, Store, stem
from .trace import Tracer
from .types import is_gemm
from .walk import Visit, alternatives, walk


class Trace(NamedTuple):
    """A FuncGraph traced during a call of the function `key`."""

    graph: Any
    key: Hashable


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


class GraphRecorder:
    """Hooks tracing, collects the optimised graphs, and writes graph.json.

    The runtime calls `begin` and `end` around every call of a tf.function from outside any other, `first_call` around
    the first of each function besides, and `write` as often as it likes.

    Attributes:
        on_training: called with the key of the current function when a gradient function runs inside it.
        on_trace: called with a trace, its products and their records, in the same order, once the trace is resolved;
            it may add to the records.
        on_sample: called with an eager step once it is over; it may add to its records.
        store: the records so far; the runtime may append to its `models`.
        parts: samples eager steps, part by part.
    """

    def __init__(self, out_dir: str, gaps: Any) -> None:
        self.on_training: Optional[Callable[[Hashable], None]] = None
        self.on_trace: Optional[Callable[[Trace, Sequence[Visit], List[Record]], None]] = None
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
        self.parts = EagerParts(self._sampler, self.store.keep_part, gaps)
        self._pending: List[Trace] = []
        self._owner = 0
        self._stopped = False
        self._passing = False  # on again for a first call
        self._lock = threading.RLock()

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
        self._tf = tf
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

    def stop(self) -> None:
        """Take every hook out again; what is traced from now on is not recorded. Called between two calls."""
        if self._stopped:
            return
        self._stopped = True
        self.parts.close(True)
        if self._pending:
            self._settle(final=True)
        self.tracer.remove()
        self.layers.remove()
        self.fits.remove()
        self.datasets.remove()

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
        self.store.is_part(_text(concrete.name), key)
        if trains:
            self.training(key)

    def ran(self, concrete: Any) -> None:
        """Note that a trace has run within the profiled window; only those are told that others stand beside."""
        self.store.runs[_text(concrete.name)] += 1

    def calls_per_step(self, calls: Mapping[Any, Optional[float]]) -> None:
        """Note how often each function is called in one step; None where that is unknown."""
        for key, count in calls.items():
            if key in self.store.functions:
                self.store.functions[key].calls_per_step = count
                self.store.changed = True

    def calls_in_phases(self, calls: Mapping[Any, List[Optional[float]]]) -> None:
        """Note how often each function is called in one step of each phase."""
        for key, counts in calls.items():
            if key in self.store.functions:
                self.store.functions[key].calls_in_phases = counts
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
                    self._resolve(trace, graphs)
        for trace, _ in settled:
            function = self.store.functions.get(trace.key)
            if function is not None:
                function.call = None  # it holds the script's tensors

    def _resolve(self, trace: Trace, graphs: Any) -> None:
        function = self.store.functions.get(trace.key)
        if function is None:
            return
        self.store.made_by(self.tracer.scopes(trace.graph))
        concrete = _concrete(function, trace.graph)
        call, sizes = function.call, self._sizes(function, trace.graph)
        visits = walk(trace.graph, _is_compiled(function, concrete), sizes)
        if visits:
            function.sizes = sizes
            function.traces += 1
            record: Record = {
                "name": _text(getattr(concrete, "name", trace.graph.name)),
                "python_name": function.name,
                "executed_basis": _basis(visits, graphs),
                "ops": self._ops(trace.graph, visits, graphs, sizes),
            }
            if self.on_trace is not None:
                with Guard(self._gaps, "notes on a trace"):
                    self.on_trace(trace, visits, record["ops"])
            self.store.keep(trace.key, record)
        elif not function.traces:  # TensorFlow's own initializer of variables: it captures nothing of the function's
            function.call, function.sizes = call, None

    def _sizes(self, function: Function, graph: Any) -> CallSizes:
        """Return the sizes of the first call, which is over; the first trace knows its arguments best."""
        if function.sizes is None:
            call, function.call, function.sizes = function.call, None, CallSizes(None, ())
            with Guard(self._gaps, "sizes of the first call"):
                function.sizes = self._sizes_of(function, call, graph)
        sizes = function.sizes
        if function.traces or graph.name.startswith("__backward"):
            return sizes
        return sizes._replace(arguments=first_arguments(graph, sizes.arguments))

    def _sizes_of(self, function: Function, call: Optional[FunctionCall], graph: Any) -> CallSizes:
        if call is None:
            return CallSizes(None, ())
        arguments = ordered(function.reference(), *call.arguments)
        sizes = sizes_of_call(self._tf, self.datasets, arguments, call.fit, graph)
        if sizes.replicas > 1 and hasattr(self._gaps, "note"):
            message = "a step runs on %d replicas: each has products of its own, for its share of the batch"
            self._gaps.note("replicas", message % sizes.replicas, level="note")
        return sizes

    def _ops(self, root: Any, visits: Sequence[Visit], graphs: Any, sizes: CallSizes) -> List[Record]:
        graph = None if graphs is None else optimised(graphs)
        matches, extra = (list(map(unoptimised, visits)), []) if graph is None else match(visits, graph)
        inferred: Dict[str, OpShapes] = {}
        if graphs is not None and _shapes_missing(visits):
            with Guard(self._gaps, "shapes of partial batches"):
                inferred = infer(self._tf, graphs.post_optimization_graph, sizes, is_gemm)
        loops = self._in_loops(visits, sizes)
        others = alternatives(self.tracer.within(root), visits)
        everything = [*zip(visits, matches), *((v, swapped_in(v, graph)) for v in others)]
        passes, records = GraphPasses(visits, lambda op: self.tracer.note(op.graph, op.name)), []
        for visit, found in everything:
            note = self.tracer.note(visit.op.graph, visit.op.name)
            shapes = loops.get((id(visit.op.graph), visit.op.name)) or inferred.get(found.name or "")
            records.append(op_record(visit, note, passes, found, shapes))
        return records + [executed_record(op, inferred.get(op.name)) for op in extra]

    def _in_loops(self, visits: Sequence[Visit], sizes: CallSizes) -> Dict[Tuple[int, str], OpShapes]:
        """Return the shapes of products that run for each element of a dataset and are unknown in the trace."""
        graphs = {id(v.op.graph): v.op.graph for v in visits if not v.inlined and _shapes_missing([v])}
        found: Dict[Tuple[int, str], OpShapes] = {}
        for number, graph in graphs.items() if sizes.batch else ():
            with Guard(self._gaps, "shapes of partial batches"):
                inside = infer_loop(self._tf, graph, sizes, is_gemm)
                found.update(((number, name), shapes) for name, shapes in inside.items())
        return found

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


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _runs_later(trace: Trace) -> bool:
    return bool(trace.graph.name.startswith("__backward"))


def _concrete(function: Function, graph: Any) -> Any:
    """Return the ConcreteFunction whose graph this is, None where the tf.function lists none."""
    owner = function.reference()
    listed = getattr(owner, "_list_all_concrete_functions", lambda: ())()
    return next((c for c in listed if c.graph is graph), None)


def _is_compiled(function: Function, concrete: Any) -> bool:
    owner = function.reference()
    flag = getattr(owner, "_jit_compile", None) or getattr(owner, "_experimental_compile", None)
    if flag or concrete is None:
        return bool(flag)
    attributes = concrete.function_def.attr
    # To ask for what is not there would write it, and datasets refuse functions with an empty attribute.
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)


def _basis(visits: Sequence[Visit], graphs: Any) -> str:
    if all(visit.compiled for visit in visits):
        return "traced"
    return "liveness" if graphs is None else "graph collection"


def _shapes_missing(visits: Sequence[Visit]) -> bool:
    return any(has_unknown([shape_list(t) for t in (*v.op.inputs, *v.op.outputs)]) for v in visits)
