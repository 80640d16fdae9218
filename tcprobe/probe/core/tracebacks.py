"""Keeps the probe's frames out of the tracebacks and stacks that the script prints, and of the lines of warnings."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import Any, Callable, FrozenSet, List, Optional, Set

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PREFIX = HERE + os.sep


def is_ours(filename: str) -> bool:
    """Say whether a code object's file belongs to the probe."""
    return filename.startswith(PREFIX) or os.path.abspath(filename).startswith(PREFIX)


def our_files() -> FrozenSet[str]:
    """Return the files of the probe, as its frames name them."""
    return frozenset(
        os.path.join(folder, name) for folder, _, names in os.walk(HERE) for name in names if name.endswith(".py")
    )


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
    while entry is not None and _is_runpy(entry.tb_frame):
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
    traceback.walk_stack = _walking(traceback.walk_stack)


def _walking(walk: Any) -> Any:
    @functools.wraps(walk)
    def walk_stack(f: Any) -> Any:
        # Without a frame it starts at its caller's caller, which only a frame says.
        frame = sys._getframe().f_back.f_back if f is None else f  # type: ignore[union-attr]
        return iter(_without_ours(list(walk(frame)), lambda entry: entry[0]))

    return walk_stack


def clean_inspected(inspect: Any) -> None:
    """Strip what `inspect.stack` returns."""
    inner = inspect.getouterframes

    @functools.wraps(inner)
    def getouterframes(*args: Any, **kwds: Any) -> Any:
        return _without_ours(inner(*args, **kwds), lambda entry: entry.frame)

    inspect.getouterframes = getouterframes


def _without_ours(entries: List[Any], frame_of: Callable[[Any], FrameType]) -> List[Any]:
    """Return the entries of a stack, from the inside out, without the probe's and those of runpy that run it."""
    end = len(entries)
    while end and _is_runpy(frame_of(entries[end - 1])):
        end -= 1
    if end and is_ours(frame_of(entries[end - 1]).f_code.co_filename):
        entries = entries[:end]
    return [entry for entry in entries if not is_ours(frame_of(entry).f_code.co_filename)]


def place_warnings(warnings: Any) -> None:
    """Let a warning count its callers as if the probe were none of them."""
    warn = warnings.warn

    @functools.wraps(warn)
    def placed(message: Any, category: Any = None, stacklevel: int = 1, *args: Any, **kwds: Any) -> Any:
        if kwds.get("skip_file_prefixes"):  # from Python 3.12 on
            kwds["skip_file_prefixes"] = (*kwds["skip_file_prefixes"], PREFIX)
            return warn(message, category, stacklevel, *args, **kwds)
        frame, wanted, level, ours = sys._getframe(1), max(1, stacklevel), 1, False
        while frame is not None and wanted:
            ours = is_ours(frame.f_code.co_filename) or (ours and _is_runpy(frame))
            internal = _is_import(frame)
            level += not internal
            wanted -= not (ours or internal)
            frame = frame.f_back  # type: ignore[assignment]
        return warn(message, category, level + wanted, *args, **kwds)

    warnings.warn = placed


def _is_runpy(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") == "runpy"


def _is_import(frame: FrameType) -> bool:
    """Say whether a frame is one of the import system's, which module `warnings` does not count."""
    return "importlib" in frame.f_code.co_filename and "_bootstrap" in frame.f_code.co_filename
