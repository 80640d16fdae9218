"""Keeps in which sizes functions run within the profiled window, call by call: one trace may serve many sizes."""

from __future__ import annotations

import time
import weakref
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

from ...core.gaps import Gaps
from ..hooks.fits import Datasets, Fit
from .records import Record
from .shapes import (
    SAME_BATCH,
    CallSizes,
    GraphShape,
    adapter_of,
    datasets_before,
    datasets_of_fit,
    first_arguments,
    has_unknown,
    kind_of_dataset,
    shape_list,
)
from .store import Store

MOST_SECONDS = 20.0  # of a core, in which sizes are inferred that traces leave open; what is left by then is unknown
INFINITE = -1  # cardinality of a dataset without an end
LAST_BATCH = (
    "the data may end in a smaller batch among the profiled steps, which `fit` does not show: FLOPs are those of full"
    " batches"
)
UNSEEN = (
    "the arguments of a function do not tell all sizes of its calls (batches that `fit` takes from an iterator, data of"
    " unequal lengths, what a loop makes): FLOPs of what has them are unknown"
)


class Signature(NamedTuple):
    """What tells the calls of a part of training apart.

    Attributes:
        trace: name of the trace that ran.
        shapes: of the arguments whose sizes this leaves open, by their places.
        batch: rows that an iterator delivers, where they are fewer than usual.
    """

    trace: str
    shapes: Tuple[Tuple[int, Optional[Tuple[Optional[int], ...]]], ...] = ()
    batch: Optional[int] = None


class OpenTrace(NamedTuple):
    """A trace that leaves sizes of its products open.

    Attributes:
        graph: its FuncGraph.
        ops: its records.
        sizes: those that fill them there.
        records: makes its records anew with other sizes.
    """

    graph: Any
    ops: List[Record]
    sizes: CallSizes
    records: Callable[[CallSizes], List[Record]]

    def of(self, signature: Signature, element: Sequence[GraphShape]) -> CallSizes:
        """Return the sizes of calls; `element` are the shapes of what the generator behind them yields."""
        called: List[GraphShape] = [shape_list(t) for t in self.graph.inputs]
        for place, shape in signature.shapes:
            called[place] = None if shape is None else list(shape)
        sizes = self.sizes._replace(arguments=first_arguments(self.graph, called), element=tuple(element))
        return sizes if signature.batch is None else sizes._replace(batch=signature.batch, element=())


class Signatures:
    """The calls of a window.

    Attributes:
        calls: when functions were called, in ns since the start of the workload, by key and signature.
    """

    def __init__(self, tf: Any, gaps: Gaps) -> None:
        self.calls: Dict[Tuple[Hashable, Signature], List[int]] = {}
        self._tf = tf
        self._gaps = gaps
        self._open: "weakref.WeakKeyDictionary[Any, Tuple[int, ...]]" = weakref.WeakKeyDictionary()
        self._fits: "weakref.WeakKeyDictionary[Any, Tuple[Optional[int], Optional[int]]]" = weakref.WeakKeyDictionary()
        self._latest: Optional[Tuple[Fit, int]] = None

    def ran(self, key: Hashable, trace: str, graph: Any, tensors: Any, at: int, fit: Optional[Fit]) -> None:
        """Note a call.

        Args:
            key: of the function that was called.
            trace: name of the trace that runs.
            graph: of that trace.
            tensors: its arguments.
            at: when, in ns since the start of the workload.
            fit: of Keras around it.
        """
        opened = self._open.get(graph)
        if opened is None:
            opened = self._open[graph] = open_arguments(graph)
        given = [(place, shape_list(tensors[place])) for place in opened]
        shapes = tuple((place, None if shape is None else tuple(shape)) for place, shape in given)
        batch = None if fit is None or fit.batches is None or opened else self._last_batch(fit)
        self.calls.setdefault((key, Signature(trace, shapes, batch)), []).append(at)

    def records(self, opened: Dict[str, OpenTrace], datasets: Datasets, store: Store) -> List[Record]:
        """Return the signatures as graph.json has them: shapes are inferred as long as that may take.

        Args:
            opened: the traces that leave sizes open, by name.
            datasets: knows what generators yield.
            store: knows what traces count as, and which are kept.
        """
        end = time.thread_time() + MOST_SECONDS
        return [
            {
                "key": store.part_of(signature.trace, key),
                "name": store.standing(signature.trace),
                "arguments": [shape for _, shape in signature.shapes],
                "batch": signature.batch,
                "at_ns": times,
                "shapes": self._shapes(signature, opened.get(signature.trace), datasets, end),
            }
            for (key, signature), times in sorted(self.calls.items(), key=lambda each: -len(each[1]))
        ]

    def _shapes(self, signature: Signature, trace: Optional[OpenTrace], datasets: Datasets, end: float) -> Any:
        """Return input and output shapes of the products of calls, [] where there is no time to infer them.

        None where they are those of the trace's records.
        """
        if trace is None:
            return None
        element, ends = datasets.usual(list(trace.sizes.element))
        if ends:
            self._gaps.note("last-batch", LAST_BATCH, level="note")
        sizes = trace.of(signature, element)
        if sizes != trace.sizes and time.thread_time() > end:
            return []
        ops = trace.ops if sizes == trace.sizes else trace.records(sizes)
        if any(op["executes"] != "no" and has_unknown(op["output_shapes"]) for op in ops):
            self._gaps.note("sizes-unseen", UNSEEN, level="note")
        return None if ops is trace.ops else [[op["input_shapes"], op["output_shapes"]] for op in ops]

    def _last_batch(self, fit: Fit) -> Optional[int]:
        """Return the rows of the batch that comes next if it is a smaller last one; note where that cannot be seen."""
        if fit not in self._fits:
            self._fits[fit] = epoch_of(self._tf, fit)
        (batches, last), place = self._fits[fit], place_in_epoch(fit)
        again = self._latest is not None and (self._latest[0] is not fit or (place or 0) <= self._latest[1])
        self._latest = fit, place or 0
        if last == 0:
            return None
        if last is None or batches is None or place is None or fit.replicas > 1:
            if again or place is None:  # an epoch has ended in the window
                self._gaps.note("last-batch", LAST_BATCH, level="note")
            return None
        return last if place == batches - 1 else None


