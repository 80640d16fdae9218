"""What stands where the graph recorder is missing, and the guard around its context managers."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager

from ..core.gaps import Gaps


class NoRecorder:
    """Records nothing."""

    current: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        contexts = ("first_call", "eager_sample")
        return (lambda *_: contextlib.nullcontext()) if name in contexts else (lambda *_: None)


class Guarded:
    """A context manager whose own failures become a gap; those of the body come through."""

    def __init__(self, gaps: Gaps, make: Callable[[], ContextManager[Any]]) -> None:
        self._gaps = gaps
        self._make = make
        self._context: Any = None

    def __enter__(self) -> None:
        self._context = self._gaps.run("graph record", self._make)
        if self._context is not None:
            self._gaps.run("graph record", self._context.__enter__)

    def __exit__(self, *error: Any) -> None:
        # The recorder is not told of the error: a generator would raise it again from here.
        if self._context is not None:
            self._gaps.run("graph record", lambda: self._context.__exit__(None, None, None))
