"""Sees eager training: gradient tapes and the optimizers applied outside any tf.function."""

from __future__ import annotations

import time
import weakref
from threading import get_ident
from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional

from ..core.framework import Core
from ..core.lines import running_line
from ..core.training import Callee
from .graph.recorder import GraphRecorder
from .graph.trained import handles
from .hooks.calls import Calls


class EagerStep(NamedTuple):
    """A step of an eager tape that is not known to train yet: whose, the clock at its start, and the tapes in it."""

    callee: Callee
    began: int
    tapes: "weakref.WeakSet[Any]"


class EagerTapes:
    """Tells the core of every eager step and its phases, and the recorder of its parts.

    Args:
        core: the probe's.
        recorder: records the ops of a step.
        hooks: see the tapes.
        count_late: counts a step that turned out to train, given its callee and start.

    Attributes:
        validating: Keras validates.
    """

    def __init__(
        self, core: Core, recorder: GraphRecorder, hooks: Calls, count_late: Callable[[Callee, int], None]
    ) -> None:
        self.validating = False
        self._training = core.training
        self._ranges = core.ranges
        self._gaps = core.gaps
        self._only = core.config.step_function
        self._parts = recorder.parts
        self._hooks = hooks
        self._count_late = count_late
        self._callees: Dict[str, Callee] = {}
        self._applied: Dict[FrozenSet[int], Callee] = {}  # by the handles of the variables
        self._begun: Optional[EagerStep] = None
        hooks.on_enter, hooks.on_leave, hooks.on_nested = self._entered, self._end_phase, self._nested
        hooks.on_take, hooks.on_taken = self._gradient_taken, self._end

    def _entered(self, tape: Any) -> None:
        place = running_line() or "?"
        callee = self._callees.get(place)
        if callee is None:
            callee = self._callees[place] = self._training.add("tape at " + place, eager=True)
        here = self._training.owner in (None, get_ident())
        if here and not self._parts.closed and self._only is None:
            self._parts.begin(callee.key, callee.name, trains=False)
        if not callee.training:
            self._begun = EagerStep(callee, time.perf_counter_ns(), weakref.WeakSet((tape,)))
        elif here:
            self._training.count(callee)
        self._ranges.begin_phase("forward")

    def _nested(self, tape: Any) -> None:
        begun = self._begun
        if begun is not None and self._hooks.tape in begun.tapes:
            begun.tapes.add(tape)

    def _gradient_taken(self, tape: Any, target: Any, sources: Any, *_: Any, **__: Any) -> None:  # noqa: ARG002
        begun = self._begun
        if not self._parts.closed and self._training.owner in (None, get_ident()):
            self._parts.differentiated(sources)
            if self._parts.sampler is not None:
                self._parts.sampler.watch(tape.watched_variables())
        if begun is not None and tape in begun.tapes and self._only is None:
            self._begun = None
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
            self._end()

    def is_idle(self) -> bool:
        """Say whether neither a tape is active nor Keras validates."""
        return self._hooks.tape is None and not self.validating

    def validation(self) -> "Validation":
        """Return a context manager for what Keras does between steps: a phase, and no part of a step."""
        return Validation(self)

    def _count_apply(self, variables: Any) -> None:
        trains = frozenset(number for variable in variables for number in handles(variable))
        callee = self._applied.get(trains)
        if callee is None:
            name = "%s at %s" % ("apply_gradients", running_line() or "?")
            callee = self._applied[trains] = self._training.add(name, eager=True, begins=False)
            callee.training = self._only is None
        if callee.training and get_ident() == self._training.owner:
            self._training.count(callee)

    def _end(self) -> None:
        self._training.inside = not self._training.enabled
        self._end_phase()

    def _end_phase(self) -> None:
        self._gaps.run("ranges", self._ranges.end_phase)

    def _validate(self, validating: bool) -> bool:
        before, self.validating = self.validating, validating
        self._parts.pause(validating)
        if validating and not before and self._ranges.active:
            if self._hooks.tape is None and not self._training.stepper.is_inside_step():
                self._ranges.end_step()
            self._ranges.begin_phase("validation")
        elif before and not validating:
            self._ranges.end_phase()
        return before


class Validation:
    """Marks a validation; it adds no frame to a traceback that passes."""

    def __init__(self, tapes: EagerTapes) -> None:
        self._tapes = tapes
        self._before = False

    def __enter__(self) -> None:
        self._before = bool(self._tapes._gaps.run("ranges", lambda: self._tapes._validate(True)))

    def __exit__(self, *error: object) -> None:
        self._tapes._gaps.run("ranges", lambda: self._tapes._validate(self._before))
