"""Traced mode: the user's file is imported or run on the CPU, in a process of its own, and one step is traced."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from tcprobe.audit.trace.model import read_models
from tcprobe.bypath import PROBE, ending, last_line, run_to_end, scratch_folder
from tcprobe.errors import InputError, TcprobeError, ToolError, UsageError
from tcprobe.foreign import read, real_path
from tcprobe.hardware import Gpu
from tcprobe.jsonfile import read_object
from tcprobe.schema.model import InputShape, Model
from tcprobe.source.imports import MOST_BYTES

FIND_SECONDS: Final = 60
FIND: Final = "import importlib.util as u, sys; sys.exit(0 if u.find_spec('tensorflow') else 3)"


class NoModel(InputError):
    """The file was run to its end and makes no model."""


class FileRaised(InputError):
    """The file raised an exception before it made a model."""


ERRORS: Final = {"none": NoModel, "raised": FileRaised}
"""What the probe's kinds of errors are."""


class TraceRequest(Struct, frozen=True):
    """What to trace."""

    file: str | Path  # the user's Python file
    # name of a function, class or variable in it that gives the model; None to look for models
    factory: str | None = None
    args: Mapping[str, str] = field(default_factory=dict)  # its arguments, each a Python literal or else a text
    run: bool = False  # run the file as a script
    first_step: bool = False  # stop it at its first training step
    argv: tuple[str, ...] = ()  # arguments of the script
    # samples of a step where the model leaves their number open; None is `tcprobe.schema.model.SAMPLES`
    batch: int | None = None
    # what the source says of them, for models that the file does not come to train; None if nothing
    read_batch: int | None = None
    input_shapes: tuple[InputShape, ...] = ()  # of models that were neither built nor called
    gpu: Gpu | None = None  # what the script is told of the GPU that it is audited for
    timeout_s: float = 300.0  # seconds after which everything is ended
    python: str = sys.executable  # interpreter that has TensorFlow


def trace(request: TraceRequest) -> list[Model]:
    """Return the models of a file, with the products of one training step of each.

    Nothing of a training step is executed, but the file itself is: what it does up to its first training step
    happens. Behind that it writes, deletes, and starts nothing, and it ends at the first step of a loop of its own, or
    where it raises: then the models are `incomplete`. It runs on the CPU, without a standard input, and what
    it prints is swallowed.

    Raises:
        MissingInput, UnreadableInput, WrongFormat: the file cannot be read, or is no file.
        NoModel: it has no model.
        FileRaised: it raises.
        InputError: it exits, or does not end in time.
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
            "gpu": _details(request.gpu) if request.gpu is not None else {},
            "input_shapes": [[shape.name, list(shape.sizes)] for shape in request.input_shapes],
        },
        argv=request.argv,
        timeout_s=request.timeout_s,
    )
    error = done.document.get("error")
    if error:
        raise _error(path, error, done.last_line)
    return read_models(done.document, done.graph, str(real_path(path)), request.batch)


def _details(gpu: Gpu) -> dict[str, Any]:
    """Return what TensorFlow's `get_device_details` says of a GPU."""
    return {"device_name": gpu.name, "compute_capability": list(gpu.compute_capability)}


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
    return ERRORS.get(str(error.get("kind")), InputError)(path, message, hint)


# The probe is started on a user's file, and all that it started ended


TRACING_ENVIRONMENT: Final = {
    "CUDA_VISIBLE_DEVICES": "-1 ",  # none; a blank more than a script writes that hides them itself
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "MPLBACKEND": "Agg",
    "TCPROBE_AUDIT": "1",
}


class Done(Struct, frozen=True):
    """What the process left."""

    document: dict[str, Any]  # audit.json
    graph: dict[str, Any]  # graph.json; empty where nothing was traced
    last_line: str  # the last line that the user's code wrote to its standard error, else to its standard output


def audited(command: str, file: Path, orders: Mapping[str, Any], argv: tuple[str, ...], timeout_s: float) -> Done:
    """Run the probe's audit on `file` and return what it wrote.

    Args:
        command: the interpreter.
        file: the user's file.
        orders: the key ``audit`` of the probe's configuration.
        argv: arguments of a script.
        timeout_s: seconds, above 0.

    Raises:
        InputError: it did not end in time, or died.
        OutputError: there is no room for temporary files.
        ToolError: the interpreter does not start, or this installation lacks its probe.
    """
    with scratch_folder("tcprobe-audit-") as folder:
        stdout, stderr = folder / "stdout", folder / "stderr"
        config = {
            "out": str(folder / "out"),
            "raw": str(folder / "raw"),
            "target": ["script", str(file)],
            "argv": list(argv),
            "audit": {"schema": 1, **orders},
        }
        line = PROBE.command(command, folder, config, folder / "config.json", link=True)
        environment = {"KERAS_BACKEND": "tensorflow", **os.environ, **TRACING_ENVIRONMENT}
        status = run_to_end(line, environment, stdout, stderr, timeout_s)
        document, graph = read_object(folder / "out" / "audit.json"), read_object(folder / "out" / "graph.json")
        last = last_line(stderr) or last_line(stdout)
    if document.get("finished"):
        return Done(document, graph, last)
    if status is None:
        what = "it did not come to a training step" if orders.get("run") else "it was not imported and traced"
        raise InputError(file, f"{what} within {timeout_s:g} s", "allow more (--timeout)")
    raise InputError(file, f"its interpreter {ending(status)}" + (f": {last}" if last else ""))
