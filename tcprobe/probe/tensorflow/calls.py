"""Sees training: outermost calls of tf.functions, and eager gradient tapes.

A function trains when a gradient is taken or an optimizer applied inside its call. Which call that is must be
known process-wide, not per thread: replicas of a distribution strategy trace in threads of their own.
"""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from threading import get_ident
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..config import Config
from ..core.backlog import RETRACTED, Backlog
from ..core.gaps import Gaps, Guarded
from ..core.ranges import Ranges
from ..core.stepper import Stepper
from .places import function_name, user_place
from .quick import Quick
from .weights import Weights

END_OF_DATA = ("OutOfRangeError", "StopIteration")


class Callee:
    """A tf.function, or the place of an eager tape."""

    __slots__ = ("key", "name", "training", "weight", "ref", "eager", "calls", "under_tape")

    def __init__(self, key: int, name: str, ref: Any, eager: bool) -> None:
        self.key = key
        self.name = name
        self.training = False
        self.weight = 1
        self.ref = ref
        self.eager = eager
        self.calls = 0
        self.under_tape = False  # it has run inside an eager tape, whose step it is a part of


class NoRecorder:
    """Stands where the graph recorder is missing, and records nothing."""

    current: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        contexts = ("first_call", "eager_sample")
        return (lambda *_: contextlib.nullcontext()) if name in contexts else (lambda *_: None)


