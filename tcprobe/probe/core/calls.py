"""Keeps every call that trains, for calls.bin: which, when, in which thread, and how many steps it made.

The file is a header and records of 16 bytes, all little-endian: the start of a call in ns since the start of the
workload; then 24 bits for its key, 8 for its thread and 32 for its steps. A record of TAKEN_BACK steps is no call: it
says that the latest call before it was none.
"""

from __future__ import annotations

import os
import struct
from array import array
from itertools import chain
from typing import Dict, Sequence

from ..constants import CALL_BYTES, CALLS_MAGIC, CALLS_VERSION, MOST_CALLS, TAKEN_BACK

HEADER = struct.pack("<8sHHI", CALLS_MAGIC, CALLS_VERSION, CALL_BYTES, 0)
OTHERS = 255  # all threads from the 255th on


class CallLog:
    """The calls of a run: those that are not in the file yet, and how many there are.

    Args:
        path: of the file.

    Attributes:
        kept: calls in the file, or on their way there.
        lost: calls that came when it was full.
    """

    def __init__(self, path: str) -> None:
        self.kept = 0
        self.lost = 0
        self._path = path
        self._words = array("q", struct.unpack("<2q", HEADER))
        self._begun = False  # the file is there, unless somebody removed it
        self._threads: Dict[int, int] = {}

    def add(self, key: int, start: int, steps: int, thread: int = 0) -> None:
        """Add a call; `thread` is its identifier, 0 of the thread that trains."""
        if self.kept >= MOST_CALLS:
            self.lost += 1
            return
        if thread:
            key |= min(self._threads.setdefault(thread, len(self._threads) + 1), OTHERS) << 24
        # In one call of a C function: what writes them sees all words of a record, or none.
        self._words.extend((start, key | steps << 32))
        self.kept += 1

    def add_all(self, keys: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> None:
        """Add some calls of the thread that trains."""
        room = min(MOST_CALLS - self.kept, len(keys))
        words = [key | each << 32 for key, each in zip(keys[:room], steps)]
        self._words.extend(array("q", chain.from_iterable(zip(starts, words))))
        self.kept += room
        self.lost += len(keys) - room

    def take_back(self, at: int) -> None:
        """Note that the latest call of the thread that trains was none."""
        self.add(0, at, TAKEN_BACK)

    def flush(self) -> None:
        """Write what came since the last time, all or nothing; a file that was removed meanwhile is not begun anew.

        Raises:
            OSError: it cannot be written.
        """
        words = self._words[:]
        if not words:
            return
        append(self._path, words.tobytes(), anew=not self._begun)
        self._begun = True
        del self._words[: len(words)]


def append(path: str, data: bytes, anew: bool = False) -> None:
    """Append to a file that is there, all or nothing; `anew`: begin it.

    Raises:
        OSError: it cannot be written.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_TRUNC if anew else 0), 0o600)
    try:
        size = os.fstat(file).st_size
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
