"""Sees eager training: gradient tapes and the optimizers applied outside any tf.function."""

from __future__ import annotations

import functools
import time
import weakref
from threading import get_ident
from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional

from ..core.framework import Core
from ..core.gaps import Guarded
from ..core.lines import running_line
from ..core.training import Callee
from .graph.recorder import GraphRecorder
from .graph.trained import handles


class EagerStep(NamedTuple):
    """A step of an eager tape that is not known to train yet: whose, and the clock at its start."""

    callee: Callee
    began: int


class EagerTapes:
    """Tells the core of every eager step, its phases, and the recorder of one of them.

    Args:
        core: the probe's.
        recorder: records the ops of a step.
        trains: notes that the current call trains.
        count_late: counts a step that turned out to train, given its callee and start.

    Attributes:
        active: the outermost eager tape that is active.
    """

    def __init__(
        self,
        core: Core,
        recorder: GraphRecorder,
        trains: Callable[[], None],
        count_late: Callable[[Callee, int], None],
    ) -> None:
        self.active: Any = None
        self._training = core.training
        self._ranges = core.ranges
        self._gaps = core.gaps
        self._only = core.config.step_function
        self._recorder = recorder
        self._trains = trains
        self._count_late = count_late
        self._callees: Dict[str, Callee] = {}
        self._applied: Dict[FrozenSet[int], Callee] = {}  # by the handles of the variables
        self._begun: Optional[EagerStep] = None
        self._sample: Any = None
        # Keras before 2.11 enters the tape of a step again to scale the loss.
        self._latest: Callable[[], Any] = lambda: None

    def install(self, tf: Any) -> None:
        """Hook tapes."""
        kind, eager, training = tf.GradientTape, tf.executing_eagerly, self._training
        enter, leave, gradient = kind.__enter__, kind.__exit__, kind.gradient

        @functools.wraps(enter)
        def entered(tape: Any) -> Any:
            if self.active is None and not training.inside and eager() and self._latest() is not tape:
                self._gaps.run("eager tapes", lambda: self._tape_entered(tape))
            return enter(tape)

        @functools.wraps(leave)
        def left(tape: Any, *args: Any) -> Any:
            if self.active is tape:
                self.active = None
                self._end_phase()
            return leave(tape, *args)

        @functools.wraps(gradient)
        def taken(tape: Any, *args: Any, **kwds: Any) -> Any:
            self._trains()
            if training.inside or not eager():
                return gradient(tape, *args, **kwds)
            self._gaps.run("eager tapes", self._gradient_taken)
            try:
                return gradient(tape, *args, **kwds)
            finally:
                training.inside = not training.enabled
                self._end_phase()

        kind.__enter__, kind.__exit__, kind.gradient = entered, left, taken

    def _tape_entered(self, tape: Any) -> None:
        place = running_line() or "?"
        callee = self._callees.get(place)
        if callee is None:
            callee = self._callees[place] = self._training.add("tape at " + place, eager=True)
        self.active, self._latest = tape, weakref.ref(tape)
        if not callee.training:
            self._begun = EagerStep(callee, time.perf_counter_ns())
        elif get_ident() == self._training.owner:
            self.end_sample()
            second = callee.calls == 1
            self._training.count(callee)
            if second:
                self._begin_sample()
        self._ranges.begin_phase("forward")

    def _gradient_taken(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None and self._only is None:
            begun.callee.training = True
            self._count_late(begun.callee, begun.began)
        self._training.inside = True
        self._ranges.begin_phase("backward")

    def eager_apply(self, apply: Any, optimizer: Any, variables: Any, args: Any, kwds: Any) -> Any:
        """Apply an optimizer eagerly, a part of the step of its own; the functions that it calls are no steps."""
        self._gaps.run("eager optimizers", lambda: self._count_apply(variables))
        self._training.inside = True
        self._gaps.run("ranges", lambda: self._ranges.begin_phase("optimizer"))
        try:
            return apply(optimizer, *args, **kwds)
        finally:
            self._training.inside = not self._training.enabled
            self._end_phase()

    def _count_apply(self, variables: Any) -> None:
        trains = frozenset(number for variable in variables for number in handles(variable))
        callee = self._applied.get(trains)
        if callee is None:
            name = "%s at %s" % ("apply_gradients", running_line() or "?")
            callee = self._applied[trains] = self._training.add(name, eager=True, begins=False)
            callee.training = self._only is None
        if callee.training and get_ident() == self._training.owner:
            self._training.count(callee)

    def _end_phase(self) -> None:
        self._gaps.run("ranges", self._ranges.end_phase)

    def _begin_sample(self) -> None:
        """Let the recorder see the second eager step, from this tape to the next."""
        self._sample = Guarded(self._gaps, "graph record", self._recorder.eager_sample)
        self._sample.__enter__()

    def end_sample(self) -> None:
        """End the recorded eager step, if one is being recorded."""
        sample, self._sample = self._sample, None
        if sample is not None:
            sample.__exit__(None, None, None)
