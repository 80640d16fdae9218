"""Traces training functions without running them, and stops what calls them once a step is known."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from typing import Any, Callable, Dict, Hashable, List, Optional, Set

from ..constants import SAMPLES
from ..core.gaps import Gaps
from ..core.lines import running_line
from ..tensorflow.graph.recorder import GraphRecorder
from ..tensorflow.graph.shapes import batch_of_dataset, batch_of_fit
from ..tensorflow.hooks.calls import Calls, function_class
from ..tensorflow.hooks.patch import Patches
from ..tensorflow.places import function_name
from .layers import LayerLog
from .loops import Loop, running_loops, share, waits
from .onward import Onward, Stopped, zeros_of

MOST_CALLS = 64  # of one training function before another that its loop also calls: a critic is trained 5 times or so
MOST_SECONDS = 5.0  # from the first training call on; what the script does in between is its own loading of data
MOST_STOPS = 3  # exceptions that a script may swallow
MOST_STARTS = 2  # of steps with one call outside any loop that is seen: something else repeats it then
MOST_COUNTED = 20.0  # seconds likewise, where sizes change from call to call
MOST_SIZES = 8  # sets of sizes that one function is traced in
OPEN = "the input_signature of %s leaves sizes open beside the batch: it is judged in those of its first %s, %s"
CHANGES = "the sizes of %s change from step to step, %s and then %s: it is judged in those of its first call"
NO_TRAINING = re.compile("test|eval|valid|predict|infer|sampl|metric|log")


class Training:
    """What a loop, or a `fit`, calls to train.

    Attributes:
        order: keys of the training functions as they were called.
        traces: keys of what the first of them was traced as, by the sizes of its arguments.
        in_sizes: how often each of those was called.
        more_sizes: whether it was called in others too, which were left out.
        under_tape: keys of functions that were called under a tape outside them.
        eager: whether a gradient was taken outside any function.
        in_fit: whether `fit` of Keras called the first.
        began: time of the first call, in seconds.
        place: the user's line of the first call, ``file:line``.
        sample: records the eager part, None before and after.
        until: how many products and calls of layers the eager part has up to its last gradient.
        tapes: lines at which tapes were entered.
        loops: those around the first call or tape, None before.
        repeats: whether the eager part ended where it began again.
        invented_batch: samples that were assumed, None where the script says how many.
    """

    def __init__(self) -> None:
        self.order: List[Hashable] = []
        self.traces: Dict[str, Hashable] = {}
        self.in_sizes: "Counter[Hashable]" = Counter()
        self.more_sizes = False
        self.under_tape: Set[Hashable] = set()
        self.eager = False
        self.in_fit = False
        self.began = 0.0
        self.place: Optional[str] = None
        self.sample: Any = None
        self.until = 0, 0
        self.tapes: Set[Any] = set()
        self.loops: Optional[List[Loop]] = None
        self.repeats = False
        self.invented_batch: Optional[int] = None

    @property
    def seen(self) -> bool:
        """Whether anything was trained."""
        return bool(self.order) or self.eager

    def calls_per_step(self) -> Dict[Hashable, float]:
        """Return how often one step calls each function."""
        repeated = len(set(self.order)) > 1
        counts = {key: float(self.order.count(key)) if repeated else 1.0 for key in self.order}
        return {**counts, **dict.fromkeys(self.under_tape, 1.0)}

    def end_sample(self) -> None:
        """End the recording of the eager part."""
        sample, self.sample = self.sample, None
        if sample is not None:
            sample.stop()


class AuditCalls:
    """Hooks outermost calls of tf.functions and eager tapes.

    Attributes:
        hooks: on functions and tapes.
        now: the training that is becoming known.
        names: what each function is called, by key; no two have one name.
        own: keys of tcprobe's own steps, which nobody waits for.
        onward: whether and how the script goes on after a step.
        on_stop: called when the script swallows every stop.
        notes: which functions run, or may run, in other sizes than those that are judged.
    """

    def __init__(
        self, recorder: GraphRecorder, log: LayerLog, gaps: Gaps, batch: Optional[int], onward: Onward
    ) -> None:
        self.now = Training()
        self.names: Dict[Hashable, str] = {}
        self.own: Set[Hashable] = set()
        self.onward = onward
        self.on_stop: Callable[[], None] = lambda: None
        self.tf: Any = None
        self._recorder = recorder
        self._log = log
        self._gaps = gaps
        self._batch = batch
        self._functions: Dict[Hashable, Any] = {}
        self._function_class: Any = None
        self._training: Set[Hashable] = set()
        self._traced: Dict[Hashable, Any] = {}
        self._called_names: Set[str] = set()
        self.notes: List[str] = []
        self._starts: Dict[Hashable, int] = {}
        self._stops = 0
        self._patches = Patches()
        self.hooks = Calls(gaps, lambda: recorder.current is not None)
        self.hooks.on_call, self.hooks.on_enter, self.hooks.on_take = self._called, self._tape_entered, self._takes
        recorder.on_training = self._trains

    def on_tensorflow(self, tf: Any) -> None:
        """Hook calls and tapes."""
        self.tf = tf
        self._function_class = function_class(tf)
        self.hooks.install(tf)
        self._patches.method(tf.distribute.Strategy, "experimental_distribute_dataset", self._distributing)

    def _trains(self, key: Hashable) -> None:
        self._training.add(key)
        self._recorder.training(key)

    def take(self) -> Training:
        """Return the training so far, ended; what comes next is another."""
        done, self.now = self.now, Training()
        if done.sample is not None and not done.repeats:  # what ran behind the loop is no part of it
            products, calls = done.until
            del done.sample.products[products:], self._log.eager[calls:]
        done.end_sample()
        self.hooks.forget_tape()
        self._stops = 0
        if len(done.traces) == 1 and self._opens(done.order[0]):
            many = "%d calls" % len(done.order) if len(done.order) > 1 else "call"
            self._note(OPEN, done.order[0], many, *done.traces)
        elif len(done.traces) > 1 and len(set(done.order)) > 1:
            self._note(CHANGES, done.order[0], *list(done.traces)[:2])
        if not done.eager:
            self._log.ops = []
            return done
        for key in done.under_tape:
            self._recorder.training(key)
        return done

    def stop(self) -> None:
        """Raise `Stopped`."""
        self._stops += 1
        if self._stops > MOST_STOPS:
            self.on_stop()
        raise Stopped

    # --- functions ---------------------------------------------------------------------------------------

    def _called(self, original: Any, function: Any, args: Any, kwds: Any) -> Any:
        key = id(function)
        if self.hooks.tape is not None:
            self.now.under_tape.add(key)
        if key in self._training and self.hooks.tape is None:
            return self._train(original, function, args, kwds)
        if key not in self._functions:
            if self.hooks.tape is not None:
                return self._first(key, function, args, kwds, lambda: original(function, *args, **kwds))
            self._first(key, function, args, kwds)
            if key in self.own:
                return None
            if key in self._training and self.hooks.tape is None:
                return self._train(original, function, args, kwds)
        if (self.now.order or self.onward.pretends) and self.hooks.tape is None:
            return self._pretend(original, function, args, kwds)  # what it computes is of no interest any more
        return original(function, *args, **kwds)

    def _first(
        self, key: Hashable, function: Any, args: Any, kwds: Any, call: Optional[Callable[[], Any]] = None
    ) -> Any:
        """Trace a function; under a tape outside it `call` it, since the tape traces its gradient then."""
        closed = function if call is not None else self._closed(function)
        self._functions[key] = (function, closed)  # alive, so that no other gets its id
        name = self._name(key, function)
        given = args, kwds
        args, kwds = self.tf.nest.map_structure(self._sized, given) if _has_iterator(args) else given
        self._recorder.begin(key, *given, first=(closed, name))
        try:
            if call is not None:
                return call()
            self._traced[key] = closed.get_concrete_function(*args, **kwds)
        finally:
            self._recorder.end()

    def _closed(self, function: Any) -> Any:
        """Return a function that is traced for the sizes of its arguments, though its signature leave them open."""
        opened = _open(getattr(function, "input_signature", None))
        return self._gaps.run("sizes of a signature", lambda: self._anew(function), function) if opened else function

    def _anew(self, function: Any) -> Any:
        return self.tf.function(function.python_function, jit_compile=getattr(function, "_jit_compile", None))

    def _train(self, original: Any, function: Any, args: Any, kwds: Any) -> Any:
        """Count a training call; one in other sizes than those before is traced in them."""
        key, sizes = id(function), self._gaps.run("sizes of calls", lambda: self._sizes(args, kwds)) or ""
        self._count(key, sizes)
        now = self.now
        if set(now.order) != {key}:
            return self._pretend(original, function, args, kwds)
        if not now.traces:
            now.traces[sizes] = key
        elif sizes not in now.traces:
            anew = self._anew(function)
            now.traces[sizes] = id(anew)
            self._first(id(anew), anew, args, kwds)
        trace = now.traces[sizes]
        now.in_sizes[trace] += 1
        return self._pretend(original, self._functions[trace][0], args, kwds)

    def _sizes(self, args: Any, kwds: Any) -> str:
        shapes = [getattr(t, "shape", None) for t in self.tf.nest.flatten((args, kwds))]
        return " and ".join(str(tuple(s)) for s in shapes if s is not None and len(s))

    def _opens(self, key: Hashable) -> bool:
        """Return whether the signature of a function leaves sizes open beside the batch."""
        specs = self.tf.nest.flatten(getattr(self._functions[key][0], "input_signature", None) or ())
        return any(None in list(spec.shape)[1:] for spec in specs if getattr(spec.shape, "rank", None))

    def _note(self, sentence: str, key: Hashable, *said: str) -> None:
        name = self.names[key].rpartition(".")[2]
        if not any(" %s " % name in note for note in self.notes):
            self.notes.append(sentence % (name, *said))

    def _name(self, key: Hashable, function: Any) -> str:
        """Return a name for a function that no other has: those of two models may be of one line."""
        name = function_name(function)
        self._called_names.add(name)
        used = set(self.names.values())
        numbered = (name if n == 1 else "%s#%d" % (name, n) for n in range(1, len(used) + 2))
        self.names[key] = next(n for n in numbered if n not in used)
        return self.names[key]

    def _count(self, key: Hashable, sizes: str) -> None:
        """Count a training call, or stop before it where the step is known.

        Of a function that alone makes the step some calls are counted where their sizes change, or may.
        """
        self._leave_loop(key)
        now = self.now
        now.end_sample()
        if not now.order:
            self._begin()
        known = list(now.order)
        alone, others = set(known) == {key}, key in known and sizes not in now.traces
        if others and not alone and key == known[0]:
            self._note(CHANGES, key, next(iter(now.traces)), sizes)
        counts = alone and (others or len(now.traces) > 1 or self._opens(key))
        if key in known and (
            (key == known[0] and not alone)
            or known.count(key) >= MOST_CALLS
            or time.monotonic() - now.began > (MOST_COUNTED if len(now.traces) > 1 else MOST_SECONDS)
            or (counts and others and len(now.traces) >= MOST_SIZES)
            or not (counts or waits(running_loops(sys._getframe(1)), self._uncalled))
        ):
            now.more_sizes |= alone and others
            self.stop()
        now.order.append(key)
        if now.in_fit:
            self.stop()

    def _leave_loop(self, what: Hashable) -> None:
        """End the step before `what`, a function or the line of a tape, where no loop around it has trained before."""
        now, around = self.now, running_loops(sys._getframe(2))  # what calls next, only the stack tells
        one_by_one = not (now.loops or around or now.seen)  # tapes in a row, whose gradients are still to be taken
        if now.loops is None or now.in_fit or one_by_one or share(now.loops, around):
            now.loops = around if now.loops is None else now.loops
            return
        self._starts[what] = self._starts.get(what, 0) + 1
        if not self.onward.going or self._starts[what] > MOST_STARTS:
            self.stop()
        self.onward.close()
        self.now.loops = around

    def _begin(self) -> None:
        now = self.now
        now.began, now.place = time.monotonic(), now.place or running_line()
        now.in_fit = self._recorder.fits.current() is not None
        self.onward.begin()

    def _uncalled(self, value: Any) -> bool:
        """Return whether a value is a tf.function, or a method that is one, which nobody has called yet."""
        if not isinstance(value, self._function_class) or id(value) in self._functions:
            return False
        name = function_name(value)  # a method's is made anew for each object
        return name not in self._called_names and not NO_TRAINING.search(name.rpartition(".")[2].lower())

    def _pretend(self, original: Any, function: Any, args: Any, kwds: Any) -> Any:
        """Return zeros in the place of what a function returns; where that cannot be made, call it."""
        concrete = self._traced.get(id(function))
        if concrete is None:
            return original(function, *args, **kwds)
        zeros = self._gaps.run("outputs of a training step", lambda: zeros_of(self.tf, concrete, self._batch), ...)
        return original(function, *args, **kwds) if zeros is ... else zeros

    def _sized(self, item: Any) -> Any:
        """Return an iterator that delivers whole batches, in the place of one whose last batch may be smaller."""
        spec, dataset = getattr(item, "element_spec", None), getattr(item, "_dataset", None)
        if spec is None or dataset is None or not _unknown_batch(self.tf, spec):
            return item
        size = (
            batch_of_dataset(dataset)
            or self._batch_of_fit()
            or self._gaps.run("batch of a dataset", lambda: _drawn(self.tf, dataset))
        )
        size = size or self._batch
        if size is None:
            size = self.now.invented_batch = SAMPLES
        return self._gaps.run("whole batches", lambda: _whole(self.tf, dataset, size), item)

    def _batch_of_fit(self) -> Optional[int]:
        fit = self._recorder.fits.current()
        return None if fit is None else batch_of_fit(fit)

    def _distributing(self, original: Any) -> Any:
        """Have strategies split datasets whose batches say how large they are: their iterators cannot be replaced."""

        def distribute(strategy: Any, dataset: Any, *args: Any, **kwds: Any) -> Any:
            sized = self._gaps.run("batches for replicas", lambda: self._sized_dataset(dataset), dataset)
            return original(strategy, sized, *args, **kwds)

        return distribute

    def _sized_dataset(self, dataset: Any) -> Any:
        size = batch_of_dataset(dataset) or self._batch_of_fit()
        if not size or not _unknown_batch(self.tf, dataset.element_spec):
            return dataset
        return _sized_elements(self.tf, dataset, size)

    # --- eager tapes -------------------------------------------------------------------------------------

    def _tape_entered(self, _: Any) -> None:
        place = running_line()
        self._leave_loop(place)
        now = self.now
        if place in now.tapes and now.eager:
            now.repeats = True
            self.stop()
        now.tapes.add(place)
        if now.sample is None and not now.order:
            now.sample = self._recorder.sampler(self._log.sampled)
            now.sample.start()

    def _takes(self, *_: Any, **__: Any) -> Callable[[], None]:
        if not self.now.eager:
            self.now.eager = True
            self._begin()
        return self._taken

    def _taken(self) -> None:
        if self.now.sample is not None:
            self.now.until = len(self.now.sample.products), len(self._log.eager)


def _has_iterator(args: Any) -> bool:
    return any(hasattr(a, "element_spec") for a in args)


def _unknown_batch(tf: Any, spec: Any) -> bool:
    shapes = [getattr(s, "shape", None) for s in tf.nest.flatten(spec)]
    return any(s is not None and s.rank and s[0] is None for s in shapes)


def _drawn(tf: Any, dataset: Any) -> Optional[int]:
    """Return the samples of a dataset's first batch, which is made to know it."""
    tensors = [t for element in dataset.take(1) for t in tf.nest.flatten(element)]
    return next((int(t.shape[0]) for t in tensors if getattr(t.shape, "rank", 0)), None)


def _open(signature: Any) -> bool:
    """Return whether an input signature leaves sizes open."""
    shapes = [getattr(spec, "shape", None) for spec in signature or ()]
    return any(s is not None and (s.rank is None or None in list(s)) for s in shapes)


def _whole(tf: Any, dataset: Any, batch: int) -> Any:
    """Return an iterator over `dataset` whose elements say that they are whole batches."""
    return iter(_sized_elements(tf, dataset, batch))


def _sized_elements(tf: Any, dataset: Any, batch: int) -> Any:
    """Return a dataset whose elements say that they are whole batches; a smaller last one passes all the same."""

    def sized(tensor: Any) -> Any:
        shape = getattr(tensor, "shape", None)
        if shape is None or not shape.rank or shape[0] is not None:
            return tensor
        told = tf.identity(tensor)
        told.set_shape([batch, *shape.as_list()[1:]])
        return told

    return dataset.map(lambda *element: tf.nest.map_structure(sized, element if len(element) > 1 else element[0]))
