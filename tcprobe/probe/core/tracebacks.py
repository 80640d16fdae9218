"""Keeps the probe's frames out of the tracebacks that the script prints."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Optional, Set

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PREFIX = HERE + os.sep


def is_ours(filename: str) -> bool:
    """Say whether a code object's file belongs to the probe."""
    return filename.startswith(PREFIX) or os.path.abspath(filename).startswith(PREFIX)


def strip(trace: Optional[Any]) -> Optional[Any]:
    """Unlink the probe's frames from a traceback in place; return its first frame, which may be another."""
    trace = _skip_start(trace)
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    entry = trace
    while entry is not None and entry.tb_next is not None:
        following = entry.tb_next
        if is_ours(following.tb_frame.f_code.co_filename):
            entry.tb_next = following.tb_next
        else:
            entry = following
    return trace


def _skip_start(trace: Optional[Any]) -> Optional[Any]:
    """Skip the frames of module runpy that run the probe's own package."""
    entry = trace
    while entry is not None and entry.tb_frame.f_globals.get("__name__") == "runpy":
        entry = entry.tb_next
    return entry if entry is not None and is_ours(entry.tb_frame.f_code.co_filename) else trace


def clean(error: Optional[BaseException], seen: Optional[Set[int]] = None) -> None:
    """Strip the traceback of `error` and of everything that it was raised from."""
    seen = set() if seen is None else seen
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = strip(error.__traceback__)
        for inner in getattr(error, "exceptions", ()):
            clean(inner, seen)
        clean(error.__cause__, seen)
        error = error.__context__


def clean_uncaught() -> None:
    """Strip what the interpreter is about to show, then let the script's own `sys.excepthook` show it."""
    show = sys.excepthook

    def hook(kind: Any, error: Any, _: Any) -> None:
        clean(error)
        if hasattr(sys, "last_traceback"):
            sys.last_traceback = error.__traceback__
        sys.excepthook = show
        show(kind, error, error.__traceback__)

    sys.excepthook = hook


def clean_printed(traceback: Any) -> None:
    """Strip what the script itself prints with module `traceback` or with `logging.exception`."""
    kind, init, walk = traceback.TracebackException, traceback.TracebackException.__init__, traceback.walk_tb

    @functools.wraps(init)
    def initialise(self: Any, exc_type: Any, exc_value: Any, exc_traceback: Any, *args: Any, **kwds: Any) -> None:
        if exc_traceback is not None:
            stripped = strip(exc_traceback)
            if isinstance(exc_value, BaseException) and exc_value.__traceback__ is exc_traceback:
                exc_value.__traceback__ = stripped
            exc_traceback = stripped
        init(self, exc_type, exc_value, exc_traceback, *args, **kwds)

    @functools.wraps(walk)
    def walk_tb(tb: Any) -> Any:
        return walk(strip(tb))

    kind.__init__ = initialise
    traceback.walk_tb = walk_tb
