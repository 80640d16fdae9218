"""Which line of the user's code stands behind a frame: not the frameworks', not the probe's own."""

from __future__ import annotations

import os
import re
import sys
from types import FrameType
from typing import Any, Dict, Iterable, Optional, Tuple

from .tracebacks import is_ours

STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\.]+)")
FRAMEWORKS = frozenset(("tensorflow", "tensorflow_core", "keras", "tf_keras", "wrapt", "absl", "numpy", "nvtx", "six"))
# AutoGraph writes the code that it converted into the folder for temporary files, under these names.
GENERATED = re.compile(r"^(?:__autograph_generated_file\w*|tmp\w{8})\.py$")
USER, PACKAGE, OTHER = 0, 1, 2
_ranks: Dict[str, int] = {}
_paths: Dict[str, str] = {}


def rank(filename: str) -> int:
    """Return USER for the user's file, PACKAGE for an installed library that is no framework, else OTHER."""
    known = _ranks.get(filename)
    if known is None:
        known = _ranks[filename] = _rank(filename)
    return known


def _rank(filename: str) -> int:
    # Python 3.8 gives the script's own path as it was typed, so only absolute paths compare.
    path = os.path.abspath(filename)
    if filename.startswith("<") or is_ours(path) or GENERATED.match(os.path.basename(path)):
        return OTHER
    package = PACKAGES.search(path)
    if package:
        return OTHER if package.group(1) in FRAMEWORKS else PACKAGE
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


def traced_line(op: Any) -> Optional[str]:
    """Return the user's line that made a graph op; None where the op has no traceback (imported functions)."""
    traceback = getattr(op, "traceback", None)
    if not traceback:
        return None
    return best((frame.filename, frame.lineno) for frame in reversed(list(traceback)))


def running_line(depth: int = 1) -> Optional[str]:
    """Return the user's line that is running, `depth` frames up or further out."""
    frame: Optional[FrameType] = sys._getframe(depth)

    def outwards(frame: Optional[FrameType]) -> Iterable[Tuple[str, Optional[int]]]:
        while frame is not None:
            yield frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back

    return best(outwards(frame))


def constructed_line(layer: Any, frame: Optional[FrameType], within: str) -> Tuple[Optional[str], bool]:
    """Return the line that constructs `layer`, and whether a layer being called does it rather than the user.

    Args:
        layer: the object under construction; the ``__init__`` frames of its own classes are passed over.
        frame: the innermost frame of its construction.
        within: file whose ``__call__`` frame stands for a layer being called.
    """
    library = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename == within and code.co_name == "__call__":
            return library, True
        if not (code.co_name == "__init__" and _is_own(frame, layer)):
            kind = rank(code.co_filename)
            if kind == USER:
                return located(code.co_filename, frame.f_lineno), False
            if kind == PACKAGE and library is None:
                library = located(code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return library, False


def _is_own(frame: FrameType, layer: Any) -> bool:
    names = frame.f_code.co_varnames
    return bool(names) and frame.f_locals.get(names[0]) is layer
