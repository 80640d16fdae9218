"""Describes the training steps of a script, from the functions that it called before each was known."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Dict, Hashable, Iterable, List, NamedTuple, Optional, Set, Tuple

from ...tensorflow.eager.parts import Body
from ...tensorflow.graph.records import Record
from ...tensorflow.precision import clusters
from ..calls import Training
from ..document import AuditRecord
from ..layers import EAGER, merged_layers
from ..watch import Watch
from ..xla import Xla


class Step(NamedTuple):
    """A training step.

    Attributes:
        keys: of the functions that it calls.
        unit: of audit.json.
        empty: whether it multiplies nothing.
    """

    keys: Set[Hashable]
    unit: Record
    empty: bool


class Steps:
    """The training steps of one script, each a unit of audit.json.

    Attributes:
        trained: ids of the layers in any step, those left out among them.
    """

    def __init__(self, watch: Watch, document: AuditRecord) -> None:
        self._watch = watch
        self._document = document
        self._found: List[Step] = []
        self._known: List[Any] = []
        self._eager = 0
        self.trained: Set[int] = set()

    @property
    def found(self) -> bool:
        """Whether there is any step."""
        return bool(self._found)

    def close(self) -> None:
        """Describe what was called since the last step as another; nothing where nothing was trained."""
        training = self._watch.calls.take()
        if not training.seen:
            return
        self._watch.recorder.write()
        counts: Dict[Hashable, float] = training.calls_per_step()
        ops = self._end_eager(counts) if training.eager else []
        if ops or not any(set(counts) <= step.keys for step in self._found):
            self._add(training, counts, ops)

    def _end_eager(self, counts: Dict[Hashable, float]) -> List[Record]:
        """Add what ran outside any function to the functions that a step calls; return its products."""
        self._eager += 1
        key = "%s#%d" % (EAGER, self._eager)
        self._watch.calls.names[key] = key
        layers = self._watch.log.layers
        layers[key] = layers.pop(EAGER, [])
        counts[key] = 1.0
        ops, self._watch.log.ops = self._watch.log.ops, []
        if ops:
            self._watch.recorder.store.keep_part(key, key, [Body(ops, Counter(), 1.0)])
        return ops

    def _add(self, training: Training, counts: Dict[Hashable, float], ops: List[Record]) -> None:
        store = self._watch.recorder.store
        everything = [*ops, *(op for key in counts for record in store.records(key) for op in record["ops"])]
        layers = self._layers(counts)
        self.trained |= {record["owner"] for record in layers}
        said = _essence(everything, layers)
        empty = not (everything or layers)
        if self._found and (empty or said in self._known):
            return
        self._known.append(said)
        traces = training.in_sizes if set(counts) <= set(training.in_sizes) else {}  # of one function in several sizes
        self._watch.recorder.calls_per_step({**dict.fromkeys(traces, 1.0), **counts})
        # A step that was called alone first may be a part of this one.
        self._found = [step for step in self._found if not (step.empty or step.keys < set(counts))]
        unit = self._unit(training, counts, layers)
        if len(traces) > 1:
            unit["in_sizes"] = [self._in_sizes(key, calls) for key, calls in traces.items()]
            unit["more_sizes"] = training.more_sizes
        self._found.append(Step({*counts, *traces}, unit, empty))
        self._write()

    def _in_sizes(self, key: Hashable, calls: int) -> Record:
        layers = self._layers({key: 1.0})
        names = [self._watch.calls.names.get(key)]
        return {"calls": calls, "functions": names, "layers": layers, "batch": self._batch([key], layers)}

    def _layers(self, counts: Dict[Hashable, float]) -> List[Record]:
        return merged_layers([(counts[key], self._watch.log.layers.get(key, [])) for key in counts])

    def _xla(self) -> Xla:
        decided, on = (
            self._watch.xla.decided(),
            self._watch.gaps.run("auto-clustering", lambda: clusters(self._watch.tf)),
        )
        return Xla(True) if on else Xla(None, decided)

    def _write(self) -> None:
        """Put the units into the document; where there are several, each is called by its line too."""
        name = os.path.basename(self._document.path)
        several = len(self._found) > 1
        self._document.steps = [
            dict(step.unit, label="%s:%s" % (name, step.unit["label"]) if several else name) for step in self._found
        ]

    def _unit(self, training: Training, counts: Dict[Hashable, float], layers: List[Record]) -> Record:
        watch = self._watch
        batch = self._batch(counts, layers)
        invented = training.invented_batch
        return {
            "label": (training.place or "?").rpartition(":")[2],
            "functions": [watch.calls.names.get(key) for key in counts],
            "own_step": False,
            "batch": batch or invented,
            "batch_known": bool(batch and batch != invented),
            "layers": layers,
            **self._xla()._asdict(),
        }

    def _batch(self, keys: Iterable[Hashable], layers: List[Record]) -> Optional[int]:
        """Return the samples that functions are called with, by their arguments or the layers; None if unknown."""
        functions = [self._watch.recorder.store.functions.get(key) for key in keys]
        sizes = [f.sizes for f in functions if f is not None and f.sizes is not None]
        return next((s.batch for s in sizes if s.batch), None) or _leading(sizes) or _first_size(layers)


def _essence(ops: List[Record], layers: List[Record]) -> Tuple[Any, ...]:
    """Return what tells a step from others: its products, and the lines of its layers."""
    products = sorted(str((op["op_type"], op["input_shapes"], op["pass"])) for op in ops)
    return products, sorted(str((r["source"], r["kind"], r["config"], r["trainable"])) for r in layers)


def _leading(sizes: List[Any]) -> Optional[int]:
    shapes = [shape for s in sizes for shape in s.arguments if shape]
    return next((shape[0] for shape in shapes if len(shape) > 1 and shape[0]), None)


def _first_size(layers: List[Record]) -> Optional[int]:
    shapes = [r["input_shapes"][0] for r in layers if r["input_shapes"] and r["is_first"] is not False]
    return next((shape[0] for shape in shapes if shape and shape[0]), None)
