"""The layers that a traced function calls: what they are, what goes in and out, and where it comes from."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..core.gaps import Gaps
from ..tensorflow.eager.sampler import EagerSampler
from ..tensorflow.graph.called import Frames
from ..tensorflow.graph.passes import NoteOf
from ..tensorflow.graph.recorder import GraphRecorder, Trace
from ..tensorflow.graph.records import Record
from ..tensorflow.graph.shapes import GraphShape, shape_list
from ..tensorflow.graph.trace import outermost
from ..tensorflow.graph.walk import Visit, ways
from ..tensorflow.hooks.layers import CalledLayer, LayerHooks
from .classes import MAKERS, SETTINGS
from .feeds import Feeds, Key, key_of

EAGER = "eager"  # key of what no function calls
KERAS_PACKAGES = ("keras", "tf_keras", "tensorflow", "tensorflow_core")
MOST_LISTED = 16  # entries of a list that a setting may have
INPUT_ARGUMENTS = ("inputs", "input", "x")


class LayerCall(NamedTuple):
    """One call of a layer.

    Attributes:
        entry: its path, class and line.
        owner: the layer itself, kept alive until the trace is resolved.
        inputs, outputs: the tensors that went in and came out.
        graph: the outermost graph that was being traced, None in an eager step.
    """

    entry: CalledLayer
    owner: Any
    inputs: List[Any]
    outputs: List[Any]
    graph: Any


class LayerLog:
    """Listens to the hooks on layers and to resolved traces.

    Attributes:
        layers: records of the layers by key of the function, in the order of their first calls.
        eager: calls of layers in the eager step that is being recorded.
        ops: records of the products of the eager step that was recorded last.
    """

    def __init__(self, recorder: GraphRecorder, gaps: Gaps) -> None:
        self.layers: Dict[Hashable, List[Record]] = {}
        self.eager: List[LayerCall] = []
        self.ops: List[Record] = []
        self.tf: Any = None
        self._recorder = recorder
        self._gaps = gaps
        self._calls: List[LayerCall] = []
        self._owners: Dict[int, Any] = {}  # alive, so that no other layer gets the id of one
        recorder.layers.on_call = self._called
        recorder.on_trace = self._traced

    def _called(self, entry: CalledLayer, layer: Any, args: Any, kwds: Any, result: Any) -> None:
        if self._recorder.current is None and not self._recorder.layers.sampling:
            return
        given = args[:1] or [kwds[name] for name in INPUT_ARGUMENTS if name in kwds][:1]
        if any(type(t).__name__ == "KerasTensor" for t in self.tf.nest.flatten(result)):
            return  # it is only being built
        inputs, outputs = self._tensors([given, args[1:], kwds]), self._tensors(result)
        self._owners[id(layer)] = layer
        call = LayerCall(entry, layer, inputs, outputs, None)
        graph = _graph(call)
        if graph is None:
            self.eager.append(call)
        else:
            self._calls.append(call._replace(graph=outermost(graph)))

    def _tensors(self, value: Any) -> List[Any]:
        flat = self.tf.nest.flatten(value)
        return [t for t in flat if hasattr(t, "dtype") and hasattr(getattr(t, "shape", None), "rank")]

    def _traced(self, trace: Trace, visits: Sequence[Visit], records: List[Record]) -> None:
        """Tell of each product whose features it works on and who compiles it; make the records of the layers."""
        reached = {id(trace.graph), *(id(v.op.graph) for v in visits)}
        calls = [c for c in self._calls if c.graph is trace.graph and id(_graph(c)) in reached]
        self._calls = [c for c in self._calls if c.graph is not trace.graph]
        feeds = _feeds(calls, ways(visits), self._recorder.tracer.note)
        for visit, record in zip(visits, records):
            record["compiled"], record["live"] = visit.site.compiled, visit.live
            _tell_feeds(feeds, visit.op, visit.site.frames, record)
        if calls or trace.call.key not in self.layers:
            self.layers[trace.call.key] = describe(calls, feeds, self._recorder.layers)

    def sampled(self, sample: EagerSampler) -> None:
        """Do the same for an eager step that is over."""
        called, self.eager = self.eager, []
        calls = [
            c._replace(inputs=sample.flow.tensors(c.inputs), outputs=sample.flow.tensors(c.outputs)) for c in called
        ]
        feeds = _feeds(calls, {}, lambda op: op.note)
        for op in sample.products:
            _tell_feeds(feeds, op, (), op.record)
        self.layers[EAGER] = describe(calls, feeds, self._recorder.layers)
        self.ops = [op.record for op in sample.products]


def _feeds(calls: Sequence[LayerCall], around: Dict[int, Frames], note: NoteOf) -> Feeds:
    """Return what finds the layers whose features an op works on; `note` returns what was noted of a product."""
    made: Dict[Key, str] = {}
    tables: Dict[Key, str] = {}
    names = first_paths(calls)
    for call in calls:
        for tensor in call.outputs:
            made.setdefault(key_of(tensor), names[call.entry.path])
            if keras_class_of(call.owner) in MAKERS:
                tables[key_of(tensor)] = names[call.entry.path]

    def product(op: Any) -> Optional[str]:
        known = note(op)
        return None if known is None or known.layer is None else names.get(known.layer.path, known.layer.path)

    return Feeds(around, product, tables, made)


def _tell_feeds(feeds: Feeds, op: Any, frames: Frames, record: Record) -> None:
    features = 2 if "BackpropInput" in op.type else 0  # what a transposed convolution works on comes last
    if record["pass"] == "forward" and len(op.inputs) > features:
        record["fed_by"] = feeds.features(op.inputs[features], frames)._asdict()


def merged_layers(groups: List[Any]) -> List[Record]:
    """Return the layers of several functions as those of one step; `groups` are calls a step, and records.

    One layer has one name, whatever models around it a function calls.
    """
    found: Dict[int, Record] = {}
    for count, records in groups:
        for record in records:
            known = found.setdefault(record["owner"], dict(record, calls=0))
            known["calls"] += record["calls"] * count
            for key in ("paths", "inputs_from", "fed_by"):
                known[key] = list(dict.fromkeys([*known[key], *record[key]]))
            for key in ("is_first", "is_last"):
                known[key] = known[key] or record[key]
    names = {path: record["name"] for record in found.values() for path in record["paths"]}
    for record in found.values():
        for key in ("inputs_from", "fed_by"):
            record[key] = list(dict.fromkeys(names.get(name, name) for name in record[key]))
    return list(found.values())


def first_paths(calls: Sequence[LayerCall]) -> Dict[str, str]:
    """Return the name of the layer behind every path: the path of its first call."""
    first: Dict[int, str] = {}
    for call in calls:
        first.setdefault(id(call.owner), call.entry.path)
    return {call.entry.path: first[id(call.owner)] for call in calls}


def describe(calls: Sequence[LayerCall], feeds: Feeds, hooks: LayerHooks) -> List[Record]:
    """Return one record per layer that is no model."""
    grouped: Dict[int, List[LayerCall]] = {}
    for call in calls:
        grouped.setdefault(id(call.owner), []).append(call)
    ends = _ends(calls)
    if ends is not None:
        ends -= _inside(calls, feeds)
    return [_record(group, feeds, ends, hooks) for group in grouped.values() if not is_model(group[0].owner)]


def _ends(calls: Sequence[LayerCall]) -> "Optional[Set[int]]":
    """Return the ids of the layers whose output is one of the model's; None where no model was called.

    A layer that hands its input on as it is makes the output all the same; the one before it does not. Of layers in
    one another both do.
    """
    models = [c for c in calls if "/" not in c.entry.path and is_model(c.owner)]
    if not models:
        return None
    ends = {_identity(t): c.entry.path + "/" for c in models for t in c.outputs}
    found: Set[int] = set()
    for call in reversed(calls):  # a call is listed when it ends: the innermost and the earlier stand before
        path = call.entry.path + "/"
        made = [key for key in map(_identity, call.outputs) if key in ends and path.startswith(ends[key])]
        ends.update(dict.fromkeys(made, path))
        found.update({id(call.owner)} if made else ())
    return found


def _inside(calls: Sequence[LayerCall], feeds: Feeds) -> Set[int]:
    """Return the ids of the layers whose output, with another's, goes into an output beside it: attention's weights."""
    owners = {call.entry.path: id(call.owner) for call in calls}
    several = [(call.entry.path, tensor) for call in calls if len(call.outputs) > 1 for tensor in call.outputs]
    own = [(path, tensor) for path, tensor in several if feeds.maker(tensor) in (None, path)]
    sources = [feeds.sources([tensor], [path]) for path, tensor in own]
    return {owners[name] for names in sources if len(names) > 1 for name in names if name in owners}


def _record(calls: Sequence[LayerCall], feeds: Feeds, ends: "Optional[Set[int]]", hooks: LayerHooks) -> Record:
    call = calls[0]
    own = list(dict.fromkeys(c.entry.path for c in calls))
    firsts = [feeds.features(c.inputs[0]).data for c in calls if c.inputs]
    fed = feeds.features(call.inputs[0]).layers if call.inputs else []
    sources = feeds.sources([t for c in calls for t in c.inputs], own)
    return {
        **static(call.owner, hooks),
        "name": own[0],
        "owner": id(call.owner),
        "paths": own,
        "input_shapes": [shape_list(t) for t in call.inputs],
        "output_shape": shape_list(call.outputs[0]) if call.outputs else None,
        "inputs_from": [s for s in sources if not any(s.startswith(o + "/") for o in own)],
        "fed_by": fed,
        "is_first": any(firsts) if firsts else None,
        "is_last": id(call.owner) in ends if ends is not None else None,
        "calls": len(calls),
    }


def static(layer: Any, hooks: LayerHooks) -> Record:
    """Return what a layer says of itself."""
    weights = list(getattr(layer, "weights", ()))
    return {
        "kind": keras_class_of(layer),
        "class_name": type(layer).__name__,
        "source": hooks.line(layer),
        "span": hooks.span(layer),
        "dtype": _dtype(layer, "compute_dtype"),
        "variable_dtype": _dtype(layer, "variable_dtype"),
        "config": settings(layer),
        "trainable": bool(getattr(layer, "trainable_weights", ())) if weights else False,
    }


def keras_class_of(layer: Any) -> str:
    """Return the nearest class of Keras' own."""
    own = (c.__name__ for c in type(layer).__mro__ if c.__module__.split(".")[0] in KERAS_PACKAGES)
    return next(own, type(layer).__name__)


