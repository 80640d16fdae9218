"""Learns how many steps one call makes: `steps_per_execution`, and loops over a dataset inside a tf.function."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, NamedTuple, Optional, Set, Tuple

from ..core.framework import Core
from ..core.training import Callee
from .graph.trained import Facts
from .hooks.fits import Fits

# Times that calls must outnumber updates before it is said that not every call updates.
SELDOM = 1.5


class Applying(NamedTuple):
    """A part of training, and how often one step of it applies each optimizer, by its id."""

    part: Callee
    applies: Dict[int, int]


class Announced(threading.local):
    """Steps per execution and the name of the model whose function is the next to train in this thread, if any."""

    fit: Optional[Tuple[int, str]] = None


class Count(NamedTuple):
    """What had been counted at a moment: iterations of an optimizer, and the updates that its parts should make."""

    iterations: int
    expected: int


class StepsPerCall:
    """Learns the steps of a call from Keras, or from how often its optimizers ran in the first call.

    Attributes:
        tf: TensorFlow, once it is imported.
        fit: True once a Keras model made its train function.
    """

    def __init__(self, core: Core, fits: Fits) -> None:
        self.tf: Any = None
        self.fit = False
        self._fits = fits
        self._gaps = core.gaps
        self._training = core.training
        self._announced = Announced()
        self._fitted: Set[int] = set()  # keys of the parts that fit calls
        self._optimizers: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()  # by id
        self._met: Dict[int, int] = {}  # their iterations when they were first seen, which may be within a first call
        self._parts: Dict[int, Applying] = {}
        self._begun: Dict[int, Count] = {}  # before the first call that applies the optimizer
        self._opened: Dict[int, Count] = {}  # where the profiled window begins

    # --- learning ----------------------------------------------------------------------------------------

    def fits(self, steps: int, made: Optional[str]) -> None:
        """Note that a Keras model is about to train, with so many steps per execution.

        `made` is its name where its train function was made, so that the function that trains next is its.
        """
        self.fit = True
        if made is not None:
            self._announced.fit = steps, made

    def know(self, optimizer: Any) -> None:
        """Note an optimizer that is applied in a function."""
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = optimizer
            self._met[id(optimizer)] = self._iterations(optimizer) or 0

    def iterations(self) -> Dict[int, int]:
        """Return the iterations of all optimizers that are known, by id. Never asked within a step."""
        counts = {number: self._iterations(optimizer) for number, optimizer in list(self._optimizers.items())}
        return {number: count for number, count in counts.items() if count is not None}

    def learn(self, part: Callee, facts: Facts, before: Optional[Dict[int, int]]) -> None:
        """Learn the steps that a call of `part` makes, from the trace that has just run.

        Args:
            part: of training.
            facts: of the trace.
            before: iterations of the optimizers before the call; None where they are not known.
        """
        if not part.training or part.key in self._parts:
            return
        announced, self._announced.fit = self._announced.fit, None
        before = None if before is None else {**self._met, **before}
        self._parts[part.key] = Applying(part, facts.applies)
        if announced is not None:
            part.steps, part.model = max(1, announced[0]), announced[1]
            self._fitted.add(part.key)
        elif before is not None:
            after = self.iterations()
            made = [(after[o] - before.get(o, 0)) / n for o, n in facts.applies.items() if o in after and n]
            part.steps = max(1, round(max(made, default=1)))
        for optimizer in facts.applies:
            if before is not None:
                self._begun.setdefault(optimizer, Count(before.get(optimizer, 0), self._expected(optimizer)))

    def now(self, part: Callee) -> int:
        """Return the steps of the call of `part` that begins: the last of an epoch may make fewer."""
        fit = self._fits.current() if part.key in self._fitted else None
        if fit is None or fit.batches is None:
            return part.steps
        left = self._gaps.run("steps per execution", lambda: steps_left(fit.batches))
        return part.steps if left is None else max(1, min(part.steps, left))

    def _iterations(self, optimizer: Any) -> Optional[int]:
        # The attribute, not the property: Keras 2's property creates the variable.
        names = vars(optimizer)
        inner = names.get("_optimizer", names.get("inner_optimizer"))
        if inner is not None:
            return self._iterations(inner)  # of the wrapper for loss scaling, which counts none itself
        variable = names.get("_iterations", names.get("iterations"))
        try:
            with self.tf.init_scope():
                return int(variable.numpy())
        except Exception:
            # A variable that is not there yet has counted nothing.
            return None

    # --- checking ----------------------------------------------------------------------------------------

    def window_opens(self) -> None:
        """Look at the optimizers where the profiled window begins."""
        self._opened = self._counts()

    def window_closes(self) -> None:
        """Say so where not every call of the window has updated the variables."""
        opened, self._opened = self._opened, {}
        apart = self._training.threads.apart  # whose calls are not all counted yet
        for number, count in self._counts().items() if opened and not apart else ():
            calls, updates = _between(opened.get(number, count), count)
            if calls > 1 and updates * SELDOM <= calls:
                text = "its variables were updated %d times in the %d calls that were profiled" % (updates, calls)
                self._gaps.note("seldom-updated", "1 step = 1 call of a training function; " + text, level="note")

    def conclude(self) -> None:
        """Say so where calls of several steps have made other numbers of updates than was counted."""
        for number, count in self._counts().items():
            expected, made = _between(self._begun.get(number, count), count)
            if made != expected and any(p.part.steps > 1 and number in p.applies for p in self._parts.values()):
                self._gaps.note(
                    "steps-of-calls",
                    "one call makes several steps, not always the same: %d steps were counted, %d updates were made"
                    % (expected, made),
                    "give fit a dataset of known size, or steps_per_epoch; or mark the step: with tcprobe.step(): ...",
                )

    def _counts(self) -> Dict[int, Count]:
        """Return what has been counted up to now, without the call that is about to run."""
        part, steps = self._training.running() or (None, 0)
        pending = self._parts[part.key].applies if part is not None and part.key in self._parts else {}
        made = self.iterations().items()
        return {o: Count(count, self._expected(o) - steps * pending.get(o, 0)) for o, count in made}

    def _expected(self, optimizer: int) -> int:
        return sum(part.made * applies.get(optimizer, 0) for part, applies in list(self._parts.values()))


def _between(one: Count, other: Count) -> Tuple[int, int]:
    """Return how many updates were expected between two moments, and how many were made."""
    return other.expected - one.expected, other.iterations - one.iterations


def steps_left(batches: Any) -> Optional[int]:
    """Return the steps that `fit` has left for the call that it begins; None where its data are of unknown size."""
    increment = getattr(batches, "_step_increment", None)  # Keras 2
    if increment is not None:
        return None if batches._inferred_steps is None else int(increment) + 1
    if not batches.data_adapter.num_batches:  # what it infers from the end of the data counts the last call whole
        return None
    return int(batches.data_adapter.num_batches - (batches._steps_seen - batches.steps_per_execution))
