"""Sees eager training: gradient tapes and the optimizers applied outside any tf.function."""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial
from threading import get_ident
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ..core.framework import Core
from ..core.lines import running_line
from ..core.training import Callee
from .graph.recorder import GraphRecorder
from .graph.trained import handles
from .hooks.calls import Calls
from .hooks.patch import Ending


class EagerStep(NamedTuple):
    """A step of an eager tape that is not known to train yet: whose, the clock at its start, and the tapes in it."""

    callee: Callee
    began: int
    tapes: "weakref.WeakSet[Any]"


class Mine(threading.local):
    """The step of this thread's tapes that is not known to train yet."""

    begun: Optional[EagerStep] = None


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
        self._here, self._callers = core.training.threads.here, core.training.threads.callers
        self._ranges = core.ranges
        self._gaps = core.gaps
        self._only = core.config.step_function
        self._parts = recorder.parts
        self._hooks = hooks
        self._count_late = count_late
        self._callees: Dict[str, Callee] = {}
        self._applied: Dict[FrozenSet[int], Callee] = {}  # by the handles of the variables
        self._applied_to: Dict[Tuple[int, ...], Callee] = {}  # by the ids of variables that are all alive
        self._alive: Dict[int, Any] = {}
        self._mine = Mine()
        self._end_phase: Ending = partial(self._gaps.run, "ranges", self._ranges.end_phase)
        recorder.layers.on_eager_call = self._layer_called
        hooks.on_enter, hooks.on_nested, hooks.on_take = self._entered, self._nested, self._gradient_taken

    def _entered(self, tape: Any) -> Optional[Ending]:
        if not self._training.enabled or (self._callers and self._training.threads.is_inside()):
            return None  # the run is over; or it is a replica's, in a thread of its own
        place = running_line() or "?"
        callee = self._callees.get(place)
        if callee is None:
            callee = self._callees[place] = self._training.add("tape at " + place, eager=True)
        here = self._training.owner in (None, get_ident())
        if here and not self._parts.closed and self._only is None:
            self._parts.begin(callee.key, callee.name, self._training.owner is not None, trains=False)
        if not callee.training:
            self._mine.begun = EagerStep(callee, time.perf_counter_ns(), weakref.WeakSet((tape,)))
        else:
            self._training.count(callee)
        if not self._ranges.active:
            return None
        self._ranges.begin_phase("forward")
        return self._end_phase

    def _nested(self, tape: Any) -> None:
        begun = self._mine.begun
        if begun is not None and self._hooks.tape in begun.tapes:
            begun.tapes.add(tape)

    def _gradient_taken(self, tape: Any, target: Any, sources: Any, *_: Any, **__: Any) -> Ending:  # noqa: ARG002
        begun = self._mine.begun
        if not self._parts.closed and self._training.owner in (None, get_ident()):
            self._parts.differentiated(sources)
        if begun is not None and tape in begun.tapes and self._only is None:
            self._mine.begun = None
            begun.callee.training = True
            self._count_late(begun.callee, begun.began)
        return self._phase("backward")

    def _layer_called(self, layer: Any, args: Any, _: Any) -> None:
        if self._hooks.tape is not None and self._parts.takes_sizes:
            listed = [t for arg in args for t in (arg if isinstance(arg, (list, tuple)) else (arg,))]
            self._parts.sized(layer, tuple(tuple(t.shape) for t in listed if hasattr(t, "shape")))

    def applies(self, variables: List[Any]) -> Ending:
        """Count an optimizer that is applied eagerly, a part of the step of its own; return what ends it."""
        callee = self._applied_to.get(tuple(map(id, variables)))
        if callee is None:
            callee = self._part(variables)
        if callee.training and self._training.owner is not None:
            self._training.count(callee)
        return self._phase("optimizer")

    def is_idle(self) -> bool:
        """Say whether neither a tape is active nor Keras validates."""
        return self._hooks.tape is None and not self.validating

    def validates(self, *_: Any, **__: Any) -> Optional[Ending]:
        """Begin what Keras does between steps, a phase and no part of a step; return what ends it."""
        if self.validating:
            return None
        self.validating = True
        self._parts.pause(True)
        if not self._ranges.active:
            return self._validated
        if self._hooks.tape is None and not self._training.stepper.is_inside_step():
            self._ranges.end_step()
        return self._marked("validation", self._validated)

    def _validated(self) -> None:
        self.validating = False
        self._parts.pause(False)

    def _part(self, variables: List[Any]) -> Callee:
        """Return what updates of variables count as."""
        trains = frozenset(number for variable in variables for number in handles(variable))
        callee = self._applied.get(trains)
        if callee is None:
            name = "%s at %s" % ("apply_gradients", running_line() or "?")
            callee = self._applied[trains] = self._training.add(name, eager=True, begins=False)
            callee.training = self._only is None
        if len(trains) >= len(variables):  # else one of them is none, as the optimizer is about to say
            self._alive.update((id(variable), weakref.ref(variable, self._forget)) for variable in variables)
            self._applied_to[tuple(map(id, variables))] = callee
        return callee

    def _forget(self, _: Any) -> None:
        self._applied_to.clear()  # the id of a variable that is gone may be another's

    def _phase(self, name: str) -> Ending:
        """Begin a part of a step, in which functions are called that are no steps; return what ends it."""
        self._here.inside = True
        self._callers.add(get_ident())
        return self._marked(name, self._end) if self._ranges.active else self._end

    def _end(self) -> None:
        self._here.inside = not self._training.enabled
        self._callers.discard(get_ident())

    def _marked(self, name: str, end: Ending) -> Ending:
        """Begin a range; return what ends it, after `end`."""
        self._ranges.begin_phase(name)
        return lambda: (end(), self._end_phase())
