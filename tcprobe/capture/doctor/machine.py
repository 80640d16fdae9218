"""What this machine's kernel says of its CPU, of the right to read GPU counters, and of a container around us."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Literal

CPU: Final = Path("/proc/cpuinfo")
DRIVER_SETTINGS: Final = Path("/proc/driver/nvidia/params")
OWN_STATUS: Final = Path("/proc/self/status")
MARKS: Final = {"Docker": Path("/.dockerenv"), "Podman": Path("/run/.containerenv")}
VARIABLES: Final = {"Apptainer": "APPTAINER_CONTAINER", "Singularity": "SINGULARITY_CONTAINER"}
KUBERNETES: Final = "KUBERNETES_SERVICE_HOST"
SYS_ADMIN: Final = 21  # bit of the capability that may read counters, as root may: linux/capability.h

Counters = Literal["free", "root", "admin"]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def cpu() -> tuple[str, bool]:
    """Return the CPU's name, empty where the kernel gives none, and whether it multiplies bfloat16 by AMX tiles."""
    text = _text(CPU)
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return name[1].strip() if name else "", bool(re.search(r"^flags\s*:.*\bamx_bf16\b", text, re.MULTILINE))


def counters() -> Counters | None:
    """Return who may read a GPU's counters here: all, this process alone, or the administrator; None if not known."""
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d)", _text(DRIVER_SETTINGS), re.MULTILINE)
    if found is None:
        return None
    rights = re.search(r"^CapEff:\s*([0-9a-f]+)", _text(OWN_STATUS), re.MULTILINE)
    if found[1] == "0":
        return "free"
    return "root" if rights and int(rights[1], 16) >> SYS_ADMIN & 1 else "admin"


def container() -> str:
    """Return what kind of container this process runs in; empty for none that is recognised."""
    marked = [name for name, path in MARKS.items() if path.exists()]
    named = [name for name, variable in VARIABLES.items() if os.environ.get(variable)]
    return next(iter((*named, *marked)), "Kubernetes" if os.environ.get(KUBERNETES) else "")
