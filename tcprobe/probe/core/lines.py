"""Finds the line of the user's code behind a frame: neither a framework's nor the probe's own."""

from __future__ import annotations

import itertools
import linecache
import os
import re
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional, Pattern, Set, Tuple

from .tracebacks import is_ours

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
