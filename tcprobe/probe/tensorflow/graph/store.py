"""Keeps the traces that graph.json holds: the first and last of each function, none twice, and the eager step."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Tuple

from ..eager.parts import Body
from .notes import LayerScopes
from .records import SCHEMA, Record
from .shapes import CallSizes

KEPT = 4  # traces of one function that are kept, the first among them: Keras 3.3's train_on_batch traces at every call
KEPT_IN_ALL = 64
RETRACING = 8  # traces of one function from which the report speaks of it


Kind = Tuple[Hashable, str]


class Kept(NamedTuple):
    """The record of a trace, and the runtime's key of its function."""

    function: Hashable
    record: Record


class Function:
    """A tf.function that was called from outside any other, a part of training that some of its traces are, or of an
    eager step.

    Attributes:
        reference: weak reference to the tf.function; to nothing for a part.
        name: ``module.qualname`` of the Python function.
        sizes: what it was first called with.
        traces: times that it was traced with products in it.
        calls_per_step: its calls in one step, where what writes the file knows the steps; else None.
        training: whether it trains.
    """

    def __init__(self, function: Any, name: str) -> None:
        self.reference: Callable[[], Any] = weakref.ref(function) if function is not None else lambda: None
        self.name = name
        self.sizes: Optional[CallSizes] = None
        self.traces = 0
        self.calls_per_step: Optional[float] = None
        self.training = False


class Store:
    """Records of traces, by function and name.

    Attributes:
        functions: every tf.function that was called from outside any other, by the runtime's key.
        changed: True since the last `document`.
        runs: times that traces ran within the profiled window, by name; of functions with several.
    """

    def __init__(self, gaps: Any) -> None:
        self.functions: Dict[Hashable, Function] = {}
        self.changed = False
        self.runs: "Counter[str]" = Counter()
        self._parts: Dict[str, Hashable] = {}  # by the name of the trace
        self._gaps = gaps
        self._kept: List[Kept] = []
        self._bodies: Dict[Hashable, List[Body]] = {}
        self._scopes = LayerScopes()

    def keep(self, key: Hashable, record: Record) -> None:
        """Keep the first and the last traces of each function; one like an earlier one takes its place."""
        new = Kept(key, record)
        same = [place for place, kept in enumerate(self._kept) if self._kind(kept) == self._kind(new)]
        alike = next((place for place in same if _alike(self._kept[place].record, record)), None)
        if alike is not None:
            self._kept[alike] = new
        else:
            for place in reversed(same[1 : 2 - KEPT]):
                del self._kept[place]
            self._kept = [*self._kept, new][-KEPT_IN_ALL:]
        self.changed = True
        function = self.functions[key]
        if function.traces == RETRACING:
            self._gaps.note(
                "retracing",
                "%s was traced %d times or more; tracing costs far more than a step" % (function.name, RETRACING),
                "call it with tensors of the same shapes, or pass reduce_retracing=True to tf.function",
            )

    def made_by(self, scopes: LayerScopes) -> None:
        """Keep which layer made the ops of each name scope of a trace."""
        self._scopes.merge(scopes)
        self.changed = True

    def is_part(self, name: str, key: Hashable) -> None:
        """Note that the trace `name` counts as `key`, which may be another's than its function's."""
        self._parts[name] = key
        if key not in self.functions:
            self.functions[key] = Function(None, "")
        self.changed = True

    def _kind(self, kept: Kept) -> Kind:
        """Return what a trace is one of several of: the part that it counts as, and its name without numbers."""
        name = kept.record["name"]
        return self._parts.get(name, kept.function), stem(name)

    def _mains(self) -> Dict[Kind, str]:
        """Return the trace that stands for each part: the one that ran most in the window, else the first."""
        found: Dict[Kind, str] = {}
        for kept in self._kept:
            name, kind = kept.record["name"], self._kind(kept)
            if kind not in found or self.runs[name] > self.runs[found[kind]]:
                found[kind] = name
        return found

    def records(self, key: Hashable) -> List[Record]:
        """Return the kept records of one function's traces."""
        return [kept.record for kept in self._kept if kept.function == key]

    def keep_part(self, key: Hashable, name: str, bodies: List[Body]) -> None:
        """Keep what the calls of an eager part run, instead of what is known of it so far."""
        self.functions.setdefault(key, Function(None, name)).training = True
        self._bodies[key] = bodies
        self.changed = True

    def document(self, version: Optional[str]) -> Record:
        """Return graph.json; `version` is TensorFlow's."""
        functions = self._eager_parts()
        variants: List[Record] = []
        mains, called = self._mains(), self._called()
        for kept in self._kept:
            kind = self._kind(kept)
            function, main = self.functions[kind[0]], mains[kind]
            callers: Dict[Hashable, float] = called.get(kept.function, {})
            stands = main == kept.record["name"]
            (functions if stands else variants).append(
                dict(
                    kept.record,
                    key=kind[0],
                    training=function.training or bool(callers),
                    traces=self.functions[kept.function].traces,
                    calls_per_step=function.calls_per_step,
                    callers=[{"key": caller, "calls": calls} for caller, calls in callers.items()],
                    variant_of=None if stands else main,
                )
            )
        self.changed = False
        return {
            "schema": SCHEMA,
            "tensorflow": version,
            "functions": functions,
            "variants": variants,
            "scopes": self._scopes.sure(),
        }

    def _eager_parts(self) -> List[Record]:
        """Return the functions that stand for the parts of eager steps, one for each body."""
        names: "Counter[str]" = Counter()
        found = []
        for key, bodies in self._bodies.items():
            for body in bodies:
                record = {
                    "name": None,
                    "python_name": self.functions[key].name,
                    "key": key,
                    "training": True,
                    "executed_basis": "eager",
                    "traces": 0,
                    "calls_per_step": self.functions[key].calls_per_step,
                    "share": body.share,
                    "ops": [dict(op, op=_numbered(op["op"], names)) for op in body.ops],
                }
                found.append(record)
        return found

    def _called(self) -> Dict[Hashable, Dict[Hashable, float]]:
        """Return for each tf.function how often a call of each eager part calls it."""
        found: Dict[Hashable, Dict[Hashable, float]] = {}
        for key, bodies in self._bodies.items():
            for body in bodies:
                for function, calls in body.calls.items():
                    callers = found.setdefault(function, {})
                    callers[key] = callers.get(key, 0.0) + body.share * calls
        return found


def _numbered(name: str, taken: "Counter[str]") -> str:
    """Return a name as TensorFlow makes it unique, and note it."""
    taken[name] += 1
    return name if taken[name] == 1 else "%s_%d" % (name, taken[name] - 1)


def stem(name: str) -> str:
    """Return a graph's name without TensorFlow's numbers."""
    return name.rstrip("0123456789_")


def _alike(one: Record, other: Record) -> bool:
    """Return whether two traces hold the same products."""
    return [_essence(op) for op in one["ops"]] == [_essence(op) for op in other["ops"]]


def _essence(op: Record) -> Tuple[Any, ...]:
    return op["op_type"], op["executes"], op["input_shapes"], op["input_dtypes"], op["layer"]
