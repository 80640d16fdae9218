"""Reads how much memory this process holds."""

from __future__ import annotations


def resident_bytes() -> int:
    """Return the memory that this process holds; 0 where the system does not say (not Linux)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * 4096