def is_model(layer: Any) -> bool:
    """Return whether an object is a model of any Keras, rather than a layer or something else."""
    return any(c.__name__ == "Model" and c.__module__.split(".")[0] in KERAS_PACKAGES for c in type(layer).__mro__)


def settings(layer: Any) -> Record:
    """Return the plain values of a layer's configuration, an activation by its name."""
    try:
        config = dict(layer.get_config())
    except Exception:  # a subclass without get_config, or with a broken one
        config = {}
    for name in SETTINGS:
        if name not in config and getattr(layer, name, None) is not None:
            config[name] = getattr(layer, name)
    for name in [n for n in config if n.endswith("activation")]:
        config[name] = _name(getattr(layer, name, config[name]))
    plain = {name: _plain(value) for name, value in config.items() if name not in ("name", "dtype", "trainable")}
    return {name: value for name, value in plain.items() if value is not ...}


def _name(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return value.get("class_name")
    return getattr(value, "__name__", type(value).__name__)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, `...` for one that it has not."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "as_list") and getattr(value, "rank", None) is not None:
        return value.as_list()
    if isinstance(value, (list, tuple)) and len(value) <= MOST_LISTED:
        items = [_plain(v) for v in value]
        return ... if any(v is ... for v in items) else items
    return ...


def _dtype(layer: Any, name: str) -> Optional[str]:
    value = getattr(layer, name, None)
    return None if value is None else str(getattr(value, "name", value))


def _identity(tensor: Any) -> Tuple[int, Any]:
    graph = getattr(tensor, "graph", None)
    return (0, id(tensor)) if graph is None else (id(graph), tensor.name)


def _graph(call: LayerCall) -> Any:
    """Return the graph that a call was traced into, None for an eager one."""
    graphs = (getattr(t, "graph", None) for t in (*call.outputs, *call.inputs))
    return next((graph for graph in graphs if graph is not None), None)


def spec_of(tensor: Any) -> Tuple[GraphShape, str]:
    """Return shape and dtype of anything that has both."""
    dtype = getattr(tensor.dtype, "name", None) or str(tensor.dtype)
    return [None if d is None else int(d) for d in tensor.shape], dtype
