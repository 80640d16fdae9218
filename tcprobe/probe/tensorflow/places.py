"""Knows which frames are TensorFlow's, the user's line behind an op, and the name of a function."""

from __future__ import annotations

import functools
from typing import Any, Optional

from ..core import lines

FRAMEWORK_PACKAGES = ("tensorflow", "tensorflow_core", "keras", "tf_keras", "wrapt", "absl", "numpy", "six")
# AutoGraph writes the code that it converted into the folder for temporary files, under these names.
GENERATED = r"^(?:__autograph_generated_file\w*|tmp\w{8})\.py$"

lines.know_framework(FRAMEWORK_PACKAGES, GENERATED)


def function_name(function: Any) -> str:
    """Return module and qualified name of the Python function below a tf.function."""
    python = getattr(function, "python_function", None) or getattr(function, "_python_function", function)
    while isinstance(python, functools.partial):
        python = python.func
    name = getattr(python, "__qualname__", None) or getattr(python, "__name__", type(python).__name__)
    return "%s.%s" % (getattr(python, "__module__", "?"), name)


def traced_line(op: Any) -> Optional[str]:
    """Return the user's line that made a graph op; None where the op has no traceback (imported functions)."""
    traceback = getattr(op, "traceback", None)
    if not traceback:
        return None
    return lines.best((frame.filename, frame.lineno) for frame in reversed(list(traceback)))
