"""The processes below a profiler, as /proc shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")


def processes(words: Sequence[str], command: int) -> Iterator[int]:
    """Yield the topmost processes of a command line below another process: a child of theirs is their own affair.

    Args:
        words: the command line; its first word may lead to an interpreter of another name.
        command: the process above them.
    """
    children: dict[int, list[int]] = {}
    for process in (int(entry.name) for entry in PROC.glob("[0-9]*")):
        children.setdefault(_parent(process), []).append(process)
    wanted, below = [os.fsencode(word) for word in words[1:]], [command]
    while below:
        for process in children.get(below.pop(), ()):
            if _words(process)[1:] == wanted:
                yield process
            else:
                below.append(process)


def _parent(process: int) -> int:
    with suppress(OSError):
        return int((PROC / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0


def _words(process: int) -> list[bytes]:
    with suppress(OSError):
        return (PROC / str(process) / "cmdline").read_bytes().split(b"\0")[:-1]
    return []


def dies_of(process: int, number: int) -> bool:
    """Say whether a signal ends a process, which neither handles nor ignores it; not so where that cannot be told."""
    try:
        status = (PROC / str(process) / "status").read_text(errors="replace")
    except OSError:
        return False
    masks = re.findall(r"^Sig(?:Ign|Cgt):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return len(masks) == 2 and not any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
