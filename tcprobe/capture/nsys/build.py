"""Which `nsys` is installed and which options it has: read from its help, as they differ from version to version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tcprobe.capture.program import ask, first_line, missing, paragraph, version_in, where, words
from tcprobe.errors import ToolError

NSYS: Final = "nsys"
INSTALL: Final = (
    "it is part of the CUDA toolkit and of NVIDIA's containers (https://developer.nvidia.com/nsight-systems); "
    "put its folder on PATH"
)
TRACES: Final = ("cuda", "nvtx", "cudnn", "cublas")
"""What is traced where a build can: kernels, ranges, and the libraries whose calls tell what a kernel is of."""
_NEEDED: Final = ("--trace", "--output")


@dataclass(frozen=True, slots=True)
class Build:
    """One installed Nsight Systems.

    Attributes:
        version: as ``--version`` prints it (``2022.4.2.1``); None if it prints none.
        flags: the long options of ``nsys profile``.
        short: the long names of its short ones.
        traces: of `TRACES`, those that it can trace.
        stops_alone: whether a capture range can end without ending the workload.
    """

    version: str | None
    flags: frozenset[str]
    short: Mapping[str, str]
    traces: tuple[str, ...]
    stops_alone: bool


def ask_build(launcher: tuple[str, ...]) -> Build:
    """Ask the installed Nsight Systems for its version and options.

    Raises:
        ToolError: there is none, it does not start, or it is another program.
    """
    if reason := missing(NSYS, launcher):
        raise ToolError(reason, INSTALL)
    said = ask(launcher, NSYS, "profile", "--help")
    build = parse_help(said, version_in(ask(launcher, NSYS, "--version")))
    if not build.flags.issuperset(_NEEDED) or "nvtx" not in build.traces:
        raise ToolError(
            f"{where(NSYS, launcher)}: is not Nsight Systems, or one that is too old: `nsys profile --help` lists "
            f"no {', '.join(_NEEDED)} with nvtx",
            f"it printed: {first_line(said)!r}",
        )
    return build


def parse_help(text: str, version: str | None) -> Build:
    """Return the build that the help of ``nsys profile`` describes."""
    traces, ends = words(paragraph(text, "--trace")), words(paragraph(text, "--capture-range-end"))
    return Build(
        version,
        frozenset(re.findall(r"^\s*(?:-\w,\s*)?(--[a-z][a-z-]+)", text, re.MULTILINE)),
        dict(re.findall(r"^\s*(-\w),\s*(--[a-z][a-z-]+)", text, re.MULTILINE)),
        tuple(trace for trace in TRACES if trace in traces),
        "stop" in ends,
    )
