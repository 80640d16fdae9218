"""What all readers agree on: what a kernel without a name is called, and how many GPUs can be."""

from __future__ import annotations

from typing import Final

NAMELESS: Final = "(no name)"
MOST_DEVICES: Final = 1024  # of a host; the largest has 16
