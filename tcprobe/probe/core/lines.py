"""Finds the line of the user's code behind a frame: neither a framework's nor the probe's own.

The probe's frames stay out of the tracebacks and stacks that the script prints, and of the lines of warnings.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import re
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Pattern, Set, Tuple

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


STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\.]+)")
USER, PACKAGE, OTHER = 0, 1, 2
Span = Tuple[int, int, int, int]
_frameworks: Set[str] = {"nvtx"}
_generated: Pattern[str] = re.compile("(?!)")
_ranks: Dict[str, int] = {}
_paths: Dict[str, str] = {}
_places: Dict[Tuple[int, int], Tuple[Callable[[], Optional[CodeType]], str]] = {}  # by code and instruction


def know_framework(packages: Iterable[str], generated: str) -> None:
    """Take the code of a framework for nobody's: lines are asked for before and after, and each file is ranked once.

    Args:
        packages: the top-level packages that it consists of.
        generated: pattern of the names of files that it writes, converting the user's code.
    """
    global _generated
    _frameworks.update(packages)
    _generated = re.compile(generated)
    _ranks.clear()


def rank(filename: str) -> int:
    """Return USER for the user's file, PACKAGE for an installed library that is no framework, else OTHER."""
    known = _ranks.get(filename)
    if known is None:
        known = _ranks[filename] = _rank(filename)
    return known


def _rank(filename: str) -> int:
    # Python 3.8 gives the script's own path as it was typed, so only absolute paths compare.
    path = os.path.abspath(filename)
    if filename.startswith("<") or is_ours(path) or _generated.match(os.path.basename(path)):
        return OTHER
    package = PACKAGES.search(path)
    if package:
        return OTHER if package.group(1) in _frameworks else PACKAGE
    return OTHER if path.startswith(STDLIB) else USER


def located(filename: str, line: Optional[int]) -> str:
    """Return ``file:line`` with an absolute path."""
    path = _paths.get(filename)
    if path is None:
        path = _paths[filename] = os.path.abspath(filename)
    return "%s:%d" % (path, line or 0)


def best(frames: Iterable[Tuple[str, Optional[int]]]) -> Optional[str]:
    """Return the innermost line of the user's, else of an installed library; `frames` run from the inside out."""
    library = None
    for filename, line in frames:
        kind = rank(filename)
        if kind == USER:
            return located(filename, line)
        if kind == PACKAGE and library is None:
            library = located(filename, line)
    return library


def running_line(depth: int = 1) -> Optional[str]:
    """Return the user's line that is running, `depth` frames up or further out."""
    # Which line runs stands on the interpreter's stack and nowhere else.
    library: Optional[FrameType] = None
    frame: Optional[FrameType] = sys._getframe(depth)
    while frame is not None:
        filename = frame.f_code.co_filename
        kind = _ranks.get(filename)
        kind = rank(filename) if kind is None else kind
        if kind == USER:
            break
        if kind == PACKAGE and library is None:
            library = frame
        frame = frame.f_back
    frame = frame or library
    if frame is None:
        return None
    # Python counts the lines from the top of the code every time, which in a script of 2,000 lines takes 40 us.
    code, place = frame.f_code, (id(frame.f_code), frame.f_lasti)
    seen = _places.get(place)
    if seen is None or seen[0]() is not code:
        seen = _places[place] = weakref.ref(code), located(code.co_filename, frame.f_lineno)
    return seen[1]


def outwards(frame: Optional[FrameType]) -> Iterator[FrameType]:
    """Yield a frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


class Constructed(NamedTuple):
    """Where a layer is constructed.

    Attributes:
        line: ``file:line``, None where that was not seen.
        by_layer: whether another layer constructs it while it is called.
        span: what `span_of` says of the user's frame, None where there is none.
    """

    line: Optional[str]
    by_layer: bool
    span: Optional[Span] = None


def span_of(frame: FrameType) -> Optional[Span]:
    """Return first line and column, last line and column of the call that a frame runs; None before Python 3.11.

    Lines count from 1. Columns are in characters from 0, the last one behind the call.
    """
    positions = getattr(frame.f_code, "co_positions", None)
    found = next(itertools.islice(positions(), frame.f_lasti // 2, None), None) if positions is not None else None
    if found is None or None in found:
        return None
    line, end_line, column, end_column = found
    filename = frame.f_code.co_filename
    return line, _characters(filename, line, column), end_line, _characters(filename, end_line, end_column)


def _characters(filename: str, line: int, column: int) -> int:
    """Return a column in characters for one in bytes of UTF-8, as Python counts them."""
    text = linecache.getline(filename, line).encode("utf-8")
    return len(text[:column].decode("utf-8", "replace"))


def constructed_line(made: Any, frame: Optional[FrameType], call: Optional[CodeType]) -> Constructed:
    """Return where a layer is constructed.

    Args:
        made: the layer under construction; the ``__init__`` frames of its own classes are passed over.
        frame: the innermost frame of its construction.
        call: code of the hook around every call of a layer; None where there is none.
    """
    library = None
    for around in outwards(frame):
        if around.f_code is call:
            return Constructed(library, True)
        if not _constructs(around, made):
            filename = around.f_code.co_filename
            kind = rank(filename)
            if kind == USER:
                return Constructed(located(filename, around.f_lineno), False, span_of(around))
            if kind == PACKAGE and library is None:
                library = located(filename, around.f_lineno)
    return Constructed(library, False)


def _constructs(frame: FrameType, made: Any) -> bool:
    """Return whether a frame is the ``__init__`` of one of the classes of `made`."""
    if frame.f_code.co_name != "__init__":
        return False
    # Whose `__init__` a frame is, only its first argument tells: the classes of the user's are not hooked.
    names = frame.f_code.co_varnames
    return bool(names) and frame.f_locals.get(names[0]) is made
