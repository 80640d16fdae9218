"""Learns how many steps one call makes: `steps_per_execution`, and loops over a dataset inside a tf.function."""

from __future__ import annotations

import math
import weakref
from typing import Any, Callable, Dict, NamedTuple, Optional, Set, Tuple

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


class Fitted(NamedTuple):
    """A model whose train function Keras has made, and the steps of one execution."""

    steps: int
    model: str


class Count(NamedTuple):
    """What had been counted at a moment: iterations of an optimizer, and the updates that its parts should make."""

    iterations: int
    expected: int


class Every(NamedTuple):
    """After how many calls variables are updated, if it is always after as many; `most` is None where nothing tells."""

    least: int
    most: Optional[int]

    @classmethod
    def of(cls, calls: int, updates: int) -> "Every":
        """Return what follows from `updates`, one at the least, in so many calls in a row."""
        return cls(calls // (updates + 1) + 1, None if updates == 1 else math.ceil(calls / (updates - 1)) - 1)

    def narrowed(self, other: "Every") -> "Every":
        """Return what both say; this one where they contradict each other, since it is not always after as many."""
        most = other.most if self.most is None else self.most if other.most is None else min(self.most, other.most)
        least = max(self.least, other.least)
        return Every(least, most) if most is None or least <= most else self

    def __str__(self) -> str:
        if self.most is None:
            return "%d or more" % self.least
        return str(self.least) if self.least == self.most else "%d to %d" % (self.least, self.most)


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
        self._announced: Optional[Fitted] = None
        self._fitted: Set[int] = set()  # keys of the parts that fit calls
        self._optimizers: Dict[int, Any] = {}
        self._met: Dict[int, int] = {}  # their iterations when they were first seen, which may be within a first call
        self._parts: Dict[int, Applying] = {}
        self._opened: Dict[int, Count] = {}
        self._seldom: Dict[int, Tuple[Count, Every]] = {}  # at the beginning of the window, and what that told
        self._begun: Dict[int, Count] = {}  # before the first call that applies the optimizer

    # --- learning ----------------------------------------------------------------------------------------

    def fits(self, steps: int, made: Optional[str]) -> None:
        """Note that a Keras model is about to train, with so many steps per execution.

        `made` is its name where its train function was made, so that the function that trains next is its.
        """
        self.fit = True
        if made is not None:
            self._announced = Fitted(steps, made)

    def know(self, optimizer: Any) -> None:
        """Note an optimizer that is applied in a function."""
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer, self._forget(id(optimizer)))
            self._met[id(optimizer)] = self._iterations(optimizer) or 0

    def _forget(self, number: int) -> Callable[[Any], object]:
        return lambda _: self._optimizers.pop(number, None)

    def iterations(self) -> Dict[int, int]:
        """Return the iterations of all optimizers that are known, by id. Never asked within a step."""
        found = {}
        for number, reference in list(self._optimizers.items()):
            optimizer = reference()
            count = None if optimizer is None else self._iterations(optimizer)
            if count is not None:
                found[number] = count
        return found

    def learn(self, part: Callee, facts: Facts, before: Optional[Dict[int, int]]) -> None:
        """Learn the steps that a call of `part` makes, from the trace that has just run.

        Args:
            part: of training.
            facts: of the trace.
            before: iterations of the optimizers before the call; None where they are not known.
        """
        if not part.training or part.key in self._parts:
            return
        announced, self._announced = self._announced, None
        before = None if before is None else {**self._met, **before}
        self._parts[part.key] = Applying(part, facts.applies)
        if announced is not None:
            part.steps, part.model = max(1, announced.steps), announced.model
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
        for number, count in self._counts().items() if opened else ():
            if number in opened:
                self._compare(number, opened[number], count)

    def conclude(self) -> None:
        """Say so where calls of several steps have made other numbers of updates than was counted."""
        for number, count in self._counts().items():
            begun = self._begun.get(number)
            self._narrow(number, begun, count)
            several = any(p.part.steps > 1 and number in p.applies for p in self._parts.values())
            if begun is None or not several:
                continue
            made, expected = count.iterations - begun.iterations, count.expected - begun.expected
            if made != expected:
                self._gaps.note(
                    "steps-of-calls",
                    "one call makes several steps, not always the same: %d steps were counted, %d updates were made"
                    % (expected, made),
                    "give fit a dataset of known size, or steps_per_epoch; or mark the step: with tcprobe.step(): ...",
                )

    def _expected(self, optimizer: int) -> int:
        return sum(part.made * applies.get(optimizer, 0) for part, applies in list(self._parts.values()))

    def _counts(self) -> Dict[int, Count]:
        """Return what has been counted up to now, without the call that is about to run."""
        running = self._training.running()
        pending = {} if running is None else self._applied(*running)
        return {o: Count(count, self._expected(o) - pending.get(o, 0)) for o, count in self.iterations().items()}

    def _applied(self, part: Callee, steps: int) -> Dict[int, int]:
        """Return how often so many steps of a part apply each optimizer."""
        known = self._parts.get(part.key)
        return {} if known is None else {optimizer: steps * count for optimizer, count in known.applies.items()}

    def _compare(self, number: int, opened: Count, closed: Count) -> None:
        made, expected = closed.iterations - opened.iterations, closed.expected - opened.expected
        if expected < 2 or made * SELDOM > expected:
            return
        if made:
            self._seldom[number] = opened, Every.of(expected, made)
            self._say_seldom("its variables are updated every %s calls" % (self._seldom[number][1],))
        else:
            self._say_seldom("its variables were not updated within the %d calls that were profiled" % expected)

    def _narrow(self, number: int, begun: Optional[Count], ended: Count) -> None:
        """Say more exactly how often variables are updated, by all calls from the window on and from the first on."""
        if number not in self._seldom:
            return
        opened, every = self._seldom[number]
        for first in (opened, begun or opened):
            made = ended.iterations - first.iterations
            every = every.narrowed(Every.of(ended.expected - first.expected, made)) if made else every
        self._say_seldom("its variables are updated every %s calls" % (every,))

    def _say_seldom(self, what: str) -> None:
        self._gaps.note("seldom-updated", "1 step = 1 call of a training function; " + what, level="note")


def steps_left(batches: Any) -> Optional[int]:
    """Return the steps that `fit` has left for the call that it begins; None where its data are of unknown size."""
    increment = getattr(batches, "_step_increment", None)  # Keras 2
    if increment is not None:
        return None if batches._inferred_steps is None else int(increment) + 1
    if not batches.data_adapter.num_batches:  # what it infers from the end of the data counts the last call whole
        return None
    return int(batches.data_adapter.num_batches - (batches._steps_seen - batches.steps_per_execution))
