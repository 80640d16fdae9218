"""Sees the outermost calls of tf.functions, and which of them train.

What a call trains is a matter of its trace: see `graph.trained`. A function whose traces train different variables, or
train and validate, is several parts of training; then it has to be seen which trace runs.
"""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial
from threading import get_ident
from typing import Any, Dict, FrozenSet, Optional, Set

from ..core.framework import Core
from ..core.gaps import Guard
from ..core.training import Callee
from .graph.recorder import GraphRecorder
from .graph.trained import Facts, Trained
from .hooks.calls import Calls, concrete_functions
from .hooks.patch import Patches
from .places import function_name
from .steps_per_call import StepsPerCall
from .tapes import EagerTapes

OUT_OF_DATA = ("OutOfRangeError", "StopIteration")


class Function:
    """A tf.function, or several of the same code, one after the other.

    Attributes:
        reference: weak reference to the one that lives, or lived last.
        callee: what its traces are recorded under; also the first part of training that it is, or none.
        part: what every call counts as; None where it trains nothing, or one trace this and another that.
        parts: what each trace counts as, by the variables that it trains; None where it is no part of training.
        traces: the same, by the trace.
        several: traces have to be told apart as they run.
        traced: functions that had been traced when this one was looked at last.
    """

    __slots__ = ("callee", "part", "parts", "reference", "several", "traced", "traces")

    def __init__(self, callee: Callee) -> None:
        self.reference: Any = None
        self.callee = callee
        self.part = callee if callee.training else None
        self.parts: Dict[Optional[FrozenSet[int]], Callee] = {}
        self.traces: "weakref.WeakKeyDictionary[Any, Callee]" = weakref.WeakKeyDictionary()
        self.several = False
        self.traced = 0


class Awaits(threading.local):
    """What is to be learnt of the call that runs in this thread.

    Attributes:
        function: whose trace that runs is not known yet.
        eagerly: it runs as plain Python, and trains.
    """

    function: Optional[Function] = None
    eagerly = False


