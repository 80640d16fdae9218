"""Keeps the traces that graph.json holds: the first and last of each function, none twice, and the eager step."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Set, Tuple

from ..eager.parts import Body
from .passes import LayerScopes
from .records import SCHEMA, Record
from .shapes import CallSizes

KEPT = 16  # traces of one function that are kept, the first among them: Keras 3.3's train_on_batch traces at every call
KEPT_IN_ALL = 128
RETRACING = 8  # traces of one function from which the report speaks of it


Kind = Tuple[Hashable, str]


class Kept(NamedTuple):
    """The record of a trace, and the runtime's key of its function."""

    function: Hashable
    record: Record


class Function:
    """A tf.function that was called from outside any other.

    Attributes:
        reference: weak reference to it.
        name: ``module.qualname`` of the Python function.
        sizes: what it was first called with.
        traces: times that it was traced with products in it.
    """

    def __init__(self, function: Any, name: str) -> None:
        self.reference: Callable[[], Any] = weakref.ref(function)
        self.name = name
        self.sizes: Optional[CallSizes] = None
        self.traces = 0


class Store:
    """Records of traces, by function and name.

    Attributes:
        functions: every tf.function that was called from outside any other, by the runtime's key.
        training: keys of functions, and of parts that some of their traces are, that train.
        calls_per_step: calls in one step by key, where what writes the file knows the steps.
        changed: True since the last `document`.
        runs: times that traces ran within the profiled window, by name.
        signatures: calls within the profiled window, as graph.json has them.
        without_products: names of traces that hold none.
    """

    def __init__(self, gaps: Any) -> None:
        self.functions: Dict[Hashable, Function] = {}
        self.training: Set[Hashable] = set()
        self.calls_per_step: Dict[Hashable, Optional[float]] = {}
        self.changed = False
        self.runs: "Counter[str]" = Counter()
        self.signatures: List[Record] = []
        self.without_products: Set[str] = set()
        self._parts: Dict[str, Hashable] = {}  # by the name of the trace
        self._replaced: Dict[str, Optional[str]] = {}  # by its name, what stands for a trace that was kept; or nothing
        self._gaps = gaps
        self._kept: List[Kept] = []
        self._eager: Dict[Hashable, Tuple[str, List[Body]]] = {}  # parts of eager steps: name, and what calls run
        self._scopes = LayerScopes()

    def keep(self, key: Hashable, record: Record) -> None:
        """Keep the first and the last traces of each function; one like an earlier one takes its place."""
        new = Kept(key, record)
        same = [place for place, kept in enumerate(self._kept) if self._kind(kept) == self._kind(new)]
        alike = next((place for place in same if _alike(self._kept[place].record, record)), None)
        if alike is not None:
            self._replaced[self._kept[alike].record["name"]] = record["name"]
            self._kept[alike] = new
        else:
            for place in reversed(same[1 : 2 - KEPT]):
                self._replaced[self._kept.pop(place).record["name"]] = None
            self._kept = [*self._kept, new]
            self._replaced.update((kept.record["name"], None) for kept in self._kept[:-KEPT_IN_ALL])
            self._kept = self._kept[-KEPT_IN_ALL:]
        self.changed = True
        function = self.functions[key]
        if function.traces == RETRACING:
            self._gaps.note(
                "retracing",
                "%s was traced %d times or more; tracing costs far more than a step" % (function.name, RETRACING),
                "call it with tensors of the same shapes, no numbers, or pass reduce_retracing=True to tf.function",
            )

    def made_by(self, scopes: LayerScopes) -> None:
        """Keep which layer made the ops of each name scope of a trace."""
        self._scopes.merge(scopes)
        self.changed = True

    def is_part(self, name: str, key: Hashable) -> None:
        """Note that the trace `name` counts as `key`, which may be another's than its function's."""
        self._parts[name] = key
        self.changed = True

    def trains(self, key: Hashable) -> None:
        """Note that the function or part `key` trains."""
        self.changed = self.changed or key not in self.training
        self.training.add(key)

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

    def part_of(self, name: str, key: Hashable) -> Hashable:
        """Return what the trace `name` of the function `key` counts as."""
        return self._parts.get(name, key)

    def standing(self, name: str) -> Optional[str]:
        """Return the name of the trace that is kept for another, or it itself, also without products; else None."""
        found: Optional[str] = name
        while found in self._replaced:
            found = self._replaced[found]
        known = self.without_products.union(kept.record["name"] for kept in self._kept)
        return found if found in known else None

    def records(self, key: Hashable) -> List[Record]:
        """Return the kept records of one function's traces."""
        return [kept.record for kept in self._kept if kept.function == key]

    def keep_part(self, key: Hashable, name: str, bodies: List[Body]) -> None:
        """Keep what the calls of an eager part run, instead of what is known of it so far."""
        self._eager[key] = name, bodies
        self.changed = True

    def document(self, version: Optional[str]) -> Record:
        """Return graph.json; `version` is TensorFlow's."""
        callers: Dict[Hashable, Dict[Hashable, float]] = {}
        functions: List[Record] = []
        variants: List[Record] = []
        names: "Counter[str]" = Counter()
        for key, (name, bodies) in self._eager.items():
            for body in bodies:
                functions.append(self._eager_part(key, name, body, names))
                for function, calls in body.calls.items():
                    known = callers.setdefault(function, {})
                    known[key] = known.get(key, 0.0) + body.share * calls
        mains = self._mains()
        for kept in self._kept:
            kind = self._kind(kept)
            key, main, calling = kind[0], mains[kind], callers.get(kept.function, {})
            stands = main == kept.record["name"]
            (functions if stands else variants).append(
                dict(
                    kept.record,
                    key=key,
                    training=key in self.training or bool(calling),
                    traces=self.functions[kept.function].traces,
                    calls_per_step=self.calls_per_step.get(key),
                    callers=[{"key": caller, "calls": calls} for caller, calls in calling.items()],
                    variant_of=None if stands else main,
                )
            )
        self.changed = False
        return {
            "schema": SCHEMA,
            "tensorflow": version,
            "functions": functions,
            "variants": variants,
            "signatures": self.signatures,
            "scopes": self._scopes.sure(),
        }

    def _eager_part(self, key: Hashable, name: str, body: Body, names: "Counter[str]") -> Record:
        """Return what stands for a part of eager steps; `names` are those taken by ops before."""
        named = {id(op): _numbered(op["op"], names) for op in body.ops}
        ops = [dict(op, op=named[id(op)], gradient_of=named.get(id(op.get("gradient_of")))) for op in body.ops]
        return {
            "name": None,
            "python_name": name,
            "key": key,
            "training": True,
            "executed_basis": "eager",
            "traces": 0,
            "calls_per_step": self.calls_per_step.get(key),
            "share": body.share,
            "ops": ops,
        }


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
