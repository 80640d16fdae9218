"""Traced mode: the user's file is imported or run on the CPU, in a process of its own, and one step is traced."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tcprobe.audit.trace.model import read_models
from tcprobe.audit.trace.start import audited
from tcprobe.errors import InputError, TcprobeError, ToolError, UsageError
from tcprobe.foreign import read, real_path
from tcprobe.schema.model import InputShape, Model
from tcprobe.source.imports import MOST_BYTES

FIND_SECONDS: Final = 60
FIND: Final = "import importlib.util as u, sys; sys.exit(0 if u.find_spec('tensorflow') else 3)"


class NoModel(InputError):
    """The file was run to its end and makes no model."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What to trace.

    Attributes:
        file: the user's Python file.
        factory: name of a function, class or variable in it that gives the model; None to look for models.
        args: its arguments, each a Python literal or else a text.
        run: run the file as a script.
        first_step: stop it at its first training step.
        argv: arguments of the script.
        batch: samples of a step where the model leaves their number open; None is `tcprobe.schema.model.SAMPLES`.
        read_batch: what the source says of them, for models that the file does not come to train; None if nothing.
        input_shapes: of models that were neither built nor called.
        timeout_s: seconds after which everything is ended.
        python: interpreter that has TensorFlow.
    """

    file: str | Path
    factory: str | None = None
    args: Mapping[str, str] = field(default_factory=dict)
    run: bool = False
    first_step: bool = False
    argv: tuple[str, ...] = ()
    batch: int | None = None
    read_batch: int | None = None
    input_shapes: tuple[InputShape, ...] = ()
    timeout_s: float = 300.0
    python: str = sys.executable


def trace(request: TraceRequest) -> list[Model]:
    """Return the models of a file, with the products of one training step of each.

    Nothing of a training step is executed, but the file itself is: what it does up to its first training step
    happens. Behind that it writes, deletes, and starts nothing. It runs on the CPU, without a standard input, and what
    it prints is swallowed.

    Raises:
        MissingInput, UnreadableInput, WrongFormat: the file cannot be read, or is no file.
        NoModel: it has no model.
        InputError: it raises, exits, or does not end in time.
        UsageError: what was asked for is not there, or needs arguments.
        ToolError: the interpreter does not start or has no TensorFlow.
    """
    path = Path(request.file)
    _check(path)
    reason = why_untraceable(request.python)
    if reason is not None:
        raise ToolError(reason, "give another interpreter, or audit the source alone (--mode source)")
    done = audited(
        command=request.python,
        file=path,
        orders={
            "factory": request.factory,
            "args": dict(request.args),
            "run": request.run,
            "first_step": request.first_step,
            "batch": request.batch,
            "read_batch": request.read_batch,
            "input_shapes": [[shape.name, list(shape.sizes)] for shape in request.input_shapes],
        },
        argv=request.argv,
        timeout_s=request.timeout_s,
    )
    error = done.document.get("error")
    if error:
        raise _error(path, error, done.last_line)
    return read_models(done.document, done.graph, str(real_path(path)), request.batch)


def why_untraceable(python: str) -> str | None:
    """Return None where TensorFlow is installed for an interpreter, else why it cannot be used.

    Nothing is imported; only the interpreter that runs tcprobe itself is asked without being started.
    """
    if python == sys.executable:
        return None if importlib.util.find_spec("tensorflow") else f"{python}: TensorFlow is not installed there"
    try:
        done = subprocess.run(
            [python, "-c", FIND], stdin=subprocess.DEVNULL, capture_output=True, timeout=FIND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no answer within {FIND_SECONDS} s"
        return f"{python}: it does not start: {reason}"
    if done.returncode == 3:
        return f"{python}: TensorFlow is not installed there"
    return f"{python}: it is no working Python interpreter" if done.returncode else None


def _check(path: Path) -> None:
    if b"\0" in read(path, MOST_BYTES):
        raise InputError(path, "it is no Python source (it holds null bytes)")


def _error(path: Path, error: Mapping[str, Any], last_line: str) -> TcprobeError:
    """Return what the process reports, as one of ours."""
    message, hint = str(error.get("message")), error.get("hint")
    if error.get("output") and last_line:
        message = f"{message}: {last_line}"
    if error.get("kind") == "usage":
        return UsageError(f"{path}: {message}", hint)
    return (NoModel if error.get("kind") == "none" else InputError)(path, message, hint)