def open_arguments(graph: Any) -> Tuple[int, ...]:
    """Return the places of the arguments whose sizes a trace leaves open; captured tensors stand behind them."""
    given = list(graph.inputs)[: len(graph.inputs) - len(list(graph.captures))]
    open_ones = (place for place, tensor in enumerate(given) if not tensor.shape.is_fully_defined())
    return tuple(place for place in open_ones if given[place].dtype.name not in ("resource", "variant"))


def epoch_of(tf: Any, fit: Fit) -> Tuple[Optional[int], Optional[int]]:
    """Return how many batches an epoch of a `fit` has, and the rows of a last one that is smaller; None is unknown."""
    adapter = adapter_of(fit)
    if hasattr(adapter, "_partial_batch_size"):  # of arrays
        size = adapter.num_batches if hasattr(adapter, "num_batches") else adapter.get_size()
        return size, adapter._partial_batch_size or 0
    found = {_end_of_dataset(tf, dataset) for dataset in datasets_of_fit(fit)}
    return found.pop() if len(found) == 1 else (None, None)


def _end_of_dataset(tf: Any, dataset: Any) -> Tuple[Optional[int], Optional[int]]:
    repeated = False
    while dataset is not None:
        before, size = datasets_before(dataset), getattr(dataset, "_batch_size", None)
        if len(before) != 1:
            break
        if size is not None:
            return _end_of_batches(tf, dataset, int(before[0].cardinality()), int(size), repeated)
        kind = kind_of_dataset(dataset)
        if kind not in SAME_BATCH:
            break
        repeated = repeated or kind in ("Repeat", "Take", "Skip", "Filter")
        dataset = before[0]
    return None, None


def _end_of_batches(tf: Any, dataset: Any, rows: int, size: int, repeated: bool) -> Tuple[Optional[int], Optional[int]]:
    dropped = getattr(dataset, "_drop_remainder", None)
    if rows == INFINITE or (dropped is not None and tf.get_static_value(dropped)):
        return None, 0
    if rows < 0 or (rows % size and repeated):
        return None, None
    return -(-rows // size), rows % size


def place_in_epoch(fit: Fit) -> Optional[int]:
    """Return which batch of its data a `fit` takes next, from 0 on; None where it does not say."""
    batches = fit.batches
    if hasattr(batches, "_steps_seen"):  # Keras 3 counts a batch before it is taken
        return None if batches.steps_per_execution != 1 else int(batches._steps_seen) - 1
    each: Any = getattr(batches, "_steps_per_execution_value", getattr(batches, "_steps_per_execution", None))
    each = each.numpy() if hasattr(each, "numpy") else each
    if each not in (None, 1) or getattr(adapter_of(fit), "_user_steps", None) is not None:
        return None
    return getattr(batches, "_current_step", None)
