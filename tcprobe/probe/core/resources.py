"""Reads how much memory this process holds, and how much a disk still takes."""

from __future__ import annotations

import os
from typing import Optional, Sequence


def resident_bytes() -> int:
    """Return the memory that this process holds; 0 where the system does not say (not Linux)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * 4096


def free_bytes(folder: str) -> int:
    """Return how much may still be written to the disk of a folder; 0 where no file can be made on it."""
    found = os.statvfs(folder)
    return 0 if found.f_files and not found.f_favail else found.f_bavail * found.f_frsize


def why_cut(folder: str, paths: Sequence[str]) -> Optional[str]:
    """Return why files that were written just now may not be whole; None where nothing tells.

    Args:
        folder: where they lie.
        paths: the files.
    """
    if free_bytes(folder) < 2 * os.statvfs(folder).f_frsize:
        return "no space is left on the disk"
    import resource

    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if most != resource.RLIM_INFINITY and any(os.path.getsize(path) >= most for path in paths):
        return "no file may be larger than %d bytes (ulimit -f)" % most
    return None
