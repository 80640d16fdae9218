"""Knows which frames are TensorFlow's and which the user's, and the name of a function."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, DefaultDict, FrozenSet, List, Optional

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


def clean_converted() -> None:
    """Keep the probe's frames out of what AutoGraph prints of an error, and its hook on warnings a builtin to it.

    Raises:
        KeyError, AttributeError: this TensorFlow has no such part.
    """
    utilities: Any = sys.modules["tensorflow.python.autograph.pyct.error_utils"]
    inside = utilities._stack_trace_inside_mapped_code

    @functools.wraps(inside)
    def stripped(frames: Any, *args: Any, **kwds: Any) -> Any:
        return inside([frame for frame in frames if not lines.is_ours(frame.filename)], *args, **kwds)

    utilities._stack_trace_inside_mapped_code = stripped
    kinds: Any = sys.modules["tensorflow.python.autograph.pyct.inspect_utils"]
    isbuiltin, warn = kinds.isbuiltin, warnings.warn
    kinds.isbuiltin = lambda f: f is warn or isbuiltin(f)


def clean_defined(script: bool) -> None:
    """Keep the probe's frames out of where an op was defined, and those of runpy where the workload is a script.

    Raises:
        KeyError, AttributeError: this TensorFlow has no such part.
    """
    stacks: Any = sys.modules["tensorflow.python.util.tf_stack"]
    runpy = sys.modules.get("runpy") if script else None
    names = lines.our_files() | ({runpy.run_path.__code__.co_filename} if runpy is not None else set())

    class Ours(stacks.StackTraceFilter):  # type: ignore[misc]
        def get_filtered_filenames(self) -> FrozenSet[str]:
            return names

    def outermost() -> Any:
        ours = Ours()
        if hasattr(ours, "update"):  # from TensorFlow 2.5 on
            ours.update()
        return ours

    by_thread: DefaultDict[Any, List[Any]] = stacks._source_filter_stacks
    by_thread.default_factory = lambda: [outermost()]
    for filters in by_thread.values():
        filters[:1] = [outermost()]
