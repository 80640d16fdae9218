"""Which profiler `--profiler auto` takes for a workload, and why: options, imports of its script, what is here."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tcprobe.capture import environment
from tcprobe.capture.base import Invocation
from tcprobe.capture.nsys import NSYS
from tcprobe.capture.program import missing
from tcprobe.errors import InputError
from tcprobe.foreign import read

Kind = Literal["asked", "options", "own", "other", "other_without_nsys", "nothing_installed", "default"]
TENSORFLOW: Final = "TensorFlow"
IMPORTED: Final = {
    **dict.fromkeys(("tensorflow", "keras", "tf_keras"), TENSORFLOW),
    **dict.fromkeys(("torch", "torchvision", "lightning", "pytorch_lightning"), "PyTorch"),
    **dict.fromkeys(("jax", "flax", "haiku", "optax"), "JAX"),
}
"""Packages whose import tells in what a script trains."""
BACKENDS: Final = {"torch": "PyTorch", "jax": "JAX"}
"""Values of KERAS_BACKEND with which Keras is none of TensorFlow's."""
MOST_BYTES: Final = 8 << 20


class Choice(NamedTuple):
    """The name of a capture, and why it is taken."""

    name: str
    kind: Kind
    framework: str = ""  # what the script trains in, where that decides

    @property
    def why(self) -> str:
        """The reason in a few words; empty where somebody asked for it."""
        return {
            "asked": "",
            "options": "auto: options of it are given",
            "own": f"auto: the script uses {self.framework}",
            "other": f"auto: the script uses {self.framework}, which nsys records, and TensorFlow's profiler does not",
            "other_without_nsys": f"auto: there is no nsys on PATH, which alone records {self.framework}: "
            "no kernels will be recorded",
            "nothing_installed": "auto: the interpreter has no TensorFlow",
            "default": "auto",
        }[self.kind]


def choose(
    profiler: str,
    given: Sequence[str],
    python: str,
    launcher: tuple[str, ...],
    target: Invocation | None = None,
) -> Choice:
    """Choose the profiler: as asked; else the one whose options are given; else the framework's own; else nsys.

    Args:
        profiler: ``auto``, or the name of a capture.
        given: the captures of which an option was given that only they have.
        python: interpreter of the workload.
        launcher: words before the command.
        target: the workload; None where there is none yet.

    Raises:
        ToolError: the interpreter cannot be started.
    """
    if profiler != "auto":
        return Choice(profiler, "asked")
    if given:
        return Choice(given[0], "options")
    trains = set(_frameworks(target))
    other = next(iter(sorted(trains)), "") if trains and TENSORFLOW not in trains else ""
    without = not environment.ask_interpreter(python, launcher).has_tensorflow
    if missing(NSYS, launcher) is None and (other or without):
        return Choice("nsys", "other", other) if other else Choice("nsys", "nothing_installed")
    if other:
        return Choice("tensorflow", "other_without_nsys", other)
    return Choice("tensorflow", "own", TENSORFLOW) if TENSORFLOW in trains else Choice("tensorflow", "default")


def _frameworks(target: Invocation | None) -> Iterator[str]:
    """Yield what a script imports of frameworks, at any place in it; nothing of what cannot be read."""
    if target is None or target.kind != "script":
        return
    try:
        tree = ast.parse(read(Path(target.name), MOST_BYTES))
    except (InputError, ValueError, SyntaxError, RecursionError):
        return
    backend = os.environ.get("KERAS_BACKEND", "")
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in (name.partition(".")[0] for name in names):
            if name in IMPORTED:
                yield BACKENDS.get(backend, TENSORFLOW) if name == "keras" else IMPORTED[name]
