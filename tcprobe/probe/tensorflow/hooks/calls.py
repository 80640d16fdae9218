"""Hooks on calls of tf.functions and on gradient tapes."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import Any, Callable, List, Optional

from ...core.gaps import Gaps
from .patch import Ending, Patches

TAPES = "eager tapes"


class Tapes(threading.local):
    """The tapes of one thread.

    Attributes:
        tape: the outermost that was entered outside any call; None where there is none.
        latest: the one that was entered last, until it takes a gradient: Keras before 2.11 enters the tape of a step
            again to scale the loss, before it takes the gradient.
        leaves: what to call as it is left.
    """

    tape: Any = None
    latest: Optional[Callable[[], Any]] = None
    leaves: Optional[Ending] = None


class Calls:
    """Tells listeners what a script itself calls: functions, and tapes outside any.

    Args:
        gaps: takes what this TensorFlow lacks, and what a listener raises.
        inside: says whether what runs is part of a call already, and no call of its own.

    Attributes:
        calling: makes the method that stands in the place of a function's ``__call__``.
        eager: whether TensorFlow executes eagerly.
        on_call: called in the place of a function from outside: with what calls it really, it, and the arguments.
        tapes: those of this thread.
        on_enter: told of that tape; may return what to call as it is left.
        on_nested: told of a tape that is entered inside it.
        on_gradient: told that a tape takes a gradient within a call, or in a graph.
        on_take: told of a tape, and of the arguments, before it takes a gradient outside; may return what to call then.
    """

    def __init__(self, gaps: Gaps, inside: Callable[[], bool]) -> None:
        self.calling = self._calling
        self.on_call: Callable[..., Any] = _nothing
        self.tapes = Tapes()
        self.on_enter: Callable[[Any], Optional[Ending]] = _nothing
        self.on_nested: Callable[[Any], object] = _nothing
        self.on_gradient: Callable[[], object] = _nothing
        self.on_take: Callable[..., Optional[Ending]] = _nothing
        self._inside = inside
        self.eager: Callable[[], bool] = bool
        self._gaps = gaps
        self._patches = Patches()

    @property
    def tape(self) -> Any:
        """The outermost tape that this thread entered outside; None where there is none."""
        return self.tapes.tape

    def forget_tape(self) -> None:
        """Take no tape for entered in this thread."""
        self.tapes.tape = None

    def install(self, tf: Any) -> None:
        """Hook `tf`."""
        self.eager = tf.executing_eagerly
        self._gaps.run("tf.function calls", lambda: self._patches.method(function_class(tf), "__call__", self.calling))
        self._gaps.run("gradient tapes", lambda: self._hook_tapes(tf.GradientTape))

    def remove(self) -> None:
        """Put the original methods back."""
        self._patches.restore()

    def _calling(self, original: Any) -> Any:
        def call(function: Any, *args: Any, **kwds: Any) -> Any:
            if self._inside() or not self.eager():
                return original(function, *args, **kwds)
            return self.on_call(original, function, args, kwds)

        return call

    def _hook_tapes(self, kind: Any) -> None:
        for name, make in (("__enter__", self._entering), ("__exit__", self._leaving), ("gradient", self._taking)):
            self._patches.method(kind, name, make)

    # An eager loop runs these in every step, and each call of Python's is felt there: see `_calling` of the probe.

    def _entering(self, enter: Any) -> Any:
        mine = self.tapes

        def entered(tape: Any) -> Any:
            if not self._inside() and self.eager():
                if mine.tape is not None:
                    self._gaps.run(TAPES, partial(self.on_nested, tape))
                elif mine.latest is None or mine.latest() is not tape:
                    mine.leaves = self._gaps.run(TAPES, partial(self.on_enter, tape))
                    mine.tape, mine.latest = tape, weakref.ref(tape)
            return enter(tape)

        return entered

    def _leaving(self, leave: Any) -> Any:
        mine = self.tapes

        def left(tape: Any, *args: Any) -> Any:
            if mine.tape is tape:
                mine.tape = None
                if mine.leaves is not None:
                    mine.leaves()
            return leave(tape, *args)

        return left

    def _taking(self, gradient: Any) -> Any:
        mine = self.tapes

        def taken(tape: Any, *args: Any, **kwds: Any) -> Any:
            if self._inside() or not self.eager():
                self._gaps.run(TAPES, self.on_gradient)
                return gradient(tape, *args, **kwds)
            mine.latest = None
            after = self._gaps.run(TAPES, partial(self.on_take, tape, *args, **kwds))
            try:
                return gradient(tape, *args, **kwds)
            finally:
                if after is not None:
                    after()
                if mine.tape is tape and not getattr(tape, "_recording", True):  # its `__exit__` may never come
                    mine.tape = None
                    if mine.leaves is not None:
                        mine.leaves()

        return taken


def _nothing(*_: Any, **__: Any) -> None:
    """Stand for a listener where there is none, and for a tape that is gone."""


def function_class(tf: Any) -> Any:
    """Return the class of tf.functions."""
    return type(tf.function(lambda: None))


def concrete_functions(function: Any) -> List[Any]:
    """Return the traces that a tf.function has."""
    return list(getattr(function, "_list_all_concrete_functions", list)())
