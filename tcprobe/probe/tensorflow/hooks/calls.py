"""Hooks on calls of tf.functions and on gradient tapes."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Callable, List, Optional

from ...core.gaps import Gaps
from .patch import Ending, Patches

TAPES = "eager tapes"


class Calls:
    """Tells listeners what a script itself calls: functions, and tapes outside any.

    Args:
        gaps: takes what this TensorFlow lacks, and what a listener raises.
        inside: says whether what runs is part of a call already, and no call of its own.

    Attributes:
        calling: makes the method that stands in the place of a function's ``__call__``.
        eager: whether TensorFlow executes eagerly.
        on_call: called in the place of a function from outside: with what calls it really, it, and the arguments.
        tape: the outermost tape that was entered outside; None where there is none.
        on_enter: told of that tape; may return what to call as it is left.
        on_nested: told of a tape that is entered inside it.
        on_gradient: told that a tape takes a gradient within a call, or in a graph.
        on_take: told of a tape, and of the arguments, before it takes a gradient outside; may return what to call then.
    """

    def __init__(self, gaps: Gaps, inside: Callable[[], bool]) -> None:
        self.calling = self._calling
        self.on_call: Callable[..., Any] = _nothing
        self.tape: Any = None
        self.on_enter: Callable[[Any], Optional[Ending]] = _nothing
        self.on_nested: Callable[[Any], object] = _nothing
        self.on_gradient: Callable[[], object] = _nothing
        self.on_take: Callable[..., Optional[Ending]] = _nothing
        self._inside = inside
        self.eager: Callable[[], bool] = bool
        self._gaps = gaps
        self._patches = Patches()
        # Keras before 2.11 enters the tape of a step again to scale the loss, before it takes the gradient.
        self._latest: Optional[Callable[[], Any]] = None
        self._leaves: Optional[Ending] = None

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
        def entered(tape: Any) -> Any:
            if not self._inside() and self.eager():
                if self.tape is not None:
                    self._gaps.run(TAPES, partial(self.on_nested, tape))
                elif self._latest is None or self._latest() is not tape:
                    self._leaves = self._gaps.run(TAPES, partial(self.on_enter, tape))
                    self.tape, self._latest = tape, weakref.ref(tape)
            return enter(tape)

        return entered

    def _leaving(self, leave: Any) -> Any:
        def left(tape: Any, *args: Any) -> Any:
            if self.tape is tape:
                self.tape = None
                if self._leaves is not None:
                    self._leaves()
            return leave(tape, *args)

        return left

    def _taking(self, gradient: Any) -> Any:
        def taken(tape: Any, *args: Any, **kwds: Any) -> Any:
            if self._inside() or not self.eager():
                self._gaps.run(TAPES, self.on_gradient)
                return gradient(tape, *args, **kwds)
            self._latest = None
            after = self._gaps.run(TAPES, partial(self.on_take, tape, *args, **kwds))
            try:
                return gradient(tape, *args, **kwds)
            finally:
                if after is not None:
                    after()
                if self.tape is tape and not getattr(tape, "_recording", True):  # its `__exit__` may never come
                    self.tape = None
                    if self._leaves is not None:
                        self._leaves()

        return taken


def _nothing(*_: Any, **__: Any) -> None:
    """Stand for a listener where there is none, and for a tape that is gone."""


def function_class(tf: Any) -> Any:
    """Return the class of tf.functions."""
    return type(tf.function(lambda: None))


def concrete_functions(function: Any) -> List[Any]:
    """Return the traces that a tf.function has."""
    return list(getattr(function, "_list_all_concrete_functions", list)())
