"""Why Nsight Compute counted nothing, from what it printed, and what to do about it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bench.gpu.private import without_paths


class Refusal(NamedTuple):
    """Why nothing is counted here, and what to do about it; `lasting` where trying again cannot help today."""

    reason: str
    remedy: str | None
    lasting: bool


ROOT: Final = (
    "run it as root, or let every user read counters: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in"
    " /etc/modprobe.d, then reboot; in a container give it --cap-add=SYS_ADMIN"
)
KNOWN: Final[tuple[tuple[str, Refusal], ...]] = (
    (
        r"ERR_NVGPUCTRPERM|permission not granted|Insufficient_\w*Permissions",
        Refusal("the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)", ROOT, True),
    ),
    (
        r"driver resource was unavailable",
        Refusal(
            "another tool holds the GPU's counters, or this user may not read them",
            f"end DCGM's profiling (dcgmi profile --pause) and other profilers; {ROOT}",
            True,
        ),
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler",
        Refusal(
            "Nsight Compute cannot reach the driver's counters from here (a sandbox such as gVisor)",
            "record on the machine itself, or in a virtual machine or container with the driver's own devices",
            True,
        ),
    ),
    (
        r"failed to connect to the CUDA driver|Driver could not be loaded|No CUDA-capable device|no devices? found",
        Refusal("Nsight Compute finds no driver of an NVIDIA GPU", None, True),
    ),
    (
        r"(?:Profiling|Device|Chip) .*not supported|UnsupportedGpu|does not support (?:this|the) (?:device|GPU)",
        Refusal(
            "this Nsight Compute does not support this GPU",
            "use a version of Nsight Compute made for it (2024.3 and later leave out Pascal, 2025.3 Volta)",
            True,
        ),
    ),
    (
        r"CUDA_INJECTION64_PATH is set",
        Refusal("another tool is loaded: CUDA_INJECTION64_PATH is set", "unset it", True),
    ),
)
MOST: Final = 200  # characters of its own words
_ERROR: Final = re.compile(r"^==ERROR== *(.+)$", re.MULTILINE)


def refusal(printed: str) -> Refusal:
    """Return why nothing was counted, by what Nsight Compute printed beside the program's own lines."""
    own = "\n".join(line for line in printed.splitlines() if line.startswith("=="))
    for pattern, known in KNOWN:
        if re.search(pattern, own, re.IGNORECASE):
            return known
    error = _ERROR.search(own)
    if error:
        return Refusal(f"Nsight Compute: {without_paths(error[1].strip())[:MOST]}", None, False)
    return Refusal("Nsight Compute counted nothing", None, False)
