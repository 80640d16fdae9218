"""What a training call is called: the name of its function, or the user's line where an eager tape begins."""

from __future__ import annotations

import functools
import sys
from typing import Any, Tuple

from ..core.tracebacks import is_ours

NOT_THE_USERS = ("site-packages", "dist-packages", "<frozen", "<string>")


def function_name(function: Any) -> str:
    """Return module and qualified name of the Python function below a tf.function."""
    python = getattr(function, "python_function", None) or getattr(function, "_python_function", function)
    while isinstance(python, functools.partial):
        python = python.func
    name = getattr(python, "__qualname__", None) or getattr(python, "__name__", type(python).__name__)
    return "%s.%s" % (getattr(python, "__module__", "?"), name)


def user_place() -> Tuple[str, int]:
    """Return file and line of the innermost frame that is neither the probe's nor a library's."""
    frame: Any = sys._getframe(1)
    place = ("?", 0)
    while frame is not None:
        place = (frame.f_code.co_filename, frame.f_lineno)
        if not any(part in place[0] for part in NOT_THE_USERS) and not is_ours(place[0]):
            return place
        frame = frame.f_back
    return place
