"""Sees the outermost calls of tf.functions, and which of them train.

A function trains when a gradient is taken or an optimizer applied inside its call.
"""

from __future__ import annotations

import functools
import time
import weakref
from threading import get_ident
from typing import Any, Dict, Set

from ..core.framework import Core
from ..core.gaps import Guarded
from ..core.training import Callee
from .graph.recorder import GraphRecorder
from .places import function_name
from .steps_per_call import StepsPerCall
from .tapes import EagerTapes

OUT_OF_DATA = ("OutOfRangeError", "StopIteration")


class CallWatch:
    """Tells the core of every training call, and the recorder of what is called.

    Attributes:
        tapes: sees eager tapes, and what runs inside them.
        steps: knows how many steps one call makes.
    """

    def __init__(self, core: Core, recorder: GraphRecorder) -> None:
        self.steps = StepsPerCall(core.gaps)
        self._training = core.training
        self._ranges = core.ranges
        self._gaps = core.gaps
        self._recorder = recorder
        self._functions: Dict[int, Callee] = {}  # by id of the tf.function
        self._references: Dict[int, Any] = {}
        self._noted: Dict[int, Callee] = {}  # those whose calls are only noted
        self._under_tape: Set[int] = set()  # keys of those that ran inside an eager tape, whose step they are part of
        self._dead: Dict[str, Callee] = {}
        self.tapes = EagerTapes(core, recorder, self.trains, self._count_late)
        recorder.on_training = self.trains

    def on_tensorflow(self, tf: Any) -> None:
        """Hook calls and tapes."""
        self.steps.tf = tf
        self._gaps.run("tf.function calls", lambda: self._hook_functions(tf))
        self._gaps.run("gradient tapes", lambda: self.tapes.install(tf))

    def trains(self, *_: Any) -> None:
        """Note that the current call trains."""
        callee = self._training.current
        if callee is not None and self._training.trains(callee):
            self._recorder.training(callee.key)

    def set_deferred(self, deferred: bool) -> None:
        """Only note calls from now on, or count each as it comes."""
        self._training.deferred = deferred
        self._noted.clear()
        for number, callee in list(self._functions.items()) if deferred else ():
            self._defer(number, callee)

    # --- functions ---------------------------------------------------------------------------------------

    def _hook_functions(self, tf: Any) -> None:
        kind = type(tf.function(lambda: None))
        original, eager, functions, training = kind.__call__, tf.executing_eagerly, self._functions, self._training
        noted, note, now = self._noted, training.note, time.perf_counter_ns

        # What a hook costs between two steps is set less by what it computes than by how much cold memory it touches:
        # a call that is only noted comes first, and touches next to nothing.
        @functools.wraps(original)
        def call(function: Any, *args: Any, **kwds: Any) -> Any:
            callee = noted.get(id(function))
            if callee is not None:
                note((callee, now(), get_ident()))
                try:
                    return original(function, *args, **kwds)
                except BaseException as error:
                    self._failed(error)
                    raise
            if training.inside or not eager():
                return original(function, *args, **kwds)
            if training.owner is not None and get_ident() != training.owner:
                return original(function, *args, **kwds)
            callee = functions.get(id(function))
            if callee is None or not callee.training:
                return self._other_call(original, function, args, kwds)
            return self._training_call(original, callee, function, args, kwds)

        kind.__call__ = call

    def _training_call(self, original: Any, callee: Callee, function: Any, args: Any, kwds: Any) -> Any:
        """Call a function that is known to train."""
        self._recorder.begin(callee.key, args, kwds)
        if self.tapes.active is not None:
            self._under_tape.add(callee.key)
            try:
                return original(function, *args, **kwds)
            finally:
                self._recorder.end()
        self._training.begin(callee)
        self._defer(id(function), callee)
        try:
            return original(function, *args, **kwds)
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            self._training.end()
            self._recorder.end()

    def _other_call(self, original: Any, function: Any, args: Any, kwds: Any) -> Any:
        """Call a function that does not train as far as is known; the first time its graph is recorded."""
        training, callee = self._training, self._functions.get(id(function))
        first = callee is None
        if callee is None:
            callee = self._gaps.run("tf.function calls", lambda: self._register(function))
        if callee is None:
            return original(function, *args, **kwds)
        if self._ranges.active and self.tapes.active is None and not training.stepper.is_inside_step():
            self._gaps.run("ranges", self._ranges.end_step)
        began = time.perf_counter_ns()
        training.inside, training.current = True, callee
        training.begin_range(callee)
        self._recorder.begin(callee.key, args, kwds)
        try:
            if not first:
                result = original(function, *args, **kwds)
            else:
                known = function, callee.key, callee.name
                with Guarded(self._gaps, "graph record", lambda: self._recorder.first_call(*known)):
                    result = original(function, *args, **kwds)
        finally:
            training.end()
            self._recorder.end()
        if callee.training and self.tapes.active is None:
            self._gaps.run("steps", lambda: self._count_late(callee, began))
        return result

    def _defer(self, number: int, callee: Callee) -> None:
        if self._training.deferred and callee.training and callee.key not in self._under_tape:
            self._noted[number] = callee

    def _register(self, function: Any) -> Callee:
        name, number = function_name(function), id(function)
        callee = self._dead.pop(name, None) or self._training.add(name, eager=False)
        self._references[number] = weakref.ref(function, lambda _: self._died(number))
        self._functions[number] = callee
        return callee

    def _died(self, number: int) -> None:
        """Forget a function; one made anew from the same code goes on under its key."""
        self._references.pop(number, None)
        self._noted.pop(number, None)
        callee = self._functions.pop(number, None)
        if callee is not None:
            self._dead[callee.name] = callee

    def _count_late(self, callee: Callee, began: int) -> None:
        """Count a call that turned out to train while it ran."""
        if self._training.owner in (None, get_ident()):
            callee.steps = self.steps.of(callee.key)
        self._training.count_late(callee, began)

    def _failed(self, error: BaseException) -> None:
        self._training.fail(type(error).__name__ in OUT_OF_DATA)