class Calls:
    """Tells the stepper of every training call.

    Attributes:
        inside: an outermost call runs.
        current: the one that runs, None outside.
        tape: the outermost eager tape that is active.
        failed: the latest training call raised, so that its step is not whole.
        quick: calls are only noted, for the journal's thread, and new traces of known functions not recorded; set
            once the window is over.
        callees: all that have been seen, by key.
    """

    def __init__(self, config: Config, stepper: Stepper, ranges: Ranges, clock: Callable[[], int], gaps: Gaps) -> None:
        self.inside = False
        self.current: Optional[Callee] = None
        self.tape: Any = None
        self.callees: List[Callee] = []
        self.quick = False
        self.backlog = Backlog(stepper, self._resolve)
        self._quick: Any = None
        self.recorder: Any = NoRecorder()
        self.weights = Weights(gaps)
        self.enabled = True
        self.failed = False
        self._config = config
        self._stepper = stepper
        self._ranges = ranges
        self._clock = clock
        self._gaps = gaps
        self._functions: Dict[int, Callee] = {}
        self._tapes: Dict[Tuple[str, int], Callee] = {}
        self._dead: Dict[str, Callee] = {}
        self._owner: Optional[int] = None
        self._tape_start: Tuple[Optional[Callee], int] = (None, 0)
        self._sample: Any = None
        # Keras before 2.11 enters the tape of a step again to scale the loss.
        self._latest: Callable[[], Any] = lambda: None

    def on_tensorflow(self, tf: Any) -> None:
        """Hook calls and tapes."""
        self.weights.tf = tf
        self._gaps.run("tf.function calls", lambda: self._hook_functions(tf))
        self._gaps.run("gradient tapes", lambda: self._hook_tapes(tf))

    def trains(self, *_: Any) -> None:
        """Note that the current call trains."""
        callee = self.current
        if callee is not None and not callee.training and self._config.step_function is None:
            callee.training = True
            self._gaps.run("graph record", lambda: self.recorder.training(callee.key))

    def is_eager(self) -> bool:
        """Say whether a step without a tf.function has been seen."""
        return any(callee.training and callee.eager for callee in self.callees)

    def names(self) -> List[str]:
        """Return the names of the functions that train."""
        return [callee.name for callee in self.callees if callee.training]

    def set_quick(self, quick: bool) -> None:
        """Only note calls from now on, or count each as it comes."""
        self.quick = quick
        if quick:
            self.recorder.current = None
            for callee in list(self._functions.values()):
                self._enter_quick(callee)
        elif self._quick is not None:
            self._gaps.run("quick calls", self._quick.leave)

    def disable(self) -> None:
        """Count no more; wrappers pass everything through."""
        self.set_quick(False)
        self.enabled = False
        self.inside = True

    # --- functions ---------------------------------------------------------------------------------------

    def _hook_functions(self, tf: Any) -> None:
        kind = type(tf.function(lambda: None))
        original, eager, functions = kind.__call__, tf.executing_eagerly, self._functions
        self._quick = Quick(kind, original, self.backlog.note, self._failed)

        @functools.wraps(original)
        def call(function: Any, *args: Any, **kwds: Any) -> Any:
            if self.inside or not eager():
                return original(function, *args, **kwds)
            if self._owner is not None and get_ident() != self._owner:
                return original(function, *args, **kwds)
            callee = functions.get(id(function))
            if callee is None or not callee.training:
                return self._other_call(original, function, args, kwds)
            if self.tape is not None:
                callee.under_tape = True
                return original(function, *args, **kwds)
            self.inside, self.current = True, callee
            self._begin(callee)
            if self.quick:
                self._enter_quick(callee)
            try:
                return original(function, *args, **kwds)
            except BaseException as error:
                self._failed(error)
                raise
            finally:
                self.inside, self.current = not self.enabled, None
                if self._ranges.active:
                    self._end_phase()

        kind.__call__ = call

    def _other_call(self, original: Any, function: Any, args: Any, kwds: Any) -> Any:
        """Call a function that does not train as far as is known; the first time its graph is recorded."""
        callee = self._functions.get(id(function))
        first = callee is None
        if callee is None:
            callee = self._gaps.run("tf.function calls", lambda: self._register(function))
        if callee is None:
            return original(function, *args, **kwds)
        if self._ranges.active and self.tape is None and not self._stepper.is_inside_step():
            self._gaps.run("ranges", self._ranges.end_step)
        start = self._clock()
        self.inside, self.current = True, callee
        self.recorder.current = callee.key
        try:
            if not first:
                result = original(function, *args, **kwds)
            else:
                known = function, callee.key, callee.name
                with Guarded(self._gaps, "graph record", lambda: self.recorder.first_call(*known)):
                    result = original(function, *args, **kwds)
        finally:
            self.inside, self.current = not self.enabled, None
        if callee.training and self.tape is None:
            self._gaps.run("steps", lambda: self._late(callee, start))
        return result

    def _enter_quick(self, callee: Callee) -> None:
        function = None if callee.ref is None else callee.ref()
        if callee.training and not callee.under_tape and function is not None:
            self._gaps.run("quick calls", lambda: self._quick.enter(function))

    def _resolve(self, function: Any, clock: int, thread: int) -> Optional[Tuple[int, int, int]]:
        callee = self._functions.get(id(function))
        if callee is None or thread != self._owner:
            return None
        return callee.key, callee.weight, clock - (time.perf_counter_ns() - self._clock())

    def _register(self, function: Any) -> Callee:
        name = function_name(function)
        key = id(function)
        callee = self._dead.pop(name, None) or self._new(name, eager=False)
        callee.ref = weakref.ref(function, lambda _: self._died(key))
        wanted = self._config.step_function
        if wanted and (name == wanted or name.endswith("." + wanted)):
            callee.training = True
        self._functions[key] = callee
        return callee

    def _new(self, name: str, eager: bool) -> Callee:
        self.callees.append(Callee(len(self.callees), name, None, eager))
        return self.callees[-1]

    def _died(self, key: int) -> None:
        """Forget a function; one made anew from the same code goes on under its key."""
        callee = self._functions.pop(key, None)
        if callee is not None:
            self._dead[callee.name] = callee

    def _late(self, callee: Callee, start: int) -> None:
        """Count a call that turned out to train while it ran."""
        if self._owner is None:
            self._owner = get_ident()
        if get_ident() == self._owner:
            callee.weight = self.weights.of(callee.key)
            callee.calls += 1
            self._count(callee, start)

    def _count(self, callee: Callee, start: Optional[int] = None) -> None:
        if self.quick:
            self.backlog.note((callee.key, callee.weight, self._clock() if start is None else start))
        else:
            self.backlog.drain()
            self._stepper.call(callee.key, callee.weight, start)

    def _begin(self, callee: Callee) -> None:
        self.failed = False
        try:
            self.recorder.current = callee.key
            callee.calls += 1
            self._count(callee)
            if self._ranges.active:
                self._ranges.begin_phase(callee.name.rpartition(".")[2])
        except Exception as error:
            self._gaps.add("steps", error)
            self.disable()

    def _failed(self, error: BaseException) -> None:
        self.failed = True
        if type(error).__name__ in END_OF_DATA:
            self.backlog.note((RETRACTED, 0, 0))
            if not self.quick:
                self._gaps.run("steps", self.backlog.drain)

    def _end_phase(self) -> None:
        self._gaps.run("ranges", self._ranges.end_phase)

    # --- eager tapes -------------------------------------------------------------------------------------

    def _hook_tapes(self, tf: Any) -> None:
        kind, eager = tf.GradientTape, tf.executing_eagerly
        enter, leave, gradient = kind.__enter__, kind.__exit__, kind.gradient

        @functools.wraps(enter)
        def entered(tape: Any) -> Any:
            if self.tape is None and not self.inside and eager() and self._latest() is not tape:
                self._gaps.run("eager tapes", lambda: self._tape_entered(tape))
            return enter(tape)

        @functools.wraps(leave)
        def left(tape: Any, *args: Any) -> Any:
            if self.tape is tape:
                self.tape = None
                self._end_phase()
            return leave(tape, *args)

        @functools.wraps(gradient)
        def taken(tape: Any, *args: Any, **kwds: Any) -> Any:
            self.trains()
            if self.inside or not eager():
                return gradient(tape, *args, **kwds)
            self._gaps.run("eager tapes", self._gradient_taken)
            try:
                return gradient(tape, *args, **kwds)
            finally:
                self.inside = not self.enabled
                self._end_phase()

        kind.__enter__, kind.__exit__, kind.gradient = entered, left, taken

    def _tape_entered(self, tape: Any) -> None:
        place = user_place()
        callee = self._tapes.get(place)
        if callee is None:
            callee = self._tapes[place] = self._new("tape at %s:%d" % place, eager=True)
        self.tape, self._latest = tape, weakref.ref(tape)
        if not callee.training:
            self._tape_start = (callee, self._clock())
        elif get_ident() == self._owner:
            self._take_sample(callee)
            callee.calls += 1
            self._count(callee)
        self._ranges.begin_phase("forward")

    def _gradient_taken(self) -> None:
        callee, start = self._tape_start
        self._tape_start = (None, 0)
        if callee is not None and self._config.step_function is None:
            callee.training = True
            self._late(callee, start)
        self.inside = True
        self._ranges.begin_phase("backward")

    def eager_apply(self, apply: Any, optimizer: Any, args: Any, kwds: Any) -> Any:
        """Apply an optimizer eagerly; the functions that it calls are no steps."""
        self.inside = True
        self._gaps.run("ranges", lambda: self._ranges.begin_phase("optimizer"))
        try:
            return apply(optimizer, *args, **kwds)
        finally:
            self.inside = not self.enabled
            self._end_phase()

    def _take_sample(self, callee: Callee) -> None:
        """Let the graph recorder see the second eager step, from this tape to the next."""
        self.end_sample()
        if callee.calls == 1:
            self._sample = Guarded(self._gaps, "graph record", lambda: self.recorder.eager_sample())
            self._sample.__enter__()

    def end_sample(self) -> None:
        """End the recorded eager step, if one is being recorded."""
        sample, self._sample = self._sample, None
        if sample is not None:
            sample.__exit__(None, None, None)