class CallWatch:
    """Tells the core of every training call, and the recorder of what is called.

    Attributes:
        hooks: on functions and tapes.
        tapes: sees eager tapes, and what runs inside them.
        steps: knows how many steps one call makes.
        trained: knows what traces train.
    """

    def __init__(self, core: Core, recorder: GraphRecorder) -> None:
        self.steps = StepsPerCall(core, recorder.fits)
        self.trained = Trained(core.gaps)
        self._training = core.training
        self._ranges = core.ranges
        self._gaps = core.gaps
        self._only = core.config.step_function
        self._recorder = recorder
        self._functions: Dict[int, Function] = {}  # by id of the tf.function
        self._noted: Dict[int, Callee] = {}  # those whose calls are only noted
        self._under_tape: Set[int] = set()  # keys of those that ran inside an eager tape, whose step they are part of
        self._dead: Dict[str, Function] = {}
        self._awaits = Awaits()
        self._lock = threading.RLock()  # of what is known of functions
        self._patches = Patches()  # that see which trace runs
        self._profiled = False
        core.training.threads.helps = is_of_tensorflow
        self.hooks = Calls(core.gaps, partial(getattr, core.training.threads.here, "inside"))  # no frame of Python's
        self.hooks.calling, self.hooks.on_gradient = self._calling, self.trains
        self.tapes = EagerTapes(core, recorder, self.hooks, core.training.count_late)

    def on_tensorflow(self, tf: Any) -> None:
        """Hook calls and tapes."""
        self.steps.tf = tf
        self._gaps.run("traces", lambda: self.trained.install(tf))
        self.hooks.install(tf)

    def trains(self) -> None:
        """Note that a gradient is taken within a call, or in a graph."""
        if self.steps.tf.executing_eagerly():
            self._awaits.eagerly = True
        else:
            self._gaps.run("traces", self.trained.differentiated)

    def applies(self, optimizer: Any, variables: Any) -> None:
        """Note that an optimizer is applied to variables within a call."""
        if self.steps.tf.executing_eagerly():
            self._awaits.eagerly = True
        else:
            self.steps.know(optimizer)
            self.trained.given(variables, optimizer)

    def set_deferred(self, deferred: bool) -> None:
        """Only note calls from now on, or count each as it comes."""
        self._training.deferred = deferred
        self._noted.clear()
        for number, function in list(self._functions.items()) if deferred else ():
            self._defer(number, function)

    def profiled(self, opens: bool) -> None:
        """Count from now on which traces run, or no more: the window opens or closes."""
        self._profiled = opens
        if opens:
            self._recorder.window_opens()
            # To list the traces of a function that has none may trace it.
            self._see_traces(*(known.reference() for known in list(self._functions.values()) if known.traces))
            self._gaps.run("updates", self.steps.window_opens)
        else:
            self._gaps.run("updates", self.steps.window_closes)
            self._recorder.window_closes()
            if not any(known.several for known in list(self._functions.values())):
                self._patches.restore()

    # --- functions ---------------------------------------------------------------------------------------

    def _calling(self, original: Any) -> Any:
        eager, functions, training = self.steps.tf.executing_eagerly, self._functions, self._training
        noted, note, now, trained = self._noted, training.note, time.perf_counter_ns, self.trained
        threads = training.threads
        here, callers = threads.here, threads.callers

        # What a hook costs between two steps is set less by what it computes than by how much cold memory it touches:
        # a call that is only noted comes first, and touches next to nothing.
        def call(function: Any, *args: Any, **kwds: Any) -> Any:
            part = noted.get(id(function))
            mine = get_ident()
            if part is not None and mine == training.owner and eager():
                before, began = trained.count, now()
                note((part, began, mine))
                try:
                    return original(function, *args, **kwds)
                except BaseException as error:
                    self._failed(error)
                    raise
                finally:
                    if trained.count != before:
                        self._look(functions.get(id(function)), function, part, began)
            if here.inside or not training.enabled or not eager() or (callers and threads.is_inside()):
                return original(function, *args, **kwds)
            known = functions.get(id(function))
            if known is None or known.part is None or training.owner not in (None, mine):
                return self._other_call(original, function, args, kwds)
            return self._training_call(original, known, function, args, kwds)

        return call

    def _training_call(self, original: Any, known: Function, function: Any, args: Any, kwds: Any) -> Any:
        """Call a function that is known to train, always the same."""
        part: Any = known.part
        self._recorder.begin(known.callee.key, args, kwds)
        self._note_part(known.callee, part)
        if self.hooks.tapes.tape is not None:
            self._under_tape.add(part.key)
            self._awaits.function = known if self._profiled else None
            try:
                return original(function, *args, **kwds)
            finally:
                self._awaits.function = None
                self._recorder.end()
        began = time.perf_counter_ns()
        self._training.begin(part, self.steps.now(part) if part.steps > 1 else None)
        self._defer(id(function), known)
        if self._profiled:
            self._awaits.function = known
        try:
            return original(function, *args, **kwds)
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            self._awaits.function = None
            self._training.end()
            if known.traced != self.trained.count:
                self._look(known, function, part, began)
            self._recorder.end()

    def _other_call(self, original: Any, function: Any, args: Any, kwds: Any) -> Any:
        """Call a function that does not always train as far as is known, or in a thread that does not have the steps.

        The first time its graph is recorded.
        """
        training, known = self._training, self._functions.get(id(function))
        first = known is None
        if known is None:
            known = self._gaps.run("tf.function calls", lambda: self._register(function))
        if known is None:
            return original(function, *args, **kwds)
        callee = known.callee
        if self._ranges.active and self.tapes.is_idle() and not training.stepper.is_inside_step():
            self._gaps.run("ranges", self._ranges.end_step)
        before = self._gaps.run("steps per call", self.steps.iterations) if first else None
        began = time.perf_counter_ns()
        training.threads.enter(callee)
        self._awaits.eagerly = False
        training.begin_range(callee)
        awaits = known.several and self.hooks.tape is None
        self._awaits.function = known if awaits or self._profiled else None
        self._recorder.begin(callee.key, args, kwds, (function, callee.name) if first else None)
        try:
            result = original(function, *args, **kwds)
            part = self._gaps.run("traces", lambda: self._ran(known, function, before))
        except BaseException as error:
            if training.threads.here.current is not callee:
                self._failed(error)
            raise
        finally:
            counted, self._awaits.function = awaits and self._awaits.function is None, None
            if counted:
                training.end()
            training.end()
            self._recorder.end()
        self._note_part(callee, part)
        if not counted:
            self._gaps.run("steps", lambda: self._after(part, began))
        return result

    def _note_part(self, callee: Callee, part: Optional[Callee]) -> None:
        """Tell what samples eager steps of a call: a part of the step by itself, or what a part calls."""
        parts = self._recorder.parts
        if parts.sampler is None or self._training.owner not in (None, get_ident()):
            return
        if part is not None and part.training and self.hooks.tape is None:
            key, name, owned = part.key, part.name, self._training.owner is not None
            self._gaps.run("graph record", lambda: parts.begin(key, name, owned, eager=False))
        else:
            parts.called(callee.key)

    def _ran(self, known: Function, function: Any, before: Any) -> Optional[Callee]:
        """Return what a call counts as that has just run."""
        part: Optional[Callee] = known.part
        if known.traced != self.trained.count:
            part = self._judge(known, function, before)
        if self._awaits.eagerly and not known.several:
            part = self._trains(known.callee)
            known.part = part if part.training else None
        return part

    def _after(self, part: Optional[Callee], began: int) -> None:
        """Count a call that trained, as it turned out while it ran."""
        if part is not None and part.training and self.hooks.tape is None:
            self._training.count_late(part, began, self.steps.now(part) if part.steps > 1 else None)

    def _defer(self, number: int, known: Function) -> None:
        part = known.part
        if not self._training.deferred or part is None or part.steps > 1 or part.key in self._under_tape:
            return
        if known.traces:  # else it runs as plain Python, and what it calls has to be known as a part of it
            self._noted[number] = part

    def _register(self, function: Any) -> Function:
        name, number = function_name(function), id(function)
        with self._lock:
            if number in self._functions:  # another thread calls it for the first time, too
                return self._functions[number]
            known = self._dead.pop(name, None) or Function(self._training.add(name, eager=False))
            known.part = None if self._only is None else known.part
            known.reference = weakref.ref(function, lambda _: self._died(number))
            self._functions[number] = known
        return known

    def _died(self, number: int) -> None:
        """Forget a function; one made anew from the same code goes on under its key."""
        self._noted.pop(number, None)
        known = self._functions.pop(number, None)
        if known is not None:
            self._dead[known.callee.name] = known

    def _failed(self, error: BaseException) -> None:
        self._training.fail(type(error).__name__ in OUT_OF_DATA)

    # --- traces ------------------------------------------------------------------------------------------

    def _look(self, known: Optional[Function], function: Any, part: Callee, began: int) -> None:
        """Count a call of `part` again, if it has traced the function anew and that trace trains something else."""
        if known is None:
            return
        ran: Optional[Callee] = part
        with Guard(self._gaps, "traces"):
            ran = self._judge(known, function, None)
        if ran is not part:
            self._noted.pop(id(function), None)
            counted = ran if ran is not None and ran.training else None
            self._gaps.run("steps", lambda: self._training.recount(counted, began))

    def _judge(self, known: Function, function: Any, before: Any) -> Optional[Callee]:
        """Look at the new traces of a function; return what the latest counts as.

        Args:
            known: of the function.
            before: iterations of the optimizers before its first call; None in a later one.
        """
        with self._lock:
            known.traced = self.trained.count
            latest, seen, again = known.part, bool(known.parts), False
            for concrete in concrete_functions(function):
                if concrete.graph not in known.traces:
                    again = seen
                    facts = self.trained.facts(concrete.graph)
                    latest = known.traces[concrete.graph] = self._part(known, facts)
                    self._recorder.is_part(concrete, latest.key, latest.training)
                    self.steps.learn(latest, facts, before)
            if again:
                self._training.retraced(known.callee.name)
            kinds = set(map(id, known.traces.values()))
            known.several = len(kinds) > 1
            known.part = latest if len(kinds) == 1 and latest is not None and latest.training else None
            if known.several or self._profiled:
                self._see_traces(function)
            return latest

    def _part(self, known: Function, facts: Facts) -> Callee:
        """Return what a trace counts as."""
        trains = facts.part if self._only is None else frozenset() if known.callee.training else None
        part = known.parts.get(trains)
        if part is None:
            own = not known.parts or self._only is not None
            part = known.callee if own else self._training.add(known.callee.name, eager=False)
            known.parts[trains] = part
        return part if trains is None else self._trains(part)

    def _trains(self, part: Callee) -> Callee:
        """Note that a part trains, unless another function was asked for."""
        self._training.trains(part)
        if part.training:
            self._recorder.training(part.key)
        return part

    def _see_traces(self, *functions: Any) -> None:
        """See which trace runs: only where that is asked for, or within the window."""
        with Guard(self._gaps, "traces that run"):
            for concrete in (one for function in functions for one in concrete_functions(function)[:1]):
                self._patches.method(type(concrete), "_call_flat", self._running)

    def _running(self, run: Any) -> Any:
        def _call_flat(concrete: Any, tensors: Any, *args: Any, **kwds: Any) -> Any:
            if self._awaits.function is not None:
                self._gaps.run("traces that run", lambda: self._runs(concrete, tensors))
            return run(concrete, tensors, *args, **kwds)

        return _call_flat

    def _runs(self, concrete: Any, tensors: Any) -> None:
        """Count a call by the trace that runs, unless all of its traces are one part: then that has been done."""
        known = self._awaits.function
        if known is None:
            return
        part = known.traces.get(concrete.graph)
        if part is not None:
            self._awaits.function = None
            if known.several and known.part is None and part.training and self.hooks.tape is None:
                self._training.begin(part, self.steps.now(part) if part.steps > 1 else None)
        elif all(one.graph is not concrete.graph for one in concrete_functions(known.reference())):
            return  # of a function that runs inside it
        mine = self._training.owner in (None, get_ident())
        if self._profiled and mine and (part is None or part.training or self.hooks.tape is not None):
            self._recorder.ran(known.callee.key, concrete, tensors, self._training.clock())


def is_of_tensorflow(thread: threading.Thread) -> bool:
    """Say whether TensorFlow began a thread: it runs a replica of a model, or has a dataset of Keras' delivered."""
    return type(thread).__module__.partition(".")[0] == "tensorflow"
