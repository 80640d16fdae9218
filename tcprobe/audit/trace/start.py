"""Starts the probe on a user's file, waits for it, and ends everything that it started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tcprobe.bypath import PROBE, ending, last_line, run_to_end, scratch_folder
from tcprobe.errors import InputError
from tcprobe.jsonfile import read_object

TRACING_ENVIRONMENT: Final = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "MPLBACKEND": "Agg",
    "TCPROBE_AUDIT": "1",
}


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
