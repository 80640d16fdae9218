"""Starts the probe on a user's file, waits for it, and ends everything that it started."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tcprobe
from tcprobe.errors import InputError, ToolError

SOURCE: Final = Path(tcprobe.__file__).parent / "probe"
PACKAGE: Final = "tcprobe_probe"
"""Name under which the probe is run: one that shadows nothing of the user's."""
ENVIRONMENT: Final = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "MPLBACKEND": "Agg",
    "TCPROBE_AUDIT": "1",
}
LONGEST_LINE: Final = 300


@dataclass(frozen=True, slots=True)
class Done:
    """What the process left.

    Attributes:
        document: audit.json.
        graph: graph.json; empty where nothing was traced.
        last_line: the last line that the user's code wrote to its standard error, else to its standard output.
    """

    document: dict[str, Any]
    graph: dict[str, Any]
    last_line: str


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
        ToolError: the interpreter does not start, or this installation lacks its probe.
    """
    if not (SOURCE / "__main__.py").is_file():
        raise ToolError(f"{SOURCE}: the probe is missing", "install tcprobe again")
    with tempfile.TemporaryDirectory(prefix="tcprobe-audit-") as name:
        folder = Path(name)
        probe = _placed(folder)
        config = {
            "out": str(folder / "out"),
            "raw": str(folder / "raw"),
            "target": ["script", str(file)],
            "argv": list(argv),
            "audit": {"schema": 1, **orders},
        }
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        status = _run([command, str(probe), str(folder / "config.json")], folder, timeout_s)
        document, graph = _read(folder / "out" / "audit.json"), _read(folder / "out" / "graph.json")
        last_line = _last_line(folder / "stderr") or _last_line(folder / "stdout")
    if document.get("finished"):
        return Done(document, graph, last_line)
    if status is None:
        what = "it did not come to a training step" if orders.get("run") else "it was not imported and traced"
        raise InputError(file, f"{what} within {timeout_s:g} s", "allow more (--timeout)")
    died = f"died of {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    raise InputError(file, f"its interpreter {died}" + (f": {last_line}" if last_line else ""))


def _placed(folder: Path) -> Path:
    """Make the probe runnable by path under its own name; a link lets the interpreter keep what it compiled."""
    place = folder / PACKAGE
    try:
        place.symlink_to(SOURCE, target_is_directory=True)
    except OSError:
        shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def _run(command: list[str], folder: Path, timeout_s: float) -> int | None:
    """Return the exit status, None where the time was up; whatever was started is ended in any case."""
    environment = {"KERAS_BACKEND": "tensorflow", **os.environ, **ENVIRONMENT}
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True
            )
        except OSError as error:
            raise ToolError(f"{command[0]}: it does not start: {error.strerror}") from error
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, which shares its group."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_line(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LONGEST_LINE] if lines else ""
