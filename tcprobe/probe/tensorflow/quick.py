"""The leanest hook there is, for functions known to train, once the window is over.

What a hook costs between two steps is set less by what it computes than by how much cold memory it touches. A
function in quick mode is therefore of a class of its own, whose call notes itself, a clock and a thread, and does
nothing else; the journal's thread finds out later what the call was.
"""

from __future__ import annotations

import time
import weakref
from threading import get_ident
from typing import Any, Callable, List


class Quick:
    """Moves functions into quick mode and back.

    Args:
        kind: class of tf.functions.
        original: its `__call__` without any hook.
        note: takes ``(function, clock, thread)`` of every call, the clock being `time.perf_counter_ns`.
        failed: told of the exception that a call raised.
    """

    def __init__(self, kind: Any, original: Any, note: Callable[[Any], None], failed: Callable[[Any], None]) -> None:
        self._kind = kind
        self._quick = _quick_class(kind, original, note, failed)
        self._moved: List[Any] = []

    def enter(self, function: Any) -> None:
        """Move a function into quick mode."""
        if type(function) is self._kind:
            function.__class__ = self._quick
            self._moved.append(weakref.ref(function))

    def leave(self) -> None:
        """Move every function back."""
        for ref in self._moved:
            function = ref()
            if function is not None:
                function.__class__ = self._kind
        self._moved = []


def _quick_class(kind: Any, original: Any, note: Callable[[Any], None], failed: Callable[[Any], None]) -> Any:
    now = time.perf_counter_ns

    def call(function: Any, *args: Any, **kwds: Any) -> Any:
        note((function, now(), get_ident()))
        try:
            return original(function, *args, **kwds)
        except BaseException as error:
            failed(error)
            raise

    class Meta(type(kind)):  # type: ignore[misc]
        """TensorFlow makes a bound method's function by calling the class of the unbound one."""

        def __call__(cls, *args: Any, **kwds: Any) -> Any:
            return kind(*args, **kwds)

    call.__name__, call.__doc__ = "__call__", original.__doc__
    names = {"__call__": call, "__doc__": kind.__doc__, "__module__": kind.__module__}
    return Meta(kind.__name__, (kind,), {**names, "__qualname__": kind.__qualname__})
